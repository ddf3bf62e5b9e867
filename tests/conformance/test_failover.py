"""Clients of other projects through the death of a leader, and of the broker of their group.

They run as they are: what one of them gives its caller as an error is an error here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.budget import Budget
from tests.conformance.python_loads import (
    AioGroup,
    AioLoad,
    ConfluentGroup,
    GroupReader,
    KafkaPythonGroup,
    KafkaPythonLoad,
    OwnGroup,
)
from tests.conformance.test_streams import Application, Instance
from tests.harness import checker, cluster, places
from tests.harness.checker import Outcome
from tests.harness.cluster import Cluster
from tests.harness.load import Load, LoadProducer, LoadReader, history_of
from tests.harness.other_loads import OwnLoad
from tests.harness.patience import eventually
from tests.harness.session import Session

TOPIC = "survives"
PARTITIONS = 3
PER_SECOND = 100
#: How long after a kill each client may take until it goes on.
PATIENCE_S = 60.0
#: Topics of Streams that name no replicas have as many as those of the test.
CONFIG = {"default.replication.factor": "3", "min.insync.replicas": "2"}


@pytest.fixture
def three(broker_kind: str, tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers of ours."""
    if broker_kind != "kafkalite":
        pytest.skip("three brokers are started of ours only")
    with cluster.running(tmp_path, CONFIG) as running:
        yield running


def coordinator(three: Cluster, group: str) -> int:
    """The broker that a group's members talk to."""

    def found(session: Session) -> int:
        answer = session.call("FindCoordinator", 4, KeyType=0, CoordinatorKeys=[group])
        return int(answer["Coordinators"][0]["NodeId"])

    number = [-1]

    def is_there() -> bool:
        number[0] = three.ask(found) or -1
        return number[0] in three.members

    eventually(is_there)
    return number[0]


def kill_and_restart(three: Cluster, number: int, topic: str, went_on: Callable[[], bool]) -> float:
    """Kill a broker, and start it once the clients went on; return the seconds until they did."""
    three.members[number].kill()
    began = time.monotonic()
    eventually(went_on, PATIENCE_S)
    seconds = time.monotonic() - began
    three.members[number].start()
    three.wait_in_sync(topic)
    return seconds


class Clients:
    """Producers and groups of four clients on one topic."""

    def __init__(self, three: Cluster) -> None:
        self.three, at = three, (three.bootstrap, TOPIC)
        self.loads: list[Load] = [
            OwnLoad("own", *at, per_second=PER_SECOND),
            LoadProducer("confluent", *at, per_second=PER_SECOND, size=10),
            AioLoad("aiokafka", *at, per_second=PER_SECOND),
            KafkaPythonLoad("kafka-python", *at, per_second=PER_SECOND),
        ]
        self.groups: list[GroupReader] = [
            OwnGroup("own", *at),
            ConfluentGroup("confluent", *at),
            AioGroup("aiokafka", *at),
            KafkaPythonGroup("kafka-python", *at),
        ]
        for one in (*self.loads, *self.groups):
            one.start()
        eventually(lambda: self.went_on([100] * len(self.loads)), PATIENCE_S)

    def went_on(self, marks: list[int]) -> bool:
        """Whether each producer has an answer for these numbers, and each group has read some."""
        failed = [error for one in (*self.loads, *self.groups) for error in one.errors]
        assert not failed, failed[:5]
        passed = all(load.newest >= mark for load, mark in zip(self.loads, marks, strict=True))
        return passed and all(self._has_read(group, marks) for group in self.groups)

    def _has_read(self, group: GroupReader, marks: list[int]) -> bool:
        own = zip(self.loads, marks, strict=True)
        return all(f"{load.name}:{mark}{_padding(load)}" in group.seen for load, mark in own)

    def kill(self, number: int) -> float:
        """Kill a broker; return the seconds until all clients went on."""
        marks = [load.sent for load in self.loads]
        return kill_and_restart(self.three, number, TOPIC, lambda: self.went_on(marks))

    def finish(self) -> None:
        """End the load, and judge the history and what the groups read."""
        for load in self.loads:
            load.finish()
        sends = [send for load in self.loads for send in load.sends]
        refused = [send for send in sends if send.outcome is not Outcome.OK]
        assert not refused, refused[:5]
        reader = LoadReader("afterwards", self.three.bootstrap, TOPIC, PARTITIONS)
        reader.drain()
        violations = checker.check(history_of(self.loads, [reader]))
        assert not violations, checker.summary(violations)
        values = {send.value for send in sends}
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and any(values - group.seen for group in self.groups):
            time.sleep(0.1)
        missing = {group.name: sorted(values - group.seen) for group in self.groups}
        for group in self.groups:
            group.finish()
        few = {name: (len(some), some[:3]) for name, some in missing.items() if some}
        assert not few, f"not read: {few}, {[group.errors for group in self.groups]}"
        assert not [error for group in self.groups for error in group.errors]
        print(f"{len(sends)} records, each once in the log and read by {len(self.groups)} groups")


def _padding(load: Load) -> str:
    return f":{load.padding}" if isinstance(load, LoadProducer) else ""


def test_python_clients_and_their_groups_go_on_when_their_broker_is_killed(
    three: Cluster, budget: Budget
) -> None:
    admin = AdminClient({"bootstrap.servers": three.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
    three.wait_in_sync(TOPIC)
    clients = Clients(three)
    for _ in range(budget.failovers):
        leader = three.leader(TOPIC)
        print(f"leader {leader} killed: all went on after {clients.kill(leader):.2f} s")
        group = clients.groups[0].name
        number = coordinator(three, group)
        print(f"coordinator {number} killed: all went on after {clients.kill(number):.2f} s")
    clients.finish()


@pytest.mark.usefixtures("jars")
def test_kafka_streams_counts_each_word_once_through_the_death_of_its_brokers(
    three: Cluster, budget: Budget, tmp_path: Path
) -> None:
    if not places.streams_jar().exists():
        pytest.skip("Kafka Streams is missing: prerequisites.py --install")
    application = Application(three.bootstrap, "words", replicas=3)
    application.write(200)
    instance = Instance(three.bootstrap, application.name, tmp_path, "one")
    try:
        eventually(application.holds, PATIENCE_S)
        for _ in range(budget.failovers):
            for number in (three.leader("words-lines"), coordinator(three, application.name)):
                three.members[number].kill()
                application.write(200)
                began = time.monotonic()
                eventually(application.holds, PATIENCE_S)
                print(f"broker {number} killed: all counted after {time.monotonic() - began:.2f} s")
                three.members[number].start()
                three.wait_in_sync("words-lines")
        instance.close()
    finally:
        instance.kill()
