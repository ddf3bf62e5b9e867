"""Records that one client writes and another reads: whole, with headers, nulls and timestamps.

Clients outside Python are programs that speak JSON lines with bytes in base64: ``peers/go/records``
for franz-go, ``java/Records.java`` for Apache Kafka's own.
"""

from __future__ import annotations

import base64
import json
import random
import subprocess
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pytest

import kafkalite as kl
from tests.conformance import java
from tests.harness import places

#: Seconds a client may take for everything.
PATIENCE = 240.0

#: The timestamp of the first record; every broker and client has to keep timestamps.
BEGAN_MS = 1_700_000_000_000


class Row(NamedTuple):
    """A record as it is written."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


class Found(NamedTuple):
    """A record as it was read, and where."""

    partition: int
    offset: int
    row: Row


#: What a topic and a codec are to hold.
Job = tuple[str, str, list[Row]]
Writer = Callable[[str, list[Job]], None]
Reader = Callable[[str, list[str]], dict[str, list[Found]]]


def rows(count: int) -> list[Row]:
    """Odd records first, then ordinary ones; the same ones at each call."""
    chance = random.Random(7)
    odd: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
        (b"key", b"value", (("name", b"bytes"),)),
        (None, b"no key", ()),
        (b"tombstone", None, (("null", None),)),
        (None, None, ()),
        (b"", b"", (("", b""),)),
        (b"\x00\xff" * 200, bytes(3_000), (("twice", b"1"), ("twice", b"2"))),
        ("schlüssel".encode(), "größe ∑".encode(), (("täg", "wért".encode()),)),
        # Beyond the blocks of every codec, as it is and as hardly anything.
        (b"noise", chance.randbytes(200_000), ()),
        (b"pattern", b"0123456789abcdef" * 20_000, (("n" * 300, b"v" * 300),)),
    ]
    made = [Row(*fields, BEGAN_MS - 60_000 * at) for at, fields in enumerate(odd)]
    for number in range(count - len(made)):
        key = None if number % 7 == 0 else b"k%d" % (number % 50)
        value = None if key and number % 11 == 0 else b"%d " % number * chance.randrange(30)
        headers = (("n", b"%d" % number),) if number % 3 == 0 else ()
        made.append(Row(key, value, headers, BEGAN_MS + number))
    return made


def write_kafkalite(bootstrap: str, jobs: list[Job]) -> None:
    """Our producer, record by record."""
    for topic, codec, made in jobs:
        with kl.Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
            for row in made:
                producer.produce(
                    topic, row.value, key=row.key, headers=row.headers,
                    timestamp_ms=row.timestamp_ms,
                )  # fmt: skip
            producer.flush(PATIENCE)
            assert producer.metrics()["record-error-total"] == 0


def write_kafkalite_batches(bootstrap: str, jobs: list[Job]) -> None:
    """Our producer, all records in one call."""
    for topic, codec, made in jobs:
        keys, values, headers, times = (list(column) for column in zip(*made, strict=True))
        with kl.Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
            producer.send_batch(
                topic, values, keys=keys, headers=headers, timestamps=times
            ).result(PATIENCE)  # fmt: skip


def read_kafkalite(bootstrap: str, topics: list[str]) -> dict[str, list[Found]]:
    """Our consumer, without a group, to the end offsets that it finds."""
    found: dict[str, list[Found]] = {topic: [] for topic in topics}
    with kl.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        parts = [
            kl.TopicPartition(topic, number)
            for topic in topics
            for number in consumer.partitions_for(topic)
        ]
        consumer.assign(parts)
        left = sum(consumer.end_offsets().values())
        while left:
            records = consumer.consume(10_000, timeout=PATIENCE)
            assert records, f"{left} records did not come"
            left -= len(records)
            for one in records:
                row = Row(one.key, one.value, one.headers, one.timestamp_ms)
                found[one.topic].append(Found(one.partition, one.offset, row))
    return found


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _lines(jobs: Iterable[Job]) -> Iterator[str]:
    for topic, codec, made in jobs:
        for row in made:
            told = {
                "topic": topic,
                "codec": codec,
                "timestamp": row.timestamp_ms,
                "key": _base64(row.key),
                "value": _base64(row.value),
                "headers": [{"name": name, "value": _base64(of)} for name, of in row.headers],
            }
            yield json.dumps(told) + "\n"


def _found(line: str) -> tuple[str, Found]:
    told: dict[str, Any] = json.loads(line)
    headers = tuple((one["name"], _bytes(one["value"])) for one in told["headers"])
    row = Row(_bytes(told["key"]), _bytes(told["value"]), headers, told["timestamp"])
    return told["topic"], Found(told["partition"], told["offset"], row)


def _by_topic(printed: str, topics: list[str]) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {topic: [] for topic in topics}
    for line in printed.splitlines():
        topic, one = _found(line)
        found[topic].append(one)
    return found


def franz_go(*words: str, stdin: str = "") -> str:
    """What ``peers/go/records`` prints; a skip where it is not built."""
    binary = places.GO_BINARIES / "records"
    if not binary.exists():
        pytest.skip("franz-go's records: python tests/conformance/prerequisites.py --install")
    done = subprocess.run(
        [str(binary), *words], input=stdin, capture_output=True, text=True, timeout=PATIENCE,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_franz_go(bootstrap: str, jobs: list[Job]) -> None:
    """franz-go with its default partitioner."""
    franz_go("write", "-brokers", bootstrap, stdin="".join(_lines(jobs)))


def read_franz_go(bootstrap: str, topics: list[str]) -> dict[str, list[Found]]:
    """franz-go, to the end offsets that it finds."""
    return _by_topic(franz_go("read", "-brokers", bootstrap, *topics), topics)


def _java(*words: str, stdin: str = "") -> str:
    if places.java() is None or not places.clients_jar().exists():
        pytest.skip("JDK or jars missing: python tests/conformance/prerequisites.py --install")
    # The launcher compiles a source file by itself.
    source = str(places.CONFORMANCE / "java" / "Records.java")
    return java.succeed(source, *words, stdin=stdin, timeout=PATIENCE).out


def write_java(bootstrap: str, jobs: list[Job]) -> None:
    """Kafka's own producer with its default partitioner."""
    _java("write", bootstrap, stdin="".join(_lines(jobs)))


def read_java(bootstrap: str, topics: list[str]) -> dict[str, list[Found]]:
    """Kafka's own consumer, to the end offsets that it finds."""
    return _by_topic(_java("read", bootstrap, *topics), topics)


WRITERS: dict[str, Writer] = {
    "kafkalite": write_kafkalite,
    "kafkalite-batches": write_kafkalite_batches,
    "java": write_java,
    "franz-go": write_franz_go,
}
READERS: dict[str, Reader] = {
    "kafkalite": read_kafkalite,
    "java": read_java,
    "franz-go": read_franz_go,
}
