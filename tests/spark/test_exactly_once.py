"""Exactly once: whatever dies, lingers or runs twice, every row is committed once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from kafkalite_spark import exactly_once as protocol
from kafkalite_spark.decision import Decision, Prepared, decode, encode
from tests.spark.model import QUERY, Spark, World

BATCHES, HISTORIES = 4, 2_000


def faults(seed: int) -> list[str]:
    """Return what is wrong after one history: rows lost or doubled, an end that never comes."""
    world = World(seed)
    spark = Spark(world, BATCHES)
    try:
        for _ in range(20):
            spark.run_a_driver()
        world.calm = True
        # What lingers goes on to its end, then one driver runs undisturbed.
        while world.lingering:
            world.lingering.pop()()
        spark.run_a_driver()
    except AssertionError as error:
        return [str(error)]
    counts = Counter(world.committed())
    expected = {row for batch in spark.rows for row in batch}
    found = [f"{row} {counts[row]} times" for row in sorted(expected) if counts[row] != 1]
    if spark.finished < BATCHES:
        found.append(f"{spark.finished} micro-batches of {BATCHES}")
    return found


def test_every_row_is_committed_once_in_every_history() -> None:
    for seed in range(HISTORIES):
        assert faults(seed) == [], f"history {seed}"


commit_batch, write_task = protocol.commit_batch, protocol.write_task


def looks_without_a_turn(
    log: protocol.DecisionLog, transactions: protocol.Transactions, messages: protocol.Messages
) -> None:
    """Abort what is not decided yet, though the decision may be on its way."""
    written = [one for one in messages if isinstance(one, protocol.Written)]
    if written and (log.last(QUERY) or Decision(QUERY, -1)).done:
        for one in written:
            transactions.abort(one.prepared.transactional_id)


def one_id_for_all_attempts(turn: protocol.Turn, partition: int, attempt: int) -> str:
    """Let attempts end each other's transactions, as late ones then do."""
    return f"{turn.query}.{turn.number}.{partition}.0"


def every_turn_is_older(transactional_id: str) -> int:
    """Let a driver that was replaced abort what its successor has open."""
    return -1


def commits_before_it_decides(
    log: protocol.DecisionLog,
    transactions: protocol.Transactions,
    batch: int,
    messages: protocol.Messages,
) -> None:
    """Commit without a note for the next driver."""
    for one in messages:
        if isinstance(one, protocol.Written):
            transactions.commit(one.prepared)
    commit_batch(log, transactions, batch, messages)


def skips_nothing(turn: protocol.Turn, *more: Any) -> protocol.Skip | protocol.Written:
    """Write again what was decided."""
    return write_task(replace(turn, decided=-1), *more)


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        ("abort_batch", looks_without_a_turn),
        ("transactional_id", one_id_for_all_attempts),
        ("turn_of", every_turn_is_older),
        ("commit_batch", commits_before_it_decides),
        ("write_task", skips_nothing),
    ],
)
def test_without_any_of_its_rules_rows_are_lost_or_doubled(
    monkeypatch: pytest.MonkeyPatch, rule: str, broken: object
) -> None:
    monkeypatch.setattr(protocol, rule, broken)
    assert any(faults(seed) for seed in range(HISTORIES))


def test_a_decision_that_cannot_be_carried_out_is_said_and_not_passed_over() -> None:
    world = World(0)
    world.calm = True
    spark = Spark(world, 1)
    turn = protocol.begin_turn(spark.log, spark.transactions, QUERY)
    written = protocol.write_task(turn, 0, 0, 1, ["row"], spark.transactions)
    assert isinstance(written, protocol.Written)
    decided = Decision(QUERY, 0, (written.prepared,))
    spark.log.append(decided, turn.number)
    # The coordinator waits no longer than the transaction's time-out for a driver that is gone.
    world.transactions[written.prepared.transactional_id].state = "aborted"
    for _ in range(2):
        with pytest.raises(protocol.TransactionLost):
            protocol.begin_turn(spark.log, spark.transactions, QUERY)


def test_a_task_of_a_decided_batch_skips_and_one_of_the_next_writes() -> None:
    world = World(0)
    world.calm = True
    spark = Spark(world, 1)
    turn = protocol.Turn(QUERY, 1, decided=3)
    assert protocol.write_task(turn, 3, 0, 1, ["row"], spark.transactions) == protocol.Skip(turn)
    assert not world.transactions
    written = protocol.write_task(turn, 4, 0, 2, ["row"], spark.transactions)
    assert isinstance(written, protocol.Written)
    assert protocol.turn_of(written.prepared.transactional_id) == 1


DECISION = Decision("q.ü", 7, (Prepared("p.q.7.0.1", 4_000, 2, 10), Prepared("p.q.7.1.2", 1, 0, 0)))


@pytest.mark.parametrize(
    "decision", [DECISION, replace(DECISION, prepared=(), done=True), Decision("", 0)]
)
def test_a_decision_is_read_as_it_was_written(decision: Decision) -> None:
    assert decode(*encode(decision)) == decision


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"batch":7', b'"batch":8'), (b"4000", b"4001"), (b'"version":1', b'"version":2')],
)
def test_a_record_that_was_changed_is_refused(old: bytes, new: bytes) -> None:
    key, value = encode(DECISION)
    assert old in value
    with pytest.raises(ValueError, match="decision record"):
        decode(key, value.replace(old, new))
