"""What other clients wrote reads equal, record by record."""

from __future__ import annotations

import itertools
import pickle
import time
from typing import Any

import confluent_kafka
import pytest

import kafkalite
from kafkalite import Record, errors
from tests.clients.consumer.consuming import PATIENCE_S, Cluster, numbered, part, read, values

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_read_as_another_client_reads_them(
    cluster: Cluster, codec: str
) -> None:
    topic = cluster.topic()
    now = time.time_ns() // 1_000_000
    cluster.write(topic, [b"plain"], codec=codec, timestamp=now - 5_000)
    cluster.write(topic, [None], codec=codec, key=b"tombstone")
    cluster.write(topic, [b""], codec=codec, key=b"")
    headers = [("a", b"1"), ("a", b"2"), ("none", None), ("ü", b"")]
    cluster.write(topic, [b"x" * 5_000] * 50, codec=codec, key="ключ".encode(), headers=headers)
    with cluster.consumer(topic) as consumer:
        ours = read(consumer, 53)
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "other"}
    other = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
    other.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    theirs: list[confluent_kafka.Message] = []
    while len(theirs) < 53:
        theirs += other.consume(53 - len(theirs), PATIENCE_S)
    other.close()
    for record, message in zip(ours, theirs, strict=True):
        assert (record.topic, record.partition) == (message.topic(), message.partition())
        assert (record.offset, record.leader_epoch) == (message.offset(), message.leader_epoch())
        assert (record.key, record.value) == (message.key(), message.value())
        assert list(record.headers) == (message.headers() or [])
        assert (1, record.timestamp_ms) == message.timestamp()
        assert record.timestamp_type == "CreateTime"


def test_the_brokers_timestamps_are_marked_as_such(cluster: Cluster) -> None:
    topic = cluster.topic(config={"message.timestamp.type": "LogAppendTime"})
    cluster.write(topic, [b"x"])
    with cluster.consumer(topic) as consumer:
        record = read(consumer, 1)[0]
    assert record.timestamp_type == "LogAppendTime"
    assert abs(record.timestamp_ms - time.time() * 1_000) < PATIENCE_S * 1_000


def test_poll_returns_one_record_and_none_when_nothing_comes(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(3))
    with cluster.consumer(topic) as consumer:
        polled = [consumer.poll(PATIENCE_S) for _ in range(3)]
        assert [record.value for record in polled if record] == numbered(3)
        assert consumer.poll(0) is None


def test_a_consumer_iterates_over_records(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(5))
    with cluster.consumer(topic) as consumer:
        assert values(itertools.islice(consumer, 5)) == numbered(5)


def test_consume_returns_no_more_than_it_is_asked_for(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(10))
    with cluster.consumer(topic, max_poll_records=4) as consumer:
        first = consumer.consume(timeout=PATIENCE_S)
        assert len(first) == 4
        assert values(first + read(consumer, 6)) == numbered(10)


def test_records_that_are_larger_than_a_fetch_are_read(cluster: Cluster) -> None:
    topic = cluster.topic()
    large = [bytes([65 + number]) * 300_000 for number in range(5)]
    cluster.write(topic, large)
    with cluster.consumer(topic, max_partition_fetch_bytes=1_000, fetch_max_bytes=1_000) as one:
        assert values(read(one, 5)) == large


def test_all_partitions_of_several_topics_are_read_without_a_group(cluster: Cluster) -> None:
    topics = [cluster.topic(3), cluster.topic(2)]
    for topic, number in itertools.product(topics, range(2)):
        cluster.write(topic, [b"x"], partition=number)
    with cluster.consumer(*topics) as consumer:
        places = {(record.topic, record.partition) for record in read(consumer, 4)}
        assert places == set(itertools.product(topics, range(2)))
        assert len(consumer.assignment()) == 5


def test_topics_by_a_pattern_are_read_as_they_come(cluster: Cluster) -> None:
    first = cluster.topic()
    cluster.write(first, [b"first"])
    pattern = f"^{first}(-later)?$"
    group = cluster.group()
    with cluster.consumer(pattern, group_id=group, metadata_max_age_ms=200) as consumer:
        assert values(read(consumer, 1)) == [b"first"]
        cluster.write(f"{first}-later", [b"later"])
        assert values(read(consumer, 1)) == [b"later"]


def test_deserializers_make_keys_and_values(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, [b"1", None], key=b"k")
    settings: dict[str, Any] = {"key_deserializer": bytes.decode, "value_deserializer": int}
    with cluster.consumer(topic, **settings) as consumer:
        records = read(consumer, 2)
    assert [(record.key, record.value) for record in records] == [("k", 1), ("k", None)]


