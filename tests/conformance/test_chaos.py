"""Random programs of faults on three brokers under load: kills, stops, freezes, cut links.

A program follows from its seed; what the brokers make of it differs from run to run. Now and then
all is healed for a moment, so that clients get on. In the end each acknowledged record is read once
and in order, and no client gave its caller an error.
"""

from __future__ import annotations

import itertools
import random
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.budget import Budget
from tests.conformance.test_failover import CONFIG, PARTITIONS, TOPIC, Clients
from tests.harness import checker, hosts
from tests.harness.hosts import HostedCluster
from tests.harness.patience import eventually

#: Pauses between two faults, and of a moment without any, in seconds.
PAUSES, CALMS = (0.1, 0.5, 1.0, 3.0), (0.5, 4.0)
#: How often a fault is followed by such a moment, and how often a link is cut among others.
CALM, CUT = 0.25, 0.4
#: A log has several segments by the end.
SEGMENT_BYTES = str(1 << 20)


class Nemesis:
    """Does one thing after the other to brokers and links."""

    def __init__(self, three: HostedCluster, seed: int) -> None:
        self.three, self.random = three, random.Random(seed)
        self.down: set[int] = set()
        self.frozen: set[int] = set()

    def play(self, seconds: float) -> None:
        """Play for some seconds, and heal everything."""
        began = time.monotonic()
        faults = [self.kill, self.kill, self.stop, self.start, self.start, self.freeze, self.thaw]
        faults += [self.cut, self.cut, self.heal_links, self.heal_links]
        while time.monotonic() < began + seconds:
            said = self.random.choice(faults)(self.random.choice(sorted(self.three.members)))
            if not said:
                continue
            print(f"{time.monotonic() - began:6.1f} s: {said}")
            time.sleep(self.random.choice(PAUSES))
            if self.random.random() < CALM:
                self.heal()
                time.sleep(self.random.choice(CALMS))
        self.heal()

    def _is_up(self, number: int) -> bool:
        return number not in self.down | self.frozen

    def kill(self, number: int) -> str:
        """SIGKILL, if it is there to be killed; what was done, or nothing."""
        if not self._is_up(number):
            return ""
        self.three.members[number].kill()
        self.down.add(number)
        return f"killed {number}"

    def stop(self, number: int) -> str:
        """SIGTERM; it may have to give up, with its links cut."""
        if not self._is_up(number):
            return ""
        self.three.members[number].stop()
        self.down.add(number)
        return f"stopped {number}"

    def start(self, _: int) -> str:
        """Start one that is down, and do not wait for it: it may find no others."""
        if not self.down:
            return ""
        number = self.random.choice(sorted(self.down))
        self.three.members[number].launch()
        self.down.discard(number)
        return f"started {number}"

    def freeze(self, number: int) -> str:
        """SIGSTOP."""
        if not self._is_up(number):
            return ""
        self.three.members[number].freeze()
        self.frozen.add(number)
        return f"froze {number}"

    def thaw(self, _: int) -> str:
        """SIGCONT for one that is frozen."""
        if not self.frozen:
            return ""
        number = self.random.choice(sorted(self.frozen))
        self.three.members[number].thaw()
        self.frozen.discard(number)
        return f"thawed {number}"

    def cut(self, _: int) -> str:
        """Cut some links, each in one direction."""
        pairs = itertools.permutations(sorted(self.three.members), 2)
        links = [pair for pair in pairs if self.random.random() < CUT]
        self.three.hosts.cut(links)
        return f"cut {links}"

    def heal_links(self, _: int) -> str:
        """Let all packets through."""
        self.three.hosts.heal()
        return "healed all links"

    def heal(self) -> None:
        """Heal all links, and have all brokers up."""
        self.three.hosts.heal()
        while self.frozen:
            self.thaw(0)
        while self.down:
            self.start(0)


def play(three: HostedCluster, seed: int, seconds: float) -> None:
    """One program under the load of all clients, and what came of it."""
    admin = AdminClient({"bootstrap.servers": three.bootstrap, "log_level": 0})
    topic = NewTopic(TOPIC, PARTITIONS, 3, config={"segment.bytes": SEGMENT_BYTES})
    admin.create_topics([topic])[TOPIC].result(30)
    three.wait_in_sync(TOPIC)
    clients = Clients(three)
    Nemesis(three, seed).play(seconds)
    print(f"seed {seed}: in sync after {three.wait_in_sync(TOPIC, seconds=120):.2f} s")
    clients.finish()

    def are_equal() -> bool:
        logs = [three.logs(TOPIC, number) for number in range(PARTITIONS)]
        same = all(len(set(map(len, log.values()))) == 1 for log in logs)
        return same and not any(checker.check_replicas(log) for log in logs)

    eventually(are_equal)


def test_nothing_is_lost_through_random_programs_of_faults(
    broker_kind: str, tmp_path: Path, budget: Budget
) -> None:
    if broker_kind != "kafkalite":
        pytest.skip("three brokers are started of ours only")
    if missing := hosts.is_missing():
        pytest.skip(f"hosts need {missing}: python tests/conformance/prerequisites.py --install")
    for seed in filter(None, budget.chaos_seeds.split(",")):
        folder = tmp_path / seed
        folder.mkdir()
        with hosts.running(folder, CONFIG) as three:
            play(three, int(seed), budget.chaos_seconds)
