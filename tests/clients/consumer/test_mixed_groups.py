"""Groups of our consumers and confluent-kafka's: members come, go and are killed."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.clients.consumer.consuming import PATIENCE_S, Cluster
from tests.clients.consumer.member import Plan
from tests.harness.patience import ended

ROOT = Path(__file__).parents[3]
PARTITIONS = 6
#: Long enough that no member is taken for dead because its machine stood still for a moment.
SESSION_MS = 20_000
#: Short enough to wait for, where members are killed; longer than a busy machine stands still.
SHORT_SESSION_MS = 6_000


@dataclass
class Line:
    """Something that a member told."""

    at: int
    what: str
    partition: int
    value: str


@dataclass
class Member:
    """A process that reads as a member of a group."""

    popen: subprocess.Popen[str]
    lines: list[Line] = field(default_factory=list)
    killed_at: int | None = None

    def __post_init__(self) -> None:
        """Follow what it tells."""
        self._reader = threading.Thread(target=self._follow)
        self._reader.start()

    def _follow(self) -> None:
        assert self.popen.stdout is not None
        for text in self.popen.stdout:
            at, what, partition, *value = text.split()
            self.lines.append(Line(int(at), what, int(partition), "".join(value)))

    def owned(self) -> set[int]:
        """Return the partitions that it has, as far as it told."""
        owned: set[int] = set()
        for line in list(self.lines):
            if line.what == "assign":
                owned.add(line.partition)
            elif line.what in {"revoke", "lost"}:
                owned.discard(line.partition)
        return owned

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it and read its last words."""
        if self.popen.poll() is None:
            if number == signal.SIGKILL:
                self.killed_at = time.monotonic_ns()
            self.popen.send_signal(number)
        self.popen.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        if self.popen.stdout is not None:
            self.popen.stdout.close()

    def intervals(self) -> Iterator[tuple[int, int, int]]:
        """Yield partition, begin and end of each time that it owned one and knew when it ended.

        Who was taken for dead learns that its partitions are lost after others have them.
        """
        begun: dict[int, int] = {}
        for line in self.lines:
            if line.what == "assign":
                begun[line.partition] = line.at
            elif line.what == "lost":
                begun.pop(line.partition, None)
            elif line.what == "revoke" and line.partition in begun:
                yield line.partition, begun.pop(line.partition), line.at
        end = self.killed_at or time.monotonic_ns()
        for partition, begin in begun.items():
            yield partition, begin, end


