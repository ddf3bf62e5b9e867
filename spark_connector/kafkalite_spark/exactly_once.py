"""Exactly-once delivery of micro-batches: one record decides, then transactions are committed.

Every task writes into its own transaction and leaves it open. One record decides that the
micro-batch counts, with the transactions that it lists. Then these transactions are committed. Four
rules keep that true through crashes of any process, lingering tasks and queries that run twice:

1. A driver takes a *turn* before the tasks of a micro-batch run. Only the newest turn may append.
   The turn finishes decided micro-batches. It aborts open transactions of older turns without a
   decision, because no driver can decide them any more.
2. A task of a micro-batch that was decided before its turn writes nothing: ``Skip``. Other tasks
   write under a transactional id of one attempt, so no attempt can end another's transaction.
3. Appending the decision is the commit point. Its transactions are committed after it.
4. After a failure the driver takes a new turn before it reads the decision. The broker then refuses
   an older append that is still under way, so the decision does not change any more.

So a micro-batch is written only after the one before it is done. Pure: ``DecisionLog`` and
``Transactions`` stand for the brokers. Nothing implements them yet: the sink refuses
``transactional=true``. ADR 0131 lists the missing parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from .decision import Decision, Prepared
from .errors import WriteError

__all__ = [
    "DecisionLog",
    "Fenced",
    "Messages",
    "OpenTransaction",
    "Skip",
    "TransactionLost",
    "Transactions",
    "Turn",
    "Written",
    "abort_batch",
    "begin_turn",
    "commit_batch",
    "transactional_id",
    "turn_of",
    "write_task",
]


class Fenced(WriteError):
    """Another driver of the same query took a turn since: this one may decide no more."""


class TransactionLost(WriteError):
    """A transaction that was decided cannot be committed: the coordinator aborted it meanwhile."""


class DecisionLog(Protocol):
    """Holds the last decision of each query.

    With Kafka: a compacted topic, written in transactions of one id for each query.
    """

    def take_turn(self, query: str, holding: int | None = None) -> int:
        """Return a number above all before it; those may append no more.

        An append of an older turn without an acknowledgement has taken effect when this
        returns, or never will.

        Raises:
            Fenced: ``holding`` is given and no longer the newest turn.
        """

    def last(self, query: str) -> Decision | None:
        """Return the newest decision of the query; ``None`` if it has none."""

    def append(self, decision: Decision, turn: int) -> None:
        """Append, and return when that cannot be undone.

        Raises:
            Fenced: ``turn`` is no longer the newest. After any other error it may have taken
                effect or not, or may yet.
        """


class OpenTransaction(Protocol):
    """One transaction of one attempt of a task."""

    def send(self, rows: Any) -> None:
        """Send rows."""

    def flush(self) -> Prepared:
        """Wait until every row is acknowledged, and leave the transaction open."""


class Transactions(Protocol):
    """Transactions of all drivers."""

    def begin(self, transactional_id: str) -> OpenTransaction:
        """Begin one."""

    def left_open(self, query: str) -> Iterable[str]:
        """Return the ids of the query's transactions that are neither committed nor aborted."""

    def abort(self, transactional_id: str) -> None:
        """Abort one. If it is aborted already, do nothing."""

    def commit(self, prepared: Prepared) -> None:
        """Commit one. If it is committed already, do nothing.

        Raises:
            TransactionLost: It was aborted.
        """


@dataclass(frozen=True)
class Turn:
    """What the driver hands to the tasks of a micro-batch. Plain data: it is pickled.

    Attributes:
        query: The query's id.
        number: The turn's number.
        decided: The last micro-batch that was decided before this turn; -1 for none.
    """

    query: str
    number: int
    decided: int = -1


@dataclass(frozen=True)
class Skip:
    """What a task tells that had nothing to write: its micro-batch was decided before."""

    turn: Turn


@dataclass(frozen=True)
class Written:
    """What a task tells that wrote its rows."""

    turn: Turn
    prepared: Prepared


#: What Spark hands back to the driver, in the order of tasks; ``None`` for one that failed.
Messages = Sequence[Skip | Written | None]


def transactional_id(turn: Turn, partition: int, attempt: int) -> str:
    """Return the id of one attempt of one task; ``attempt`` counts in the whole application."""
    return f"{turn.query}.{turn.number}.{partition}.{attempt}"


def turn_of(transactional_id: str) -> int:
    """Return the number of the turn in an id."""
    return int(transactional_id.rsplit(".", 3)[1])


def begin_turn(log: DecisionLog, transactions: Transactions, query: str) -> Turn:
    """Take a turn on the driver, before the tasks of a micro-batch run: rule 1."""
    return _settled(log, transactions, query, log.take_turn(query))


def write_task(
    turn: Turn,
    batch: int,
    partition: int,
    attempt: int,
    rows: Iterable[Any],
    transactions: Transactions,
) -> Skip | Written:
    """Write the rows of one task, unless its micro-batch was decided before: rule 2."""
    if batch <= turn.decided:
        return Skip(turn)
    opened = transactions.begin(transactional_id(turn, partition, attempt))
    for some in rows:
        opened.send(some)
    return Written(turn, opened.flush())


def commit_batch(
    log: DecisionLog, transactions: Transactions, batch: int, messages: Messages
) -> None:
    """Decide a micro-batch on the driver and commit its transactions: rule 3.

    Raises:
        Fenced: Another driver took a turn. Nothing of this micro-batch counts, or the other one
            finishes it.
        TransactionLost: A transaction was aborted after it was decided.
    """
    written = [one for one in messages if isinstance(one, Written)]
    if not written:
        # Decided before, and finished when the turn began.
        return
    turn = written[0].turn
    if len(written) < len(messages) or any(one.turn != turn for one in written):
        raise WriteError(f"micro-batch {batch}: tasks of different turns, or without a message")
    decision = Decision(turn.query, batch, tuple(one.prepared for one in written))
    log.append(decision, turn.number)
    _finish(log, transactions, decision, turn.number)


def abort_batch(log: DecisionLog, transactions: Transactions, messages: Messages) -> None:
    """Clean up on the driver after a micro-batch failed, be it in its commit: rule 4.

    Raises:
        Fenced: Another driver took a turn, and cleaned up.
    """
    turns = [one.turn for one in messages if one is not None]
    if turns:
        query, number = turns[0].query, turns[0].number
        _settled(log, transactions, query, log.take_turn(query, holding=number))


def _settled(log: DecisionLog, transactions: Transactions, query: str, number: int) -> Turn:
    """Finish what is decided, abort what older turns left."""
    last = log.last(query)
    if last is not None and not last.done:
        _finish(log, transactions, last, number)
    for one in transactions.left_open(query):
        # A newer turn may have begun meanwhile: what it has open is not ours to end.
        if turn_of(one) < number:
            transactions.abort(one)
    return Turn(query, number, -1 if last is None else last.batch)


def _finish(log: DecisionLog, transactions: Transactions, decision: Decision, number: int) -> None:
    for one in decision.prepared:
        transactions.commit(one)
    log.append(replace(decision, prepared=(), done=True), number)
