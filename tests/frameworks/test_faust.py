"""Faust: a table comes back from its changelog topic, a stream at the offsets committed.

Words are sent to a worker that is ready, never before. Release 0.15 of faust-streaming sometimes
loses a record that lies there when recovery ends, and often counts it twice. It does so on Apache
Kafka 4.3 as well. It lets streams read, then seeks to the committed offsets, and at last empties
the streams' queues (`faust/tables/recovery.py`, `on_recovery_completed`). So records from before
the seek come again, and records from after it are thrown away. Two workers of one app are not
judged for the same reason: after each rebalance there is such a recovery.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.harness.brokers import Broker
from tests.harness.load import create_topic

Unique = Callable[[str], str]

#: Counts words in a table and tells each count.
WORKER = """
import sys
import faust

name, topic, bootstrap, datadir = sys.argv[1:5]
del sys.argv[1:5]
app = faust.App(name, broker=f"kafka://{bootstrap}", datadir=datadir, store="memory://",
                topic_partitions=4, topic_replication_factor=1, web_enabled=False,
                broker_session_timeout=10.0)
words = app.topic(topic, key_type=str, value_type=str, value_serializer="raw", partitions=4)
counts = app.Table("counts", default=int, partitions=4)

@app.agent(words)
async def count(stream):
    async for word in stream:
        text = word.decode() if isinstance(word, bytes) else word
        counts[text] += 1
        print("counted", text, counts[text], flush=True)

faust.Worker(app, loglevel="INFO", redirect_stdouts=False).execute_from_commandline()
"""


class Worker:
    """A Faust worker in a process of its own, and what it counted."""

    def __init__(self, directory: Path, *words: str) -> None:
        directory.mkdir(exist_ok=True)
        script = directory / "worker.py"
        script.write_text(WORKER)
        self.output = directory / "output.txt"
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(script), *words, str(directory)],
                cwd=directory,
                env=os.environ | {"NO_COLOR": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def counted(self) -> list[tuple[str, int]]:
        """Each word and its count, in the order they were counted."""
        found = re.findall(r"^counted (\w+) (\d+)$", self.output.read_text(), re.MULTILINE)
        return [(word, int(count)) for word, count in found]

    def wait(self, until: Callable[[], bool], seconds: float = 60) -> None:
        """Wait for something the worker does."""
        end = time.monotonic() + seconds
        while not until():
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < end, self.output.read_text()
            time.sleep(0.05)

    def wait_until_ready(self) -> None:
        """Wait until the tables are restored, the offsets sought and the queues emptied."""
        self.wait(lambda: "Worker ready" in self.output.read_text())

    def stop(self) -> None:
        """As Ctrl-C does: it commits what was counted."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Starts workers, and leaves none behind."""
    workers: list[Worker] = []

    def one(*words: str) -> Worker:
        workers.append(Worker(tmp_path / f"worker{len(workers)}", *words))
        return workers[-1]

    yield one
    for worker in workers:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait()


def send(broker: Broker, topic: str, words: list[str]) -> None:
    """Each word is its own key."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for word in words:
        producer.produce(topic, key=word.encode(), value=word.encode())
    assert producer.flush(30) == 0


def committed_and_end_offsets(
    broker: Broker, group: str, topic: str
) -> tuple[dict[int, int], dict[int, int]]:
    """What a group committed and where the log ends, of each partition that has records."""
    asked = [TopicPartition(topic, number) for number in range(4)]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        ends = {p.partition: consumer.get_watermark_offsets(p, timeout=30)[1] for p in asked}
        committed = {p.partition: p.offset for p in consumer.committed(asked, timeout=30)}
    finally:
        consumer.close()
    filled = [number for number, end in ends.items() if end > 0]
    return {n: committed[n] for n in filled}, {n: ends[n] for n in filled}


def test_a_table_comes_back_from_its_changelog_and_a_stream_where_it_was(
    broker: Broker, unique: Unique, start: Callable[..., Worker]
) -> None:
    app, topic = unique("faust-app"), unique("faust-words")
    create_topic(broker.bootstrap, topic, 4)
    first = start(app, topic, broker.bootstrap)
    first.wait_until_ready()
    send(broker, topic, ["a", "b", "a"])
    first.wait(lambda: sorted(first.counted()) == [("a", 1), ("a", 2), ("b", 1)])
    first.stop()
    committed, ends = committed_and_end_offsets(broker, app, topic)
    assert committed == ends

    second = start(app, topic, broker.bootstrap)
    second.wait_until_ready()
    send(broker, topic, ["a", "b"])
    second.wait(lambda: len(second.counted()) >= 2)
    second.stop()
    # Words that came again would be among these.
    assert sorted(second.counted()) == [("a", 3), ("b", 2)]
    committed, ends = committed_and_end_offsets(broker, app, topic)
    assert committed == ends
