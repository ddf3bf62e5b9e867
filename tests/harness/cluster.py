"""Several brokers as one cluster: each a process that can be killed, frozen and started again."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.harness.brokers import Kafkalite
from tests.harness.patience import eventually
from tests.harness.session import Session

#: What a cluster of three needs to survive the loss of one broker.
SAFE_CONFIG = {"offsets.topic.replication.factor": "3", "offsets.topic.num.partitions": "4"}

_QUORUM = [{"TopicName": "__cluster_metadata", "Partitions": [{"PartitionIndex": 0}]}]


class Member(Kafkalite):
    """A broker of a cluster; the one without an address to join begins it."""

    def __init__(self, data_dir: Path, config: Mapping[str, str], join: str | None) -> None:
        super().__init__(data_dir, config)
        self.join = join
        self.is_frozen = False

    def command(self) -> list[str]:
        """Later starts name the cluster as well, which changes nothing."""
        return [*super().command(), *(["--join", self.join] if self.join else [])]

    def freeze(self) -> None:
        """SIGSTOP: it keeps its connections, and says nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        """SIGCONT: it goes on with what it believed before."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.is_frozen = False

    def answers(self) -> bool:
        """Whether it can be asked something."""
        return self.is_alive() and not self.is_frozen


class Cluster:
    """Brokers 1 to ``count``; they keep their addresses and data through every start."""

    def __init__(
        self, folder: Path, config: Mapping[str, str] | None = None, count: int = 3
    ) -> None:
        self.folder = folder
        self.config = {**SAFE_CONFIG, **(config or {})}
        self.count = count
        self.members: dict[int, Member] = {}

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, those that are away among them."""
        return ",".join(member.bootstrap for member in self.members.values())

    def start(self) -> None:
        """Start all of them, and return when each sees all, and three vote."""
        for number in range(1, self.count + 1):
            self.add(number)
        eventually(lambda: len(self.voters()) == min(3, self.count))
        eventually(self.is_whole)

    def add(self, number: int) -> Member:
        """Start a broker with a new directory; it joins those that are there."""
        join = next((one.bootstrap for one in self.members.values() if one.answers()), None)
        member = self.make(self.folder / str(number) / "data", join)
        member.data_dir.parent.mkdir(parents=True, exist_ok=True)
        member.start()
        self.members[number] = member
        return member

    def make(self, data_dir: Path, join: str | None) -> Member:
        """A broker that is not started."""
        return Member(data_dir, self.config, join)

    def ask(self, question: Callable[[Session], Any], of: int | None = None) -> Any:
        """What a broker answers, or the first one that does; None if none does."""
        asked = self.members.values() if of is None else [self.members[of]]
        for member in asked:
            if not member.answers():
                continue
            with contextlib.suppress(OSError):
                session = Session(member.bootstrap, "cluster", answer_within=3.0)
                try:
                    return question(session)
                finally:
                    session.close()
        return None

    def is_whole(self) -> bool:
        """Whether every broker sees every broker."""

        def seen(session: Session) -> int:
            return len(session.call("Metadata", 12, Topics=[])["Brokers"])

        return all(self.ask(seen, of=number) == self.count for number in self.members)

    def _quorum(self, of: int | None) -> dict[str, Any]:
        def part(session: Session) -> dict[str, Any]:
            answer = session.call("DescribeQuorum", 2, Topics=_QUORUM)
            found: dict[str, Any] = answer["Topics"][0]["Partitions"][0]
            return found

        return self.ask(part, of) or {}

    def controller(self, of: int | None = None) -> int:
        """The broker that leads the quorum, as a broker knows it; -1 if none does."""
        return int(self._quorum(of).get("LeaderId", -1))

    def voters(self) -> list[int]:
        """The brokers that vote on metadata."""
        return sorted(one["ReplicaId"] for one in self._quorum(None).get("CurrentVoters", []))

    def partitions(self, topic: str, of: int | None = None) -> dict[int, tuple[int, list[int]]]:
        """Leader and in-sync replicas of each partition, as a broker knows them."""
        found = self.ask(lambda session: session.metadata(topic), of)
        parts = found["Partitions"] if found else []
        return {one["PartitionIndex"]: (one["LeaderId"], sorted(one["IsrNodes"])) for one in parts}

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition, and answers; waits until there is one."""
        found = [-1]

        def is_led() -> bool:
            found[0] = self.partitions(topic).get(partition, (-1, []))[0]
            return found[0] in self.members and self.members[found[0]].answers()

        eventually(is_led)
        return found[0]

    def wait_in_sync(self, topic: str, replicas: int = 3, seconds: float = 60.0) -> float:
        """Wait until each partition has so many replicas in sync; return the seconds it took.

        Each broker has to say so: one that was cut off believes what was true before.
        """
        before = time.monotonic()

        def in_sync() -> bool:
            asked = [number for number, member in self.members.items() if member.answers()]
            told = [self.partitions(topic, of=number) for number in asked]
            same = all(one == told[0] for one in told)
            parts = told[0].values()
            return same and bool(parts) and all(len(isr) >= replicas for _, isr in parts)

        eventually(in_sync, seconds)
        return time.monotonic() - before

    def logs(self, topic: str, partition: int = 0) -> dict[str, bytes]:
        """The bytes of the log of a partition on each broker, all segments in one."""
        folders = {
            str(number): member.partition_dir(topic, partition)
            for number, member in self.members.items()
        }
        return {
            name: b"".join(log.read_bytes() for log in sorted(folder.glob("*.log")))
            for name, folder in folders.items()
        }

    def close(self) -> None:
        """Kill what is left of it."""
        for member in self.members.values():
            if member.is_frozen:
                member.thaw()
            member.kill()


@contextmanager
def running(
    folder: Path, config: Mapping[str, str] | None = None, count: int = 3
) -> Iterator[Cluster]:
    """A cluster for the length of a block."""
    cluster = Cluster(folder, config, count)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
