"""Three brokers, and the leader is chased: killed, stopped, frozen, and cut down to the last one.

With ``acks=all``, three replicas and ``min.insync.replicas=2`` every acknowledged record is read
once and in order. In the end the replicas are equal byte for byte.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import kafkalite as kl
from tests.conformance.budget import Budget
from tests.harness import checker, cluster, places
from tests.harness.cluster import Cluster
from tests.harness.load import Load, LoadProducer, LoadReader, history_of
from tests.harness.other_loads import JavaLoad, OwnLoad
from tests.harness.patience import eventually

TOPIC = "chased"
PER_SECOND = 150
#: How long after an outage a record of each client has to be acknowledged.
PATIENCE_S = 60.0
#: Seconds until all replicas are in sync again after a fault has ended.
IN_SYNC_S = 30.0
#: From the kill of a leader to the first record that a client has acknowledged. The last one is
#: for a leader that was the controller as well.
MEDIAN_S, WORST_S, WORST_WITH_CONTROLLER_S = 1.0, 2.0, 3.0


@pytest.fixture
def three(broker_kind: str, tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers of ours, and a topic that survives the loss of one."""
    if broker_kind != "kafkalite":
        pytest.skip("three brokers are started of ours only")
    with cluster.running(tmp_path) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        safe = {"min.insync.replicas": "2"}
        # Broker 1 is the controller, and so another one than the leader.
        topic = NewTopic(TOPIC, 1, replica_assignment=[[2, 3, 1]], config=safe)
        admin.create_topics([topic])[TOPIC].result(30)
        running.wait_in_sync(TOPIC)
        yield running


class Chase:
    """Load of several clients, and what came of it."""

    def __init__(self, running: Cluster) -> None:
        at = (running.bootstrap, TOPIC)
        self.cluster = running
        self.loads: list[Load] = [
            OwnLoad("own", *at, per_second=PER_SECOND),
            # Its default is to wait a minute for a broker that says nothing.
            LoadProducer(
                "confluent", *at, per_second=PER_SECOND, size=100, **{"socket.timeout.ms": 10_000}
            ),
        ]
        if places.java() is not None and places.clients_jar().exists():
            self.loads.append(JavaLoad(7, *at, per_second=PER_SECOND, folder=running.folder))
        self.live = LoadReader("live", *at, 1)
        for one in (*self.loads, self.live):
            one.start()
        eventually(lambda: all(load.newest > 100 for load in self.loads), PATIENCE_S)

    def seconds_to_go_on(self, began: float, marks: list[int]) -> dict[str, float]:
        """Seconds until each client has an answer for a record that it sent after ``began``."""
        found: dict[str, float] = {}
        while len(found) < len(self.loads):
            now = time.monotonic() - began
            assert now < PATIENCE_S, f"only {sorted(found)} went on after {now:.0f} s"
            for load, mark in zip(self.loads, marks, strict=True):
                if load.newest >= mark:
                    found.setdefault(load.name, now)
            time.sleep(0.005)
        return found

    def marks(self) -> list[int]:
        """The next number of each client."""
        return [load.sent for load in self.loads]

    def finish(self, asked: Sequence[Load] = ()) -> None:
        """End the load, and judge the history and the replicas.

        What was ``asked`` besides has ended, and its records may be there or not.
        """
        for load in self.loads:
            load.finish()
        self.live.finish()
        self.cluster.wait_in_sync(TOPIC)
        afterwards = LoadReader("afterwards", self.cluster.bootstrap, TOPIC, 1)
        afterwards.drain()
        history = history_of([*self.loads, *asked], [self.live, afterwards])
        violations = checker.check(history)
        assert not violations, checker.summary(violations)
        assert not [error for one in (*self.loads, self.live) for error in one.errors]
        sends = [send for load in self.loads for send in load.sends]
        refused = [send for send in sends if send.outcome is not checker.Outcome.OK]
        assert not refused, refused[:5]

        def are_equal() -> bool:
            logs = self.cluster.logs(TOPIC)
            return len(set(map(len, logs.values()))) == 1 and not checker.check_replicas(logs)

        eventually(are_equal)
        print(f"{len(sends)} records, each once and on three replicas alike")


