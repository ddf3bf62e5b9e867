"""Segments carried over: a partition that Apache Kafka wrote reads equal here, and ours there.

Kafka's way in is to stop the broker, copy the segment files over those of an empty partition and
start it again. Ours is the same, or ``kafkalite log adopt``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.harness import brokers, places
from tests.harness.brokers import Broker
from tests.harness.load import create_topic

pytestmark = pytest.mark.usefixtures("jars")

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENTS = {"log.segment.bytes": "1048576"}
COUNT = 20_000

Record = tuple[int, int, bytes | None, bytes | None, object]


def fill(broker: Broker, topic: str) -> None:
    """Records of every codec, with headers, null keys and tombstones, in one partition."""
    create_topic(broker.bootstrap, topic, 1)
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "batch.num.messages": 500,
            }
        )
        for number in range(COUNT // len(CODECS)):
            key = None if number % 7 == 0 else b"k%d" % (number % 50)
            value = None if key and number % 11 == 0 else b"%s %d " % (codec.encode(), number)
            headers = [("n", b"%d" % number)] if number % 3 == 0 else None
            producer.produce(
                topic, None if value is None else value * 20, key=key, headers=headers,
                timestamp=1_700_000_000_000 + number,
            )  # fmt: skip
            producer.poll(0)
        assert producer.flush(60) == 0


def read(broker: Broker, topic: str) -> list[Record]:
    """Everything in the partition, with checked CRCs."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "check.crcs": True,
            "auto.offset.reset": "error",
        }
    )
    part = TopicPartition(topic, 0, 0)
    low, high = consumer.get_watermark_offsets(part, 30)
    assert low == 0
    consumer.assign([part])
    got: list[Record] = []
    while len(got) < high:
        batch = consumer.consume(5_000, 10)
        assert batch, f"{len(got)} of {high} records came"
        for one in batch:
            assert one.error() is None, one.error()
            stamp = one.timestamp()[1]
            got.append((one.offset(), stamp, one.key(), one.value(), one.headers()))
    consumer.close()
    return got


def copy_over(source: Path, target: Path) -> None:
    """Replace a partition's segments, and keep its own ``partition.metadata``."""
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            shutil.copy2(path, target / path.name)


def adopt(source: Path, target: Broker, topic: str) -> None:
    """Our command for the same."""
    command = [sys.executable, "-m", "kafkalite", "log", "adopt", str(source)]
    command += ["--topic", topic, "--partition", "0", "--data-dir", str(target.data_dir)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=places.CHECKOUT, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def pair(tmp_path: Path) -> object:
    """Starts brokers of any kind by name; all of them end with the test."""
    made: list[Broker] = []

    def start(kind: str, name: str) -> Broker:
        folder = tmp_path / name
        folder.mkdir()
        made.append(brokers.make(kind, folder / "data", SEGMENTS))
        made[-1].start()
        return made[-1]

    yield start
    for one in made:
        one.kill()


@pytest.mark.parametrize("way", ["from Kafka", "from Kafka with log adopt", "to Kafka"])
def test_a_partition_that_was_carried_over_reads_equal(
    pair: Callable[[str, str], Broker], broker_kind: str, way: str
) -> None:
    if broker_kind not in ("kafkalite", "kafka"):
        pytest.skip("both brokers are started and stopped here")
    if broker_kind == "kafka" and "adopt" in way:
        pytest.skip("log adopt is a command of kafkalite")
    kinds = (broker_kind, "kafka") if way == "to Kafka" else ("kafka", broker_kind)
    source, target = pair(kinds[0], "source"), pair(kinds[1], "target")
    fill(source, "carried")
    expected = read(source, "carried")
    assert len(expected) == COUNT
    source.stop()
    folder = source.partition_dir("carried", 0)
    assert len(list(folder.glob("*.log"))) > 1
    create_topic(target.bootstrap, "carried", 1)
    target.stop()
    if "adopt" in way:
        adopt(folder, target, "carried")
    else:
        copy_over(folder, target.partition_dir("carried", 0))
    target.start()
    assert read(target, "carried") == expected
    # The partition goes on where the other broker stopped.
    producer = Producer({"bootstrap.servers": target.bootstrap, "enable.idempotence": True})
    told: list[int] = []
    producer.produce(
        "carried", b"more", partition=0, on_delivery=lambda _, m: told.append(m.offset())
    )
    assert producer.flush(30) == 0
    assert told == [COUNT]
