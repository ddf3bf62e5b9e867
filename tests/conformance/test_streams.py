"""Kafka Streams over the broker: repartitioning, changelogs, restored state, shared partitions."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.conformance import java
from tests.harness import places
from tests.harness.brokers import Broker, java_command
from tests.harness.load import create_topic
from tests.harness.patience import eventually

pytestmark = pytest.mark.usefixtures("streams_jar")
#: An instance is compiled and started, and joins: some seconds on a busy machine.
PATIENCE = 60.0
PARTITIONS = 3
TOPICS = ("lines", "names", "counts", "named", "minutes")
MINUTE_MS = 60_000
BEGAN_MS = 1_700_000_000_000 // MINUTE_MS * MINUTE_MS


@pytest.fixture(scope="module")
def streams_jar(jars: Path) -> None:
    """Kafka Streams beside Kafka's other jars, or a skip."""
    if not places.streams_jar().exists():
        pytest.skip("Kafka Streams is missing: prerequisites.py --install")


class Instance:
    """A running ``java/WordCount.java``, and the lines that it said."""

    def __init__(self, bootstrap: str, application: str, folder: Path, name: str) -> None:
        source = str(places.CONFORMANCE / "java" / "WordCount.java")
        words = [bootstrap, application, str(folder / name), name]
        self.process = subprocess.Popen(
            [*java_command(source), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.said: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        self.said.extend(line.strip() for line in self.process.stdout)

    def is_running(self) -> bool:
        """Whether it owns its tasks and processes records."""
        states = [line for line in self.said if line.startswith("state ")]
        return states[-1:] == ["state RUNNING"]

    def restored(self) -> Counter[str]:
        """Records read back from changelogs, by store."""
        total: Counter[str] = Counter()
        for line in self.said:
            if line.startswith("restored "):
                _, store, _, records = line.split()
                total[store] += int(records)
        return total

    def close(self) -> None:
        """End its input: it leaves, and the process ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0, self.said

    def kill(self) -> None:
        """SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)


class Application:
    """The topics of one application, what was written to it, and what must come out."""

    def __init__(self, bootstrap: str, name: str, replicas: int = 1) -> None:
        self.bootstrap, self.name = bootstrap, name
        for topic in TOPICS:
            whole = (bootstrap, f"{name}-{topic}", PARTITIONS)
            create_topic(*whole, replicas=replicas, retention_ms="-1")
        self.words: Counter[str] = Counter()
        self.minutes: Counter[str] = Counter()
        self.lines = 0

    def write(self, count: int) -> None:
        """Lines of words; ten keys, one line in each second."""
        # Tables are joined where Kafka's own partitioner puts a key.
        settings = {"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random"}
        producer = Producer(settings)
        for at in range(self.lines, self.lines + count):
            key, words = f"k{at % 10}", ["all", f"w{at % 7}", f"x{at % 40}"]
            began = BEGAN_MS + at * 1_000
            producer.produce(f"{self.name}-lines", " ".join(words), key, timestamp=began)
            self.words.update(words)
            self.minutes[f"{key}@{began // MINUTE_MS * MINUTE_MS}"] += 1
        for word in ("all", "w3"):
            producer.produce(f"{self.name}-names", word.upper(), word, timestamp=BEGAN_MS - 1)
        assert producer.flush(30) == 0
        self.lines += count

    def latest(self, topic: str) -> dict[str, str]:
        """The last value of each key."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "unused",
                    "enable.auto.commit": False, "enable.partition.eof": True}  # fmt: skip
        consumer = Consumer(settings)
        # With an offset no coordinator is asked: a new Kafka takes more than 30 s for the first.
        places = [
            TopicPartition(f"{self.name}-{topic}", at, OFFSET_BEGINNING) for at in range(PARTITIONS)
        ]
        consumer.assign(places)
        found: dict[str, str] = {}
        ended = 0
        while ended < PARTITIONS:
            record = consumer.poll(30)
            assert record is not None
            if record.error():
                ended += 1
            else:
                found[record.key().decode()] = record.value().decode()
        consumer.close()
        return found

    def holds(self) -> bool:
        """Whether every word, name and minute has come out with its last count."""
        counts = {word: str(count) for word, count in self.words.items()}
        named = {word: f"{word.upper()}={self.words[word]}" for word in ("all", "w3")}
        minutes = {minute: str(count) for minute, count in self.minutes.items()}
        return (
            self.latest("counts") == counts
            and self.latest("named") == named
            and self.latest("minutes") == minutes
        )


@pytest.fixture
def application(broker: Broker, unique: Callable[[str], str]) -> Application:
    """A fresh application with its topics and no instance."""
    return Application(broker.bootstrap, unique("streams"))


@pytest.fixture
def start(
    broker: Broker, application: Application, tmp_path: Path
) -> Iterator[Callable[[str], Instance]]:
    """Starts instances that do not outlive the test."""
    made: list[Instance] = []

    def one(name: str) -> Instance:
        made.append(Instance(broker.bootstrap, application.name, tmp_path, name))
        return made[-1]

    yield one
    for instance in made:
        instance.kill()


def test_state_that_is_lost_with_a_killed_instance_is_restored_from_its_changelog(
    application: Application, start: Callable[[str], Instance]
) -> None:
    application.write(400)
    first = start("one")
    eventually(application.holds, PATIENCE)
    first.kill()
    application.write(300)
    again = start("one")
    eventually(application.holds, PATIENCE)
    assert again.restored()["counts"] >= len(application.words)
    again.close()


def test_two_instances_share_the_work_and_the_resetter_removes_what_they_made(
    application: Application, start: Callable[[str], Instance], broker: Broker
) -> None:
    application.write(200)
    instances = [start("one"), start("two")]
    eventually(lambda: all(one.is_running() for one in instances), PATIENCE)
    application.write(200)
    eventually(application.holds, PATIENCE)
    at = ("--bootstrap-server", broker.bootstrap)
    members = java.succeed(java.GROUPS, *at, "--describe", "--group", application.name, "--members")
    assert len([line for line in members.lines if line.startswith(application.name)]) == 2
    for instance in instances:
        instance.close()
    reset = ("--application-id", application.name, "--input-topics", f"{application.name}-lines")
    java.succeed(java.TOOLS + "StreamsResetter", *at, *reset, "--force")
    left = java.succeed(java.TOPICS, *at, "--list").lines
    ours = {name for name in left if name.startswith(application.name)}
    assert ours == {f"{application.name}-{topic}" for topic in TOPICS}