def lead_at(running: Cluster, broker: int) -> None:
    """Have a broker lead the topic: it becomes the preferred leader, and is elected."""
    others = [number for number in running.members if number != broker]
    with kl.AdminClient(bootstrap_servers=running.bootstrap) as admin:
        admin.reassign_partitions({(TOPIC, 0): [broker, *others]})
        eventually(lambda: not admin.list_reassignments())
        admin.elect_leaders([(TOPIC, 0)])
    eventually(lambda: running.leader(TOPIC) == broker)


def told(name: str, seconds: list[float]) -> str:
    """Median and worst of some times."""
    return f"{name}: median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s"


def test_nothing_is_lost_while_the_leader_is_killed_again_and_again(
    three: Cluster, budget: Budget
) -> None:
    chase = Chase(three)
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(budget.leader_kills):
        controller = three.controller()
        if number < budget.leader_and_controller_kills:
            lead_at(three, controller)
        leader = three.leader(TOPIC)
        marks, began = chase.marks(), time.monotonic()
        three.members[leader].kill()
        went_on = chase.seconds_to_go_on(began, marks)
        print(f"leader {leader}, controller {controller}: {went_on}")
        who = "leader and controller killed" if leader == controller else "leader killed"
        for name, found in went_on.items():
            seconds[who, name].append(found)
        three.members[leader].start()
        three.wait_in_sync(TOPIC)
    chase.finish()
    for (who, name), times in sorted(seconds.items()):
        print(told(f"{who} {len(times)} times, {name} went on", times))
        worst = WORST_WITH_CONTROLLER_S if "controller" in who else WORST_S
        if budget.judge_times:
            assert statistics.median(times) < MEDIAN_S or "controller" in who
            assert max(times) < worst


def test_a_rolling_restart_is_no_error_to_any_client_and_scans_no_log(
    three: Cluster, budget: Budget
) -> None:
    chase = Chase(three)
    seconds: list[float] = []
    for _ in range(budget.rolling_restarts):
        for member in three.members.values():
            marks, began = chase.marks(), time.monotonic()
            assert member.stop() == 0
            # Without it the next start would scan the logs.
            assert (member.data_dir / ".kafka_cleanshutdown").exists()
            seconds.append(max(chase.seconds_to_go_on(began, marks).values()))
            member.start()
            three.wait_in_sync(TOPIC)
    chase.finish()
    print(told("broker stopped", seconds))


@pytest.mark.parametrize("who", ["leader", "controller"])
def test_a_broker_that_was_frozen_acknowledges_nothing_of_its_own(
    three: Cluster, budget: Budget, who: str
) -> None:
    chase = Chase(three)
    number = three.leader(TOPIC) if who == "leader" else three.controller()
    marks, began = chase.marks(), time.monotonic()
    three.members[number].freeze()
    went_on = max(chase.seconds_to_go_on(began, marks).values())
    time.sleep(max(0.0, budget.frozen_seconds - went_on))
    three.members[number].thaw()
    in_sync = three.wait_in_sync(TOPIC, seconds=IN_SYNC_S if budget.judge_times else PATIENCE_S)
    chase.finish()
    print(f"{who} frozen: others went on after {went_on:.2f} s, back in sync after {in_sync:.2f} s")


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_nothing_is_lost_when_all_are_killed_one_after_the_other(
    three: Cluster, order: tuple[int, ...]
) -> None:
    chase = Chase(three)
    for number in order:
        three.members[number].kill()
        time.sleep(0.5)
    # Alone none of them serves: two of three have to be there.
    with ThreadPoolExecutor(len(order)) as pool:
        ready = list(pool.map(lambda number: three.members[number].start(), order))
    chase.finish()
    print(f"ready after {min(ready):.2f} to {max(ready):.2f} s")