@pytest.mark.parametrize("how", ["poll", "consume"])
def test_a_record_that_cannot_be_deserialized_stays_until_a_seek(
    cluster: Cluster, how: str
) -> None:
    topic = cluster.topic()
    cluster.write(topic, [b"1", b"2", b"no number", b"4"])
    with cluster.consumer(topic, value_deserializer=int) as consumer:
        read_one = consumer.poll if how == "poll" else lambda wait: consumer.consume(9, wait)
        good = [read_one(PATIENCE_S) for _ in range(2 if how == "poll" else 1)]
        assert str(good).count("value=") == 2
        for _ in range(2):
            with pytest.raises(errors.SerializationError, match=f"{topic}-0 at offset 2") as told:
                read_one(PATIENCE_S)
        assert isinstance(told.value.__cause__, ValueError)
        assert told.value.partition == part(topic)
        consumer.seek(told.value.partition, told.value.offset + 1)
        assert values(read(consumer, 1)) == [4]


@pytest.mark.parametrize("how", ["poll", "consume", "next_batch"])
def test_a_deserializer_may_read_the_next_record(cluster: Cluster, how: str) -> None:
    """Its call waited for the call around it, without end where it had no timeout."""
    topic = cluster.topic()
    cluster.write(topic, numbered(5))
    inner: list[int] = []

    def deserialize(value: bytes) -> bytes:
        if value == numbered(5)[2]:
            if how == "poll":
                found = [consumer.poll(PATIENCE_S)]
            elif how == "consume":
                found = [*consumer.consume(1, PATIENCE_S)]
            else:
                batch = consumer.next_batch(1, timeout=PATIENCE_S)
                found = [] if batch is None else [*batch.records()]
            inner.extend(record.offset for record in found if record is not None)
        return value

    with cluster.consumer(topic, value_deserializer=deserialize) as consumer:
        outer = [consumer.poll(PATIENCE_S) for _ in range(4)]
        assert inner == [3]
        assert [record and record.offset for record in outer] == [0, 1, 2, 4]
        assert consumer.position(part(topic)) == 5


def test_a_record_is_a_value() -> None:
    record: Record[bytes, bytes] = Record(
        "t", 1, 2, key=b"k", value=b"v", headers=(("h", None),), timestamp_ms=3, leader_epoch=4
    )
    copy = pickle.loads(pickle.dumps(record))
    assert copy == record
    assert hash(copy) == hash(record)
    assert copy.headers == (("h", None),)
    assert record != Record("t", 1, 3)
    assert record != "t"
    assert repr(Record("t", 0, 7)) == (
        "Record(topic='t', partition=0, offset=7, key=None, value=None, timestamp_ms=-1)"
    )
    with pytest.raises(AttributeError):
        record.value = b"other"  # type: ignore[misc]


def test_a_topic_that_cannot_be_is_refused_by_the_next_call(cluster: Cluster) -> None:
    with cluster.consumer("no/topic") as consumer, pytest.raises(errors.InvalidTopicError):
        consumer.poll(PATIENCE_S)


def test_an_absent_broker_is_an_error_with_the_cause_for_each_address() -> None:
    with (
        kafkalite.Consumer(
            "t", bootstrap_servers="127.0.0.1:1", kafkalite_bootstrap_timeout_ms=300
        ) as consumer,
        pytest.raises(errors.NoBrokerReachable, match=r"127\.0\.0\.1:1"),
    ):
        consumer.poll(PATIENCE_S)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"auto_offset_rest": "latest"}, "auto.offset.reset"),
        ({"auto_offset_reset": "newest"}, "auto.offset.reset"),
        ({"partition_assignment_strategy": "stiky"}, "sticky"),
        ({"group_instance_id": "i"}, "group.id"),
    ],
)
def test_a_wrong_configuration_is_refused_at_once(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(errors.ConfigError) as told:
        kafkalite.Consumer(bootstrap_servers="127.0.0.1:1", **settings)
    assert match in f"{told.value} {told.value.hint}"


@pytest.mark.parametrize("topics", [(), (5,), ("^a", "b"), ("^(",)])
def test_a_wrong_selection_of_topics_is_refused(topics: tuple[Any, ...]) -> None:
    with (
        kafkalite.Consumer(bootstrap_servers="127.0.0.1:1") as consumer,
        pytest.raises(errors.InvalidArgumentError),
    ):
        consumer.subscribe(*topics)
