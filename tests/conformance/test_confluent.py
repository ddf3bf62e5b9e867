"""confluent-kafka (librdkafka's Python client): daily work, each behaviour by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.harness.brokers import Broker
from tests.harness.load import create_topic
from tests.harness.patience import eventually

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Unique = Callable[[str], str]


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    """An admin client of the broker under judgement."""
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def topic(broker: Broker, unique: Unique) -> str:
    """A topic with three partitions."""
    name = unique("confluent")
    create_topic(broker.bootstrap, name, 3)
    return name


@contextmanager
def consumer(broker: Broker, group: str, **config: Any) -> Iterator[Consumer]:
    """A consumer that starts at the beginning and commits by hand."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 20000,
        "heartbeat.interval.ms": 500,
    }
    settings.update({key.replace("_", "."): value for key, value in config.items()})
    one = Consumer(settings)
    try:
        yield one
    finally:
        one.close()


def send(broker: Broker, topic: str, values: list[Any], **config: Any) -> list[Any]:
    """Produce values (or dicts of produce arguments) and return the delivered messages."""
    settings = {"bootstrap.servers": broker.bootstrap, "linger.ms": 5}
    settings.update({key.replace("_", "."): value for key, value in config.items()})
    producer = Producer(settings)
    delivered: list[Any] = []

    def done(error: KafkaError | None, message: Any) -> None:
        assert error is None, error
        delivered.append(message)

    for value in values:
        arguments = value if isinstance(value, dict) else {"value": value}
        while True:
            try:
                producer.produce(topic, on_delivery=done, **arguments)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(30) == 0
    return delivered


def take(one: Consumer, count: int, seconds: float = 30) -> list[Any]:
    """Poll until ``count`` messages came."""
    got: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(got) < count and time.monotonic() < deadline:
        for message in one.consume(count - len(got), 0.5):
            assert message.error() is None, message.error()
            got.append(message)
    return got


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_each_codec_come_back_as_they_were_sent(
    broker: Broker, topic: str, unique: Unique, codec: str
) -> None:
    values = [f"{i}-{'y' * (i % 300)}".encode() for i in range(2_000)]
    rows = [{"value": value, "key": b"k", "partition": 1} for value in values]
    send(broker, topic, rows, compression_type=codec, enable_idempotence=True)
    with consumer(broker, unique("g"), check_crcs=True) as one:
        one.assign([TopicPartition(topic, 1, 0)])
        got = take(one, len(values))
    assert [message.value() for message in got] == values
    assert [message.offset() for message in got] == list(range(len(values)))


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_delivers(broker: Broker, topic: str, unique: Unique, acks: object) -> None:
    delivered = send(broker, topic, [b"%d" % i for i in range(100)], acks=acks)
    assert len(delivered) == 100
    with consumer(broker, unique("g")) as one:
        one.subscribe([topic])
        assert len(take(one, 100)) == 100


def test_headers_keys_nulls_and_timestamps_pass_through(
    broker: Broker, topic: str, unique: Unique
) -> None:
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", b""), ("null", None)]
    row = {"value": None, "key": b"", "headers": headers, "timestamp": 1_600_000_000_123}
    send(broker, topic, [{**row, "partition": 2}])
    with consumer(broker, unique("g")) as one:
        one.assign([TopicPartition(topic, 2, 0)])
        (message,) = take(one, 1)
    assert message.value() is None
    assert message.key() in (b"", None)
    assert message.headers() == headers
    assert message.timestamp() == (1, 1_600_000_000_123)


def test_a_message_below_the_limit_passes_and_one_above_is_refused(
    broker: Broker, topic: str, unique: Unique
) -> None:
    large = bytes(range(256)) * 3_900
    send(broker, topic, [{"value": large, "partition": 0}], message_max_bytes=5_000_000)
    with consumer(broker, unique("g")) as one:
        one.assign([TopicPartition(topic, 0, 0)])
        assert take(one, 1)[0].value() == large
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 5_000_000})
    producer.produce(topic, b"x" * 2_000_000, on_delivery=lambda error, _: errors.append(error))
    producer.flush(20)
    assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_a_seek_by_time_finds_the_first_record_at_or_after_it(
    broker: Broker, topic: str, unique: Unique
) -> None:
    base = 1_650_000_000_000
    rows = [{"value": b"v", "timestamp": base + i * 1000, "partition": 0} for i in range(100)]
    send(broker, topic, rows, linger_ms=0, batch_num_messages=7)
    with consumer(broker, unique("g")) as one:
        for stamp, offset in ((base, 0), (base + 1, 1), (base + 50_000, 50), (base + 98_001, 99)):
            (found,) = one.offsets_for_times([TopicPartition(topic, 0, stamp)], 10)
            assert found.offset == offset, stamp
        (beyond,) = one.offsets_for_times([TopicPartition(topic, 0, base + 10**9)], 10)
        assert beyond.offset == -1
        assert one.get_watermark_offsets(TopicPartition(topic, 0), 10) == (0, 100)


def test_committed_offsets_and_their_metadata_are_where_a_group_resumes(
    broker: Broker, topic: str, unique: Unique
) -> None:
    group = unique("g")
    send(broker, topic, [{"value": b"%d" % i, "partition": 0} for i in range(20)])
    with consumer(broker, group) as one:
        one.subscribe([topic])
        take(one, 20)
        mark = TopicPartition(topic, 0, 12, "a note")
        one.commit(offsets=[mark], asynchronous=False)
        (committed,) = one.committed([TopicPartition(topic, 0)], 10)
        assert (committed.offset, committed.metadata) == (12, "a note")
    with consumer(broker, group) as one:
        one.subscribe([topic])
        assert [message.value() for message in take(one, 8)] == [b"%d" % i for i in range(12, 20)]


