"""The checker is proven first: every planted bug has to be caught, and a right run is clean.

The model below is a broker in a few lines with one switch for each bug. A seeded run of the model
makes the history that the checker judges.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from tests.harness import checker
from tests.harness.checker import Fate, History, Mark, Outcome, Poll, Send
from tests.harness.wire.batches import simple

BUGS: dict[str, set[str]] = {
    "acknowledge before the append": {"lost-write", "unseen"},
    "forget the producer's sequences": {"duplicate"},
    "show records above the high watermark": {"inconsistent-offset"},
    "acknowledge with another offset": {"inconsistent-offset"},
    "drop one record from an answer": {"poll-skip"},
    "read from the wrong position after a restart": {"non-monotonic-poll"},
    "show aborted records": {"aborted-read"},
    "show records before their commit": {"precommitted-read"},
    "make up a record": {"phantom"},
}


@dataclass
class Model:
    """One partition of a broker that crashes now and then; ``bug`` is what it does wrong."""

    seed: int
    bug: str = ""
    log: list[str] = field(default_factory=list)
    history: History = field(default_factory=History)
    position: int = 0
    fates: dict[str, Fate] = field(default_factory=dict)

    def run(self, steps: int = 400) -> History:
        """Sends, polls and crashes in an order that the seed decides; then everything is read."""
        dice = random.Random(self.seed)
        for number in range(steps):
            roll = dice.random()
            if roll < 0.4:
                self.send(f"v{number}", dice)
            elif roll < 0.95:
                self.poll("live", dice)
            else:
                self.crash()
        self.position = max(self.position, 0)
        while self.position < len(self.log):
            self.poll("live", dice)
        for offset, value in enumerate(self.log):
            if self.fates.get(value) is not Fate.ABORTED:
                self.history.polls.append(Poll("afterwards", 0, offset, value))
        return self.history

    def send(self, value: str, dice: random.Random) -> None:
        """One produce, sometimes retried because its answer was lost."""
        fate = Fate.ABORTED if dice.random() < 0.1 else Fate.COMMITTED
        self.fates[value] = fate
        rare = dice.random() < 0.3
        offset = len(self.log)
        if not (self.bug == "acknowledge before the append" and rare):
            self.log.append(value)
        if self.bug == "forget the producer's sequences" and rare:
            self.log.append(value)
        if self.bug == "acknowledge with another offset" and rare:
            offset += 1
        outcome = Outcome.UNKNOWN if dice.random() < 0.05 else Outcome.OK
        told = offset if outcome is Outcome.OK else None
        self.history.sends.append(Send(value, 0, outcome, told, fate))

    def poll(self, reader: str, dice: random.Random) -> None:
        """One record at the reader's position, if it may be seen."""
        rare = dice.random() < 0.3
        if self.position < len(self.log):
            if self.bug == "drop one record from an answer" and rare:
                self.position += 1
                return
            value = self.log[self.position]
            hidden = self.fates[value] is Fate.ABORTED
            if hidden and self.bug != "show aborted records":
                self.position += 1
                return
            early = self.bug == "show records before their commit" and rare
            fate_then = Fate.OPEN if early else Fate.COMMITTED
            poll = Poll(reader, 0, self.position, value, fate_then=fate_then)
            self.history.polls.append(poll)
            self.position += 1
        elif self.bug == "show records above the high watermark" and rare:
            # Seen by the reader, then truncated; the next send takes its offset.
            self.history.sends.append(Send(f"torn{self.position}", 0, Outcome.UNKNOWN))
            self.history.polls.append(Poll(reader, 0, self.position, f"torn{self.position}"))
        elif self.bug == "make up a record" and rare:
            self.history.polls.append(Poll("ghost", 0, self.position + 10_000, "never sent"))

    def crash(self) -> None:
        """Kill and recover."""
        if self.bug == "read from the wrong position after a restart":
            self.position = max(0, self.position - 3)


@pytest.mark.parametrize("seed", range(20))
def test_a_right_broker_has_a_clean_history(seed: int) -> None:
    history = Model(seed).run()
    assert len(history.polls) > 100
    assert checker.check(history) == []


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught_in_every_run(bug: str) -> None:
    for seed in range(20):
        kinds = {violation.kind for violation in checker.check(Model(seed, bug).run())}
        assert kinds & BUGS[bug], f"seed {seed}: {kinds}"


