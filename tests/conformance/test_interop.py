"""Our clients beside others': what one wrote another reads equal, and a key is where all look."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer as Confluent
from kafka import KafkaProducer

from tests.conformance.budget import Budget
from tests.conformance.records import (
    BEGAN_MS,
    READERS,
    WRITERS,
    Found,
    Job,
    Row,
    Writer,
    read_kafkalite,
    rows,
)
from tests.harness.brokers import Broker
from tests.harness.load import create_topic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 12

#: Ours on one side, others on the other; ours read by ours is what `make test` looks at.
PAIRS = [
    (writer, reader)
    for writer in WRITERS
    for reader in READERS
    if writer.startswith("kafkalite") != (reader == "kafkalite")
]


class Carried:
    """Topics by writer and codec, each written once and read once by each reader."""

    def __init__(self, bootstrap: str, prefix: str, count: int) -> None:
        self.bootstrap, self.prefix = bootstrap, prefix
        self.rows = rows(count)
        self._written: set[str] = set()
        self._read: dict[tuple[str, str], dict[str, list[Found]]] = {}

    def topic(self, writer: str, codec: str) -> str:
        """The topic of this writer and codec."""
        return f"{self.prefix}-{writer}-{codec}"

    def found(self, writer: str, reader: str, codec: str) -> list[Found]:
        """What the reader finds of the writer's records; all codecs are done in one go."""
        topics = [self.topic(writer, each) for each in CODECS]
        if writer not in self._written:
            self._written.add(writer)
            for topic in topics:
                # The records are of another year.
                create_topic(self.bootstrap, topic, 1, retention_ms="-1")
            jobs = [(self.topic(writer, each), each, self.rows) for each in CODECS]
            WRITERS[writer](self.bootstrap, jobs)
        if (writer, reader) not in self._read:
            self._read[writer, reader] = READERS[reader](self.bootstrap, topics)
        return self._read[writer, reader][self.topic(writer, codec)]


@pytest.fixture(scope="module")
def carried(broker: Broker, budget: Budget) -> Carried:
    """Written and read on demand, shared by all tests here."""
    return Carried(broker.bootstrap, f"interop-{broker.port}", budget.interop_records)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("writer", "reader"), PAIRS)
def test_what_one_client_wrote_reads_equal_in_another(
    carried: Carried, writer: str, reader: str, codec: str
) -> None:
    found = carried.found(writer, reader, codec)
    assert [one.row for one in found] == carried.rows
    assert [one.offset for one in found] == list(range(len(carried.rows)))


def write_confluent(bootstrap: str, jobs: list[Job]) -> None:
    """confluent-kafka with the partitioner that is Kafka's."""
    producer = Confluent({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for topic, _, made in jobs:
        for row in made:
            producer.produce(topic, row.value, row.key)
    assert producer.flush(60) == 0


def write_kafka_python(bootstrap: str, jobs: list[Job]) -> None:
    """kafka-python with its default partitioner."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for topic, _, made in jobs:
        for row in made:
            producer.send(topic, row.value, key=row.key)
    producer.flush(60)
    producer.close()


KEYS = [b"key-%d" % number for number in range(300)]
KEYS += [bytes(range(256))[at : at + length] for at in (0, 100, 200) for length in range(1, 9)]


def homes(broker: Broker, topic: str, write: Writer, keys: list[bytes]) -> dict[bytes | None, int]:
    """The partition of each key, in a topic that this writer filled."""
    create_topic(broker.bootstrap, topic, PARTITIONS, retention_ms="-1")
    made = [Row(key, b"", (), BEGAN_MS) for key in keys]
    write(broker.bootstrap, [(topic, "none", made)])
    found = read_kafkalite(broker.bootstrap, [topic])[topic]
    assert len(found) == len(keys)
    return {one.row.key: one.partition for one in found}


OTHERS: dict[str, Writer] = {
    **{name: write for name, write in WRITERS.items() if name != "kafkalite"},
    "confluent-kafka": write_confluent,
    "kafka-python": write_kafka_python,
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_key_goes_to_the_same_partition_from_every_writer(
    broker: Broker, unique: Callable[[str], str], other: str
) -> None:
    # An empty key is a key to Kafka, and to librdkafka it is none.
    keys = KEYS if other == "confluent-kafka" else [b"", *KEYS]
    ours = homes(broker, unique("ours"), WRITERS["kafkalite"], keys)
    assert set(ours.values()) == set(range(PARTITIONS))
    assert homes(broker, unique("theirs"), OTHERS[other], keys) == ours