def assigned(members: list[Consumer], total: int, seconds: float = 30) -> list[int]:
    """Poll all members until together they own ``total`` partitions; the share of each."""
    deadline = time.monotonic() + seconds
    shares: list[int] = []
    while time.monotonic() < deadline:
        for member in members:
            member.poll(0.1)
        shares = [len(member.assignment()) for member in members]
        if sum(shares) == total and min(shares) > 0:
            return shares
    return shares


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_a_group_shares_the_partitions_and_takes_over_from_one_that_leaves(
    broker: Broker, topic: str, unique: Unique, strategy: str
) -> None:
    group = unique("g")
    config = {"partition_assignment_strategy": strategy}
    with consumer(broker, group, **config) as first:
        first.subscribe([topic])
        assert assigned([first], 3) == [3]
        with consumer(broker, group, **config) as second:
            second.subscribe([topic])
            assert sorted(assigned([first, second], 3)) == [1, 2]
        assert assigned([first], 3) == [3]


def test_a_static_member_gets_its_partitions_back_without_a_rebalance(
    broker: Broker, topic: str, unique: Unique
) -> None:
    group = unique("g")
    rebalances: list[str] = []
    with consumer(broker, group, group_instance_id="one", session_timeout_ms=20000) as stays:
        stays.subscribe([topic], on_assign=lambda *_: rebalances.append("assign"))
        with consumer(broker, group, group_instance_id="two", session_timeout_ms=20000) as goes:
            goes.subscribe([topic])
            assert sorted(assigned([stays, goes], 3)) == [1, 2]
            share = {part.partition for part in goes.assignment()}
        before = len(rebalances)
        with consumer(broker, group, group_instance_id="two", session_timeout_ms=20000) as back:
            back.subscribe([topic])
            assert sorted(assigned([stays, back], 3)) == [1, 2]
            assert {part.partition for part in back.assignment()} == share
        assert len(rebalances) == before


def test_a_second_consumer_with_the_same_instance_id_fences_the_first(
    broker: Broker, topic: str, unique: Unique
) -> None:
    group, seen = unique("g"), []
    with consumer(broker, group, group_instance_id="same") as first:
        first.subscribe([topic])
        assert assigned([first], 3) == [3]
        with consumer(broker, group, group_instance_id="same") as second:
            second.subscribe([topic])
            deadline = time.monotonic() + 20
            while not seen and time.monotonic() < deadline:
                second.poll(0.1)
                try:
                    message = first.poll(0.1)
                except KafkaException as error:
                    seen.append(error.args[0].code())
                    break
                if message is not None and message.error() is not None:
                    seen.append(message.error().code())
    assert set(seen) & {KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL}


def test_topics_are_created_described_grown_and_deleted(admin: AdminClient, unique: Unique) -> None:
    name = unique("admin")
    admin.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "60000"})])[name].result(20)
    eventually(lambda: len(admin.list_topics(name, 10).topics[name].partitions) == 2)
    admin.create_partitions([NewPartitions(name, 5)])[name].result(20)
    eventually(lambda: len(admin.list_topics(name, 10).topics[name].partitions) == 5)
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.delete_topics([name])[name].result(20)
    eventually(lambda: name not in admin.list_topics(timeout=10).topics)


def test_topic_configs_are_described_and_altered_one_by_one(
    broker: Broker, admin: AdminClient, topic: str, unique: Unique
) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (described,) = admin.describe_configs([resource]).values()
    assert described.result(20)["cleanup.policy"].value == "delete"
    change = ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    target = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    (altered,) = admin.incremental_alter_configs([target]).values()
    altered.result(20)
    # Any change that is waited for shows that the one before it was applied.
    create_topic(broker.bootstrap, unique("settled"), 1)
    (described,) = admin.describe_configs([resource]).values()
    assert described.result(20)["retention.ms"].value == "123456"


def test_groups_are_listed_described_altered_and_deleted(
    broker: Broker, admin: AdminClient, topic: str, unique: Unique
) -> None:
    group = unique("g-admin")
    send(broker, topic, [b"v"] * 30)
    with consumer(broker, group) as one:
        one.subscribe([topic])
        take(one, 30)
        one.commit(asynchronous=False)
        described = admin.describe_consumer_groups([group])[group].result(20)
        assert described.state.name == "STABLE"
        assert len(described.members) == 1
    listed = admin.list_consumer_groups().result()
    assert group in {one.group_id for one in listed.valid}
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
    admin.alter_consumer_group_offsets([moved])[group].result(20)
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    (answer,) = admin.list_consumer_group_offsets([asked])[group].result(20).topic_partitions
    assert answer.offset == 1
    admin.delete_consumer_groups([group])[group].result(20)


def test_records_below_an_offset_are_deleted(
    broker: Broker, admin: AdminClient, topic: str
) -> None:
    send(broker, topic, [{"value": b"v", "partition": 0}] * 50)
    cut = TopicPartition(topic, 0, 30)
    (answer,) = admin.delete_records([cut]).values()
    assert answer.result(20).low_watermark == 30
    (earliest,) = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()}).values()
    assert earliest.result(20).offset == 30


def test_the_cluster_describes_itself(broker: Broker, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(20)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [broker.bootstrap]
    assert cluster.controller is not None
    assert cluster.cluster_id
