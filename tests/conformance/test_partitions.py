"""Three brokers on hosts of their own, and links between them that lose every packet.

Clients reach all brokers all the time, and ask the one that is cut off as well. It must not
acknowledge a record with ``acks=all``. In the end the replicas are equal byte for byte.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.budget import Budget
from tests.conformance.test_chase import IN_SYNC_S, PATIENCE_S, TOPIC, Chase
from tests.harness import hosts
from tests.harness.checker import Outcome, Send
from tests.harness.hosts import HostedCluster, Link
from tests.harness.load import Load
from tests.harness.session import Session
from tests.harness.wire import batches

#: Seconds of one set of links that are cut, where there are several.
TURN_S = 2.0


@dataclass(frozen=True)
class Plan:
    """Links that are cut, one set after the other if there are several."""

    steps: tuple[frozenset[Link], ...]
    #: The broker that leads and is alone with it, or with too few; 0 if none is.
    minority: int = 0
    #: Whether two brokers see each other all the time, so that clients go on.
    serves: bool = True


def from_it(broker: int, brokers: list[int]) -> frozenset[Link]:
    """The links from a broker to all others."""
    return frozenset((broker, other) for other in brokers if other != broker)


def to_it(broker: int, brokers: list[int]) -> frozenset[Link]:
    """The links from all others to a broker."""
    return frozenset((other, broker) for other in brokers if other != broker)


def both_ways(broker: int, brokers: list[int]) -> frozenset[Link]:
    """All links of a broker."""
    return from_it(broker, brokers) | to_it(broker, brokers)


def bridge(leader: int, controller: int, brokers: list[int]) -> Plan:
    """The leader does not see the controller, and both see the third.

    A leader that is the controller as well does not see a follower, and is no minority.
    """
    others = [one for one in brokers if one != leader]
    other = controller if controller != leader else others[0]
    minority = leader if controller != leader else 0
    return Plan((frozenset({(leader, other), (other, leader)}),), minority)


def without_controller(leader: int, controller: int, brokers: list[int]) -> Plan:
    """The controller is alone."""
    return Plan((both_ways(controller, brokers),), leader if leader == controller else 0)


def rotating(leader: int, _: int, brokers: list[int]) -> Plan:
    """Each broker is alone in turn, and the one before it comes back with what it believed."""
    steps = (both_ways(one, brokers) for one in (leader, *(set(brokers) - {leader})))
    return Plan(tuple(steps), serves=False)


def ring(leader: int, _: int, brokers: list[int]) -> Plan:
    """Each pair has one direction only, so that no two of them talk."""
    around = frozenset(zip(brokers, [*brokers[1:], brokers[0]], strict=True))
    return Plan((around,), leader, serves=False)


#: What is cut, of the leader, the controller and all brokers.
KINDS: dict[str, Callable[[int, int, list[int]], Plan]] = {
    "two-way": lambda leader, _, all_of: Plan((both_ways(leader, all_of),), leader),
    "mute": lambda leader, _, all_of: Plan((from_it(leader, all_of),), leader),
    "deaf": lambda leader, _, all_of: Plan((to_it(leader, all_of),), leader),
    "controller": without_controller,
    "bridge": bridge,
    "flapping": lambda leader, _, all_of: Plan(
        (both_ways(leader, all_of), frozenset()), serves=False
    ),
    "rotating": rotating,
    "ring": ring,
}


class Questions(Load):
    """Produces of one record with acks=all to one broker, each sent once whatever comes of it."""

    def __init__(self, address: str, name: str) -> None:
        super().__init__(name)
        self.address = address
        self.ended = threading.Event()
        self.codes: Counter[int] = Counter()

    def run(self) -> None:
        """Ask until told to end; what has no answer is followed by a new connection."""
        while not self.ended.wait(0.1):
            try:
                session = Session(self.address, self.name, answer_within=10.0)
            except OSError:
                continue
            try:
                while not self.ended.wait(0.1):
                    self._ask(session)
            except OSError:
                continue
            finally:
                session.close()

    def _ask(self, session: Session) -> None:
        value = f"{self.name}:{self.sent}"
        self.sent += 1
        self.sends.append(Send(value, 0, Outcome.UNKNOWN))
        now = time.time_ns() // 1_000_000
        batch = batches.Batch((batches.Record(value.encode()),), base_timestamp_ms=now)
        answer = session.produce(TOPIC, batch.encode())
        self.codes[answer["ErrorCode"]] += 1

    def finish(self, seconds: float = 30) -> None:
        """Wait for the last answer."""
        self.ended.set()
        self.join(seconds)
        assert not self.is_alive()


@pytest.fixture
def three(broker_kind: str, tmp_path: Path) -> Iterator[HostedCluster]:
    """Three brokers on hosts, and a topic that survives the loss of one."""
    if broker_kind != "kafkalite":
        pytest.skip("three brokers are started of ours only")
    if missing := hosts.is_missing():
        pytest.skip(f"hosts need {missing}: python tests/conformance/prerequisites.py --install")
    with hosts.running(tmp_path) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        safe = {"min.insync.replicas": "2"}
        # Broker 1 is the controller, and so another one than the leader.
        topic = NewTopic(TOPIC, 1, replica_assignment=[[2, 3, 1]], config=safe)
        admin.create_topics([topic])[TOPIC].result(30)
        running.wait_in_sync(TOPIC)
        yield running


def cut_in_turn(running: HostedCluster, plan: Plan, seconds: float) -> None:
    """Cut one set of links after the other, again and again."""
    ends = time.monotonic() + seconds
    for links in itertools.cycle(plan.steps):
        running.hosts.cut(links)
        time.sleep(TURN_S)
        if time.monotonic() > ends:
            return


def partition(kind: str, running: HostedCluster, chase: Chase, seconds: float) -> Questions | None:
    """Cut links for some seconds, heal them, and see that clients go on.

    They go on with the links cut, if that can be. Returns what a minority was asked meanwhile.
    """
    leader, controller = running.leader(TOPIC), running.controller()
    plan = KINDS[kind](leader, controller, sorted(running.members))
    running.hosts.cut(plan.steps[0])
    marks, began = chase.marks(), time.monotonic()
    asked = None
    if plan.minority:
        asked = Questions(running.members[plan.minority].bootstrap, f"{kind}-{began:.0f}")
        asked.start()
    went_on = 0.0
    if plan.serves:
        went_on = max(chase.seconds_to_go_on(began, marks).values())
    cut_in_turn(running, plan, began + seconds - time.monotonic())
    if plan.serves:
        # They still go on, with the links cut.
        chase.seconds_to_go_on(time.monotonic(), chase.marks())
    if asked is not None:
        asked.finish()
    running.hosts.heal()
    if not plan.serves:
        went_on = max(chase.seconds_to_go_on(time.monotonic(), chase.marks()).values())
    print(f"{kind}: leader {leader}, controller {controller}, clients went on in {went_on:.2f} s")
    return asked


def test_a_network_in_parts_loses_nothing_and_a_minority_acknowledges_nothing(
    three: HostedCluster, budget: Budget
) -> None:
    chase = Chase(three)
    asked: list[Questions] = []
    for kind in budget.partition_kinds.split(","):
        questions = partition(kind, three, chase, budget.partition_seconds)
        in_sync = three.wait_in_sync(TOPIC, seconds=IN_SYNC_S if budget.judge_times else PATIENCE_S)
        print(f"{kind}: in sync after {in_sync:.2f} s")
        if questions is not None:
            asked.append(questions)
            print(f"{questions.sent} questions, answers by code: {dict(questions.codes)}")
            assert questions.sent > 0
            assert questions.codes[0] == 0, f"{kind}: acknowledged by a minority"
    chase.finish(asked)