class Group:
    """A group of processes on one topic, and a producer that keeps writing."""

    def __init__(
        self, cluster: Cluster, strategy: str, directory: Path, session_ms: int = SESSION_MS
    ) -> None:
        self.cluster = cluster
        self.strategy = strategy
        self.session_ms = session_ms
        self.name = cluster.group()
        self.topic = cluster.topic(PARTITIONS)
        self.members: list[Member] = []
        self.written = 0
        self._errors = (directory / "members.txt").open("w+")
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self._write)

    def start(self, kind: str, instance: str = "") -> Member:
        """Start a member, ours or confluent-kafka's."""
        plan = Plan(
            kind,
            self.cluster.bootstrap,
            self.name,
            self.topic,
            self.strategy,
            str(self.session_ms),
            instance,
        )
        command = [sys.executable, "-m", "tests.clients.consumer.member", *plan]
        popen = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._errors, text=True, cwd=ROOT
        )
        self.members.append(Member(popen))
        return self.members[-1]

    def _write(self) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "linger.ms": 5})
        for number in itertools.count():
            if self._stop.wait(0.002):
                break
            producer.produce(self.topic, str(number), partition=number % PARTITIONS)
            self.written = number + 1
        assert producer.flush(PATIENCE_S) == 0

    def __enter__(self) -> Group:
        """Begin to write."""
        self._writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process behind."""
        self.stop_writing()
        for member in self.members:
            member.end(signal.SIGKILL)
        self._errors.close()

    def stop_writing(self) -> None:
        """Write no more."""
        self._stop.set()
        ended(self._writer)

    def wait_balanced(self, *members: Member) -> None:
        """Wait until these share all partitions, as evenly as can be."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            owned = [member.owned() for member in members]
            together = Counter(itertools.chain(*owned))
            sizes = sorted(map(len, owned))
            even = sizes[-1] - sizes[0] <= 1
            if even and together == dict.fromkeys(range(PARTITIONS), 1):
                return
            assert time.monotonic() < deadline, (owned, self.complaints())
            time.sleep(0.02)

    def complaints(self) -> str:
        """Return what the members wrote on stderr."""
        self._errors.seek(0)
        return self._errors.read()

    def processed(self) -> Counter[str]:
        """Return how often each record was processed."""
        lines = itertools.chain(*(list(member.lines) for member in self.members))
        return Counter(line.value for line in lines if line.what == "record")

    def wait_processed(self) -> Counter[str]:
        """Stop writing and wait until all that was written was processed."""
        self.stop_writing()
        wanted = {str(number) for number in range(self.written)}
        deadline = time.monotonic() + PATIENCE_S
        while not wanted <= set(self.processed()):
            assert time.monotonic() < deadline, (
                sorted(wanted - set(self.processed()), key=int)[:20],
                self.complaints(),
            )
            time.sleep(0.05)
        return self.processed()

    def was_refused(self, value: str) -> bool:
        """Return whether a record was processed twice as the first commit of it was refused.

        Kafka's clients leave in the middle of a rebalance like this. Ours do not: they commit
        again in the next generation, and report no commit here.
        """
        processed = sorted(
            (line.at, number)
            for number, member in enumerate(self.members)
            for line in member.lines
            if line.what == "record" and line.value == value
        )
        at, first = processed[0]
        commits = [
            line.what
            for line in self.members[first].lines
            if line.what in {"committed", "refused"}
            and line.partition == int(value) % PARTITIONS
            and line.at > at
        ]
        return len(processed) == 2 and commits[-1:] == ["refused"]

    def check_that_nothing_was_processed_twice(self) -> None:
        """Show of who processed a record again what happened to its partition."""
        processed = self.processed()
        twice = {
            one for one, times in processed.items() if times != 1 and not self.was_refused(one)
        }
        parts = {int(value) % PARTITIONS for value in twice}
        told = [
            (line.at, number, line.what, line.partition, line.value)
            for number, member in enumerate(self.members)
            for line in member.lines
            if line.partition in parts and (line.what != "record" or line.value in twice)
        ]
        assert not twice, (sorted(told), self.complaints())

    def check_that_nothing_was_lost(self) -> None:
        """No member was taken for dead."""
        for number, member in enumerate(self.members):
            lost = [line for line in member.lines if line.what == "lost"]
            assert lost == [], (number, self.complaints())

    def check_that_nothing_was_owned_twice(self) -> None:
        """Compare when each member owned what."""
        by_partition: dict[int, list[tuple[int, int, int]]] = {}
        for number, member in enumerate(self.members):
            for partition, begin, end in member.intervals():
                by_partition.setdefault(partition, []).append((begin, end, number))
        for partition, intervals in by_partition.items():
            for before, after in itertools.pairwise(sorted(intervals)):
                assert before[1] <= after[0], (partition, before, after)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_of_two_clients_that_come_and_go_process_each_record_once(
    quick: Cluster, strategy: str, tmp_path: Path
) -> None:
    with Group(quick, strategy, tmp_path) as group:
        first = group.start("ours")
        group.wait_balanced(first)
        second = group.start("confluent")
        group.wait_balanced(first, second)
        third = group.start("ours")
        group.wait_balanced(first, second, third)
        second.end()
        group.wait_balanced(first, third)
        fourth = group.start("confluent")
        group.wait_balanced(first, third, fourth)
        first.end()
        group.wait_balanced(third, fourth)
        group.wait_processed()
        third.end()
        fourth.end()
        group.check_that_nothing_was_lost()
        group.check_that_nothing_was_owned_twice()
        group.check_that_nothing_was_processed_twice()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_no_record_is_lost_when_members_of_either_client_are_killed(
    quick: Cluster, strategy: str, tmp_path: Path
) -> None:
    with Group(quick, strategy, tmp_path, SHORT_SESSION_MS) as group:
        ours, theirs, other = (group.start(kind) for kind in ("ours", "confluent", "ours"))
        group.wait_balanced(ours, theirs, other)
        for victim in (ours, theirs):
            victim.end(signal.SIGKILL)
        group.wait_balanced(other)
        group.wait_processed()
        group.check_that_nothing_was_owned_twice()


def test_a_static_member_that_comes_back_in_time_moves_nothing(
    quick: Cluster, tmp_path: Path
) -> None:
    with Group(quick, "range", tmp_path) as group:
        steady = group.start("ours", "a")
        leaver = group.start("ours", "b")
        group.wait_balanced(steady, leaver)
        assignments = sum(line.what == "assign" for line in steady.lines)
        had = leaver.owned()
        leaver.end()
        again = group.start("ours", "b")
        group.wait_balanced(steady, again)
        assert again.owned() == had
        assert sum(line.what == "assign" for line in steady.lines) == assignments
        processed = group.wait_processed()
    assert set(processed.values()) == {1}
