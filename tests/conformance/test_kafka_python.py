"""kafka-python: a third codec; pinned to old broker versions it speaks old request versions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata

from tests.harness.brokers import Broker
from tests.harness.load import wait_until_led
from tests.harness.patience import ended, eventually

CODECS = (None, "gzip", "snappy", "lz4", "zstd")
Unique = Callable[[str], str]

#: Broker versions a client may be pinned to; each makes it choose other request versions.
#: 2.1 is the oldest that Apache Kafka 4 still talks to (KIP-896).
PINNED = ((2, 1), (2, 3), (2, 6), (3, 0), (3, 7), (4, 0))


@pytest.fixture
def admin(broker: Broker) -> Any:
    """An admin client."""
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(broker: Broker, admin: KafkaAdminClient, unique: Unique) -> str:
    """A topic with three partitions."""
    name = unique("kafka-python")
    admin.create_topics([NewTopic(name, 3, 1)])
    wait_until_led(broker.bootstrap, name, 3)
    return name


def send(broker: Broker, topic: str, rows: list[dict[str, Any]], **config: Any) -> list[Any]:
    """Produce rows (arguments of ``send``); the metadata of each."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, **config)
    futures = [producer.send(topic, **row) for row in rows]
    producer.flush(30)
    metadata = [future.get(30) for future in futures]
    producer.close()
    return metadata


def consumer(broker: Broker, *topics: str, **config: Any) -> KafkaConsumer:
    """A consumer from the beginning, committing by hand."""
    settings = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": 20000,
        "heartbeat_interval_ms": 500,
        **config,
    }
    return KafkaConsumer(*topics, bootstrap_servers=broker.bootstrap, **settings)


def take(one: KafkaConsumer, count: int, seconds: float = 30) -> list[Any]:
    """Poll until ``count`` records came."""
    got: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(got) < count and time.monotonic() < deadline:
        for batch in one.poll(500).values():
            got += batch
    return got


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_each_codec_come_back_as_they_were_sent(
    broker: Broker, topic: str, codec: str | None
) -> None:
    values = [b"%d" % i + b"y" * (i % 300) for i in range(1_000)]
    rows = [{"value": value, "key": b"k", "partition": 0} for value in values]
    send(broker, topic, rows, compression_type=codec, acks="all")
    one = consumer(broker, topic)
    got = take(one, len(values))
    one.close()
    assert [record.value for record in got] == values
    assert [record.offset for record in got] == list(range(len(values)))


@pytest.mark.parametrize("version", PINNED, ids=lambda v: ".".join(map(str, v)))
def test_a_client_pinned_to_an_older_broker_produces_and_reads_in_a_group(
    broker: Broker, topic: str, unique: Unique, version: tuple[int, int]
) -> None:
    rows = [{"value": b"%d" % i, "headers": [("h", b"1")]} for i in range(100)]
    send(broker, topic, rows, api_version=version, enable_idempotence=False)
    group = unique("g")
    one = consumer(broker, topic, group_id=group, api_version=version)
    got = take(one, 100)
    one.commit()
    one.close()
    assert {record.value for record in got} == {b"%d" % i for i in range(100)}
    send(broker, topic, [{"value": b"later"}], api_version=version, enable_idempotence=False)
    again = consumer(broker, topic, group_id=group, api_version=version)
    assert [record.value for record in take(again, 1)] == [b"later"]
    again.close()


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_delivers(broker: Broker, topic: str, acks: object) -> None:
    rows = [{"value": b"%d" % i} for i in range(100)]
    send(broker, topic, rows, acks=acks, enable_idempotence=False)
    one = consumer(broker, topic)
    assert len(take(one, 100)) == 100
    one.close()


def test_headers_nulls_and_timestamps_pass_through(broker: Broker, topic: str) -> None:
    headers = [("a", b"1"), ("a", b"2"), ("empty", b"")]
    row = {"key": b"k", "value": None, "timestamp_ms": 1_600_000_000_123, "headers": headers}
    send(broker, topic, [row])
    one = consumer(broker, topic)
    (record,) = take(one, 1)
    one.close()
    assert (record.key, record.value, record.timestamp) == (b"k", None, 1_600_000_000_123)
    assert [tuple(header) for header in record.headers] == headers


def test_a_record_above_the_limit_of_the_topic_is_refused(broker: Broker, topic: str) -> None:
    send(broker, topic, [{"value": bytes(1_000_000)}], max_request_size=9_000_000)
    with pytest.raises(MessageSizeTooLargeError):
        send(broker, topic, [{"value": bytes(2_000_000)}], max_request_size=9_000_000)


