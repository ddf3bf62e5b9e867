"""``log adopt``: a partition of another broker, taken over."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.harness.process import Processes

COUNT = 100


def create(bootstrap: str) -> None:
    """Make the topic, with one partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)


def fill(bootstrap: str) -> None:
    """Write the records, by an idempotent producer."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(COUNT):
        producer.produce("t", key=b"k", value=b"%d" % number)
    assert producer.flush(30) == 0


def read(bootstrap: str) -> list[tuple[int, bytes]]:
    """Offset and value of every record, by an assigned consumer."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    messages = consumer.consume(COUNT, timeout=30)
    consumer.close()
    return [(message.offset() or 0, message.value() or b"") for message in messages]


def test_an_adopted_partition_reads_equal_and_goes_on(processes: Processes, tmp_path: Path) -> None:
    source = processes.serve(data_dir=tmp_path / "source")
    fill(source.ready)
    expected = read(source.ready)
    assert len(expected) == COUNT
    assert source.end() == 0
    target = processes.serve(data_dir=tmp_path / "target")
    create(target.ready)
    words = ["log", "adopt", str(tmp_path / "source" / "t-0"), "--topic", "t", "--partition", "0"]
    words += ["--data-dir", str(tmp_path / "target")]
    assert processes.start(*words).wait() == 1, "the broker still has the directory"
    assert target.end() == 0
    cleaned = tmp_path / "target" / "cleaner-offset-checkpoint"
    cleaned.write_text("0\n1\nt 0 500\n")
    assert processes.start(*words).wait() == 0
    # What was compacted before is not what is there now: a deleted key could come back.
    assert cleaned.read_text() == "0\n1\nt 0 0\n"
    again = processes.serve(data_dir=tmp_path / "target")
    assert read(again.ready) == expected
    fill(again.ready)
    assert again.end() == 0


@pytest.mark.parametrize(
    ("words", "exit_code", "error"),
    [
        (["log", "adopt", "d", "--topic", "t"], 2, "error: missing option '--partition'"),
        (
            ["log", "adopt", "d", "--topic", "t", "--partition", "x"],
            2,
            "error: invalid value for '--partition': 'x' is not a valid integer range",
        ),
        (
            ["log", "adopt", "missing", "--topic", "t", "--partition", "0"],
            1,
            "error: nothing was taken over",
        ),
    ],
)
def test_what_cannot_be_adopted_is_refused(
    processes: Processes, words: list[str], exit_code: int, error: str
) -> None:
    process = processes.start(*words)
    assert process.wait() == exit_code
    assert process.stderr.splitlines()[0] == error