OK, FAILED, UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN

SMALL: dict[str, tuple[History, set[str]]] = {
    "nothing happened": (History(), set()),
    "acknowledged and read": (
        History([Send("a", 0, OK, 0)], [Poll("r", 0, 0, "a")]), set()),
    "an unknown send that was not read": (History([Send("a", 0, UNKNOWN)]), set()),
    "an unknown send that was read": (
        History([Send("a", 0, UNKNOWN)], [Poll("r", 0, 0, "a")]), set()),
    "a refused send that was not read": (History([Send("a", 0, FAILED)]), set()),
    "acknowledged under acks=0": (History([Send("a", 0, OK, -1)]), set()),
    "acknowledged and not drained": (History([Send("a", 0, OK, 0)], drained=False), set()),
    "acknowledged and unread": (History([Send("a", 0, OK, 0)]), {"unseen"}),
    "acknowledged below what was read": (
        History([Send("a", 0, OK, 0), Send("b", 0, OK, 1)], [Poll("r", 0, 1, "b")]),
        {"lost-write"}),
    "twice without idempotence": (
        History([Send("a", 0, OK, 1)], [Poll("r", 0, 0, "a"), Poll("r", 0, 1, "a")],
                idempotent=False), set()),
    "twice in two partitions": (
        History([Send("a", 0, OK, 0)], [Poll("r", 0, 0, "a"), Poll("r", 1, 0, "a")]),
        {"duplicate"}),
    "back because it had to": (
        History([Send("a", 0, OK, 0)], [Poll("r", 0, 0, "a"), Poll("r", 0, 0, "a", True)]), set()),
    "the same record again": (
        History([Send("a", 0, OK, 0)], [Poll("r", 0, 0, "a"), Poll("r", 0, 0, "a")]),
        {"non-monotonic-poll"}),
    "a gap that holds nothing": (
        History([Send("a", 0, OK, 0), Send("b", 0, OK, 9)],
                [Poll("r", 0, 0, "a"), Poll("r", 0, 9, "b")]), set()),
    "a gap that holds something": (
        History([Send(v, 0, OK, i) for i, v in enumerate("abc")],
                [Poll("r", 0, 0, "a"), Poll("r", 0, 2, "c"), Poll("q", 0, 1, "b")]),
        {"poll-skip"}),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_a_small_history_is_judged_rightly(name: str) -> None:
    history, kinds = SMALL[name]
    assert {violation.kind for violation in checker.check(history)} == kinds


FIRST, SECOND = simple(b"a", b"b"), simple(b"c", base_offset=2)

LOGS: dict[str, tuple[bytes, set[str]]] = {
    "right": (FIRST + SECOND, set()),
    "empty": (b"", set()),
    "a flipped bit": (FIRST[:-1] + bytes([FIRST[-1] ^ 1]) + SECOND, {"bad-crc"}),
    "a missing batch": (FIRST + simple(b"c", base_offset=3), {"offset-gap"}),
    "a repeated batch": (FIRST + FIRST, {"offset-gap"}),
    "cut in a header": (FIRST + SECOND[:20], {"truncated-batch"}),
    "cut in the records": (FIRST + SECOND[:-1], {"truncated-batch"}),
    "zeros at the end": (FIRST + bytes(100), {"truncated-batch"}),
}


@pytest.mark.parametrize("name", LOGS)
def test_the_bytes_of_a_log_are_judged_rightly(name: str) -> None:
    data, kinds = LOGS[name]
    assert {violation.kind for violation in checker.check_log(data, 0)} == kinds


def test_a_mark_may_go_back_only_under_another_leader_epoch() -> None:
    def kinds(*marks: tuple[int, int]) -> list[str]:
        observed = [Mark("high watermark", 0, epoch, value) for epoch, value in marks]
        return [violation.kind for violation in checker.check_marks(observed)]

    assert kinds((0, 5), (0, 5), (0, 7)) == []
    assert kinds((0, 5), (1, 3)) == []
    assert kinds((0, 5), (0, 4)) == ["mark-went-back"]


def test_replicas_that_differ_below_the_high_watermark_are_found() -> None:
    assert checker.check_replicas({"1": FIRST, "2": FIRST + SECOND}) == []
    found = checker.check_replicas({"1": FIRST, "2": SECOND})
    assert [violation.kind for violation in found] == ["replicas-differ"]