def test_a_seek_by_time_finds_the_first_record_at_or_after_it(broker: Broker, topic: str) -> None:
    base = 1_650_000_000_000
    rows = [{"value": b"v", "partition": 0, "timestamp_ms": base + i} for i in range(50)]
    send(broker, topic, rows)
    part = TopicPartition(topic, 0)
    one = consumer(broker)
    one.assign([part])
    for stamp, offset in ((0, 0), (base + 20, 20), (base + 49, 49)):
        assert one.offsets_for_times({part: stamp})[part].offset == offset
    assert one.offsets_for_times({part: base + 50})[part] is None
    one.seek(part, 45)
    assert [record.offset for record in take(one, 5)] == [45, 46, 47, 48, 49]
    assert one.beginning_offsets([part])[part] == 0
    assert one.end_offsets([part])[part] == 50
    one.close()


def test_a_group_resumes_at_its_committed_offsets(
    broker: Broker, topic: str, unique: Unique
) -> None:
    send(broker, topic, [{"value": b"%d" % i, "partition": 1} for i in range(20)])
    part, group = TopicPartition(topic, 1), unique("g")
    first = consumer(broker, topic, group_id=group)
    take(first, 20)
    first.commit({part: OffsetAndMetadata(12, "a note", -1)})
    committed = first.committed(part, metadata=True)
    assert (committed.offset, committed.metadata) == (12, "a note")
    first.close()
    second = consumer(broker, topic, group_id=group)
    got = take(second, 8)
    second.close()
    assert [record.value for record in got] == [b"%d" % i for i in range(12, 20)]


@pytest.mark.parametrize("instances", [(None, None), ("one", "two")], ids=["dynamic", "static"])
def test_two_members_share_a_topic(
    broker: Broker, topic: str, unique: Unique, instances: tuple[str | None, str | None]
) -> None:
    group = unique("g")
    shares: dict[int, int] = {}
    done = threading.Event()

    def member(number: int) -> None:
        own = {"group_instance_id": instances[number], "metadata_max_age_ms": 1_000}
        one = consumer(broker, topic, group_id=group, **own)
        while not done.is_set():
            one.poll(100)
            shares[number] = len(one.assignment())
        one.close()

    threads = [threading.Thread(target=member, args=(number,)) for number in (0, 1)]
    # One after the other: a member that leads before it knows the topic assigns nothing.
    threads[0].start()
    eventually(lambda: shares.get(0) == 3, 30)
    threads[1].start()
    try:
        eventually(lambda: sorted(shares.values()) == [1, 2], 30)
    finally:
        done.set()
        for thread in threads:
            ended(thread)


def test_the_admin_client_creates_describes_grows_and_deletes(
    admin: KafkaAdminClient, topic: str
) -> None:
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 1, 1)])
    admin.create_partitions({topic: NewPartitions(5)})
    eventually(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 5)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "4321"})
    admin.alter_configs([resource])
    asked = [ConfigResource(ConfigResourceType.TOPIC, topic)]
    eventually(lambda: "4321" in str(admin.describe_configs(asked)))
    admin.delete_topics([topic])
    eventually(lambda: topic not in admin.list_topics())


def test_the_admin_client_sees_groups_and_their_offsets(
    broker: Broker, admin: KafkaAdminClient, topic: str, unique: Unique
) -> None:
    group = unique("g")
    send(broker, topic, [{"value": b"v", "partition": 0}] * 5)
    one = consumer(broker, topic, group_id=group)
    take(one, 5)
    one.commit()
    assert group in str(admin.list_groups())
    assert admin.describe_groups([group])[group]["group_state"] == "Stable"
    one.close()
    admin.delete_groups([group])
    assert group not in str(admin.list_groups())


def test_records_below_an_offset_are_deleted(
    broker: Broker, admin: KafkaAdminClient, topic: str
) -> None:
    send(broker, topic, [{"value": b"v", "partition": 0}] * 50)
    part = TopicPartition(topic, 0)
    admin.delete_records({part: 30})
    one = consumer(broker)
    assert one.beginning_offsets([part])[part] == 30
    one.close()


def test_the_cluster_and_its_log_dirs_describe_themselves(
    broker: Broker, admin: KafkaAdminClient
) -> None:
    cluster = admin.describe_cluster()
    assert str(broker.port) in str(cluster)
    assert admin.describe_log_dirs()
