"""What a producer writes, as others read it, and where it goes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer as Confluent

import kafkalite as kl
from tests.clients.producer.reading import Read, read

PATIENCE_S = 30.0
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
NOW_MS = int(time.time() * 1000)


@pytest.fixture
def producer(kafkalite_bootstrap: str) -> Iterator[kl.Producer]:
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap) as made:
        yield made


def make(admin: kl.AdminClient, name: str, partitions: int) -> str:
    admin.create_topic(name, partitions=partitions)
    return name


#: Key, value, headers, and how long ago.
SAMPLES: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]] = [
    (b"key", b"value", [("name", b"bytes")], 0),
    (None, b"value", [], 1_000),
    (b"", b"", [("", b"")], 60_000),
    (b"tombstone", None, [("null", None)], 5),
    (b"\x00\xff" * 200, b"\x00" * 3_000, [("twice", b"1"), ("twice", b"2")], 0),
    (None, None, [("n" * 300, b"v" * 300)], 123_456),
]


@pytest.mark.parametrize("codec", CODECS)
def test_records_read_as_they_were_sent_whatever_the_codec(
    kafkalite_bootstrap: str, admin: kl.AdminClient, name: str, codec: str
) -> None:
    make(admin, name, 1)
    with kl.Producer(
        bootstrap_servers=kafkalite_bootstrap,
        config={"compression.type": codec, "linger.ms": 50},
    ) as producer:
        for key, value, headers, ago in SAMPLES:
            when = NOW_MS - ago
            producer.produce(name, value, key=key, headers=headers, timestamp_ms=when)
        producer.flush(PATIENCE_S)
    expected = [
        Read(0, offset, NOW_MS - ago, key, value, tuple(headers))
        for offset, (key, value, headers, ago) in enumerate(SAMPLES)
    ]
    assert read(kafkalite_bootstrap, name, len(SAMPLES)) == expected


def test_one_by_one_or_as_a_batch_records_are_the_same(
    kafkalite_bootstrap: str, admin: kl.AdminClient, name: str, producer: kl.Producer
) -> None:
    make(admin, name, 1)
    keys, values, headers, agos = zip(*SAMPLES, strict=True)
    times = [NOW_MS - ago for ago in agos]
    delivery = producer.send_batch(
        name, list(values), keys=list(keys), headers=list(headers), timestamps=times
    )
    assert len(delivery) == len(SAMPLES)
    assert delivery.result(PATIENCE_S) == [kl.DeliveredRange(name, 0, 0, len(SAMPLES))]
    found = read(kafkalite_bootstrap, name, len(SAMPLES))
    assert [(r.key, r.value, list(r.headers), r.timestamp_ms) for r in found] == [
        (key, value, headers, NOW_MS - ago) for key, value, headers, ago in SAMPLES
    ]


def test_a_key_goes_where_confluents_murmur2_puts_it(
    kafkalite_bootstrap: str, admin: kl.AdminClient, name: str, producer: kl.Producer
) -> None:
    partitions = 12
    theirs_name, ours, bulk = (make(admin, f"{name}-{i}", partitions) for i in range(3))
    keys = [f"key-{number}".encode() for number in range(300)] + [b"", b"\xff" * 7]
    theirs = Confluent({"bootstrap.servers": kafkalite_bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        theirs.produce(theirs_name, key, key)
        producer.produce(ours, key, key=key)
    assert theirs.flush(PATIENCE_S) == 0
    producer.send_batch(bulk, keys, keys=keys)
    producer.flush(PATIENCE_S)
    places = [
        {r.key: r.partition for r in read(kafkalite_bootstrap, topic, len(keys), partitions)}
        for topic in (theirs_name, ours, bulk)
    ]
    # An empty key is a key to Kafka, and to librdkafka it is none.
    for place in places:
        place.pop(b"", None)
    assert places[1] == places[0]
    assert places[2] == places[0]


def test_consistent_random_is_where_librdkafka_puts_keys_by_default(
    kafkalite_bootstrap: str, admin: kl.AdminClient, name: str
) -> None:
    make(admin, f"{name}-a", 7)
    make(admin, f"{name}-b", 7)
    keys = [f"key-{number}".encode() for number in range(100)]
    theirs = Confluent({"bootstrap.servers": kafkalite_bootstrap})
    settings = {"bootstrap.servers": kafkalite_bootstrap, "partitioner": "consistent_random"}
    with kl.Producer(config=settings) as ours:
        for key in keys:
            theirs.produce(f"{name}-a", key, key)
            ours.produce(f"{name}-b", key, key=key)
    assert theirs.flush(PATIENCE_S) == 0
    places = [
        {r.key: r.partition for r in read(kafkalite_bootstrap, f"{name}-{side}", len(keys), 7)}
        for side in "ab"
    ]
    assert places[0] == places[1]


def test_records_without_a_key_reach_every_partition(
    kafkalite_bootstrap: str, admin: kl.AdminClient, name: str
) -> None:
    make(admin, name, 3)
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap, batch_size=1_000) as producer:
        deliveries = [producer.send(name, b"x" * 100) for _ in range(2_000)]
        partitions = {delivery.result(PATIENCE_S).partition for delivery in deliveries}
    assert partitions == {0, 1, 2}


def test_a_named_partition_wins_over_the_key(
    admin: kl.AdminClient, name: str, producer: kl.Producer
) -> None:
    make(admin, name, 4)
    for partition in range(4):
        delivery = producer.send(name, b"v", key=b"same", partition=partition)
        assert delivery.partition == partition
        assert delivery.result(PATIENCE_S).partition == partition
    assert producer.partitions_for(name) == [0, 1, 2, 3]
    with pytest.raises(kl.InvalidArgumentError, match="partition: -1 is negative"):
        producer.send(name, b"v", partition=-1)


def test_offsets_follow_the_order_of_sending(
    admin: kl.AdminClient, name: str, producer: kl.Producer
) -> None:
    make(admin, name, 1)
    deliveries = [producer.send(name, b"%d" % number) for number in range(1_000)]
    offsets = [delivery.result(PATIENCE_S).offset for delivery in deliveries]
    assert offsets == list(range(1_000))
    assert producer.metrics()["record-send-total"] == 1_000.0
    assert producer.metrics()["buffer-available-bytes"] == producer.metrics()["buffer-total-bytes"]


def test_a_topic_with_append_time_tells_the_brokers_time(
    admin: kl.AdminClient, name: str, producer: kl.Producer
) -> None:
    admin.create_topic(name, config={"message.timestamp.type": "LogAppendTime"})
    metadata = producer.send(name, b"v", timestamp_ms=NOW_MS - 60_000).result(PATIENCE_S)
    assert metadata.timestamp_ms >= NOW_MS


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_arrive_with_each_acks(
    kafkalite_bootstrap: str, admin: kl.AdminClient, name: str, acks: int | str
) -> None:
    make(admin, name, 1)
    config = {"bootstrap.servers": kafkalite_bootstrap, "acks": acks}
    with kl.Producer(config=config) as producer:
        metadata = producer.send(name, b"v").result(PATIENCE_S)
        assert metadata.offset == (-1 if acks == 0 else 0)
    place = kl.TopicPartition(name, 0)
    # Without acks nothing but the log itself says that it is there.
    deadline = time.monotonic() + PATIENCE_S
    while admin.list_offsets({place: "latest"})[place].offset == 0:
        assert time.monotonic() < deadline
    assert [record.value for record in read(kafkalite_bootstrap, name, 1)] == [b"v"]


def test_batches_larger_than_the_topic_takes_are_split(
    kafkalite_bootstrap: str, admin: kl.AdminClient, name: str
) -> None:
    admin.create_topic(name, config={"max.message.bytes": 2_000})
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap, batch_size=100_000) as producer:
        delivery = producer.send_batch(name, [b"%d" % number * 20 for number in range(2_000)])
        ranges = delivery.result(PATIENCE_S)
        assert sum(r.count for r in ranges) == 2_000
        assert producer.metrics()["batch-split-total"] > 0
        with pytest.raises(kl.MessageTooLarge) as caught:
            producer.send(name, b"x" * 3_000).result(PATIENCE_S)
        assert caught.value.code == 10
        assert producer.send(name, b"after").result(PATIENCE_S).offset == 2_000
    found = read(kafkalite_bootstrap, name, 2_001)
    assert [r.value for r in found[:-1]] == [b"%d" % number * 20 for number in range(2_000)]


def test_serializers_make_bytes_of_keys_and_values(
    kafkalite_bootstrap: str, admin: kl.AdminClient, name: str
) -> None:
    make(admin, name, 1)
    with kl.Producer(
        bootstrap_servers=kafkalite_bootstrap,
        key_serializer=kl.StringSerializer(),
        value_serializer=kl.JsonSerializer(sort_keys=True),
    ) as producer:
        producer.produce(name, {"b": 1, "a": ["ä", None]}, key="käse")
        producer.produce(name, None, key="tombstone")
        producer.send_batch(name, [1, None], keys=["one", None]).result(PATIENCE_S)
        with pytest.raises(kl.SerializationError) as caught:
            producer.send(name, object())
        assert isinstance(caught.value.__cause__, TypeError)
    found = read(kafkalite_bootstrap, name, 4)
    assert [r.key for r in found] == ["käse".encode(), b"tombstone", b"one", None]
    assert found[0].value == '{"a":["ä",null],"b":1}'.encode()
    assert json.loads(found[0].value) == {"a": ["ä", None], "b": 1}
    assert [r.value for r in found[1:]] == [None, b"1", None]


def test_texts_and_buffers_are_written_as_their_bytes(
    kafkalite_bootstrap: str, admin: kl.AdminClient, name: str, producer: kl.Producer
) -> None:
    make(admin, name, 1)
    producer.produce(name, "grün", key=bytearray(b"key"), headers={"h": "ü", "n": None})
    producer.produce(name, memoryview(b"view"))
    producer.send_batch(name, ["a", bytearray(b"b"), None, b"d"]).result(PATIENCE_S)
    found = read(kafkalite_bootstrap, name, 6)
    assert [r.value for r in found] == ["grün".encode(), b"view", b"a", b"b", None, b"d"]
    assert found[0].headers == (("h", "ü".encode()), ("n", None))
    with pytest.raises(TypeError, match="value must be bytes"):
        producer.produce(name, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="key must be bytes"):
        producer.send_batch(name, [b"v"], keys=[5])  # type: ignore[list-item]


def test_columns_of_different_lengths_are_refused_and_nothing_is_sent(
    admin: kl.AdminClient, name: str, producer: kl.Producer
) -> None:
    make(admin, name, 1)
    with pytest.raises(ValueError, match="2 values and 1 keys"):
        producer.send_batch(name, [b"a", b"b"], keys=[b"k"])
    with pytest.raises(ValueError, match="2 values and 3 partitions"):
        producer.send_batch(name, [b"a", b"b"], partitions=[0, 0, 0])
    with pytest.raises(ValueError, match="2 values and 0 timestamps"):
        producer.send_batch(name, [b"a", b"b"], timestamps=[])
    with pytest.raises(ValueError, match="2 values and 1 headers"):
        producer.send_batch(name, [b"a", b"b"], headers=[{"a": b"1"}])
    assert len(producer.send_batch(name, [])) == 0
    assert producer.send_batch(name, []).result(PATIENCE_S) == []
    producer.flush(PATIENCE_S)
    assert producer.metrics()["record-send-total"] == 0.0
