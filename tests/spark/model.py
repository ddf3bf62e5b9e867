"""A Kafka with transactions and a Spark with micro-batches, in which everything that can fail does.

All in one thread. A task that was given up and a driver that was replaced go on in the middle of
another one's call. There the world decides, by a seeded generator, what happens.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kafkalite_spark import exactly_once as protocol
from kafkalite_spark.decision import Decision, Prepared, decode, encode
from kafkalite_spark.errors import WriteError

QUERY = "q"


class Killed(BaseException):
    """The process that called is gone: nothing of it catches this."""


class NoAnswer(Exception):
    """The call took effect or not, or will."""


@dataclass
class Transaction:
    """One transaction of the coordinator, and its rows."""

    prepared: Prepared
    state: str = "open"
    rows: list[str] = field(default_factory=list)


class World:
    """The brokers, what happens to callers, and what lingers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.calm = False
        self.transactions: dict[str, Transaction] = {}
        self.turn = 0
        self.record: tuple[bytes, bytes] | None = None
        self.on_their_way: list[tuple[Decision, int]] = []
        self.lingering: list[Callable[[], None]] = []
        self.depth = 0
        #: Starts another driver of the same query, in the middle of a call.
        self.another_driver: Callable[[], None] = lambda: None

    def chance(self, of: float) -> bool:
        """Return whether it happens."""
        return not self.calm and self.random.random() < of

    def call(self, effect: Callable[[], object]) -> object:
        """Carry out a call: another may go on first, and its end may be lost."""
        if self.lingering and self.chance(0.3):
            self.lingering.pop(self.random.randrange(len(self.lingering)))()
        if self.on_their_way and self.chance(0.3):
            self.land(*self.on_their_way.pop())
        if self.depth < 2 and self.chance(0.03):
            self.depth += 1
            try:
                self.another_driver()
            finally:
                self.depth -= 1
        if self.chance(0.02):
            raise Killed
        if self.chance(0.03):
            raise NoAnswer
        answer = effect()
        if self.chance(0.02):
            raise Killed
        if self.chance(0.03):
            raise NoAnswer
        return answer

    def land(self, decision: Decision, turn: int) -> None:
        """Append, unless a newer turn was taken."""
        if turn == self.turn:
            self.record = encode(decision)

    def committed(self) -> list[str]:
        """Return what readers see."""
        states = self.transactions.values()
        return [row for one in states if one.state == "committed" for row in one.rows]


class Log:
    """The decision log of the world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def take_turn(self, query: str, holding: int | None = None) -> int:
        assert query == QUERY

        def effect() -> int:
            if holding is not None and holding != self.world.turn:
                raise protocol.Fenced("another turn")
            self.world.turn += 1
            return self.world.turn

        number = self.world.call(effect)
        assert isinstance(number, int)
        return number

    def last(self, query: str) -> Decision | None:
        def effect() -> Decision | None:
            return None if self.world.record is None else decode(*self.world.record)

        found = self.world.call(effect)
        assert found is None or isinstance(found, Decision)
        return found

    def append(self, decision: Decision, turn: int) -> None:
        def effect() -> None:
            if turn != self.world.turn:
                raise protocol.Fenced("another turn")
            if self.world.chance(0.05):
                # It is written later, if ever; the sender gets no answer.
                self.world.on_their_way.append((decision, turn))
                raise NoAnswer
            self.world.land(decision, turn)

        self.world.call(effect)


class Filling:
    """A transaction that a task fills."""

    def __init__(self, world: World, transaction: Transaction) -> None:
        self.world, self.transaction = world, transaction

    def send(self, rows: str) -> None:
        def effect() -> None:
            if self.transaction.state != "open":
                raise protocol.Fenced("aborted")
            self.transaction.rows.append(rows)

        self.world.call(effect)

    def flush(self) -> Prepared:
        return self.transaction.prepared


class Coordinator:
    """The transactions of the world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def begin(self, transactional_id: str) -> Filling:
        def effect() -> Filling:
            known = self.world.transactions.get(transactional_id)
            epoch = 0
            if known is not None:
                # Like InitProducerId: the former user of the id is fenced.
                if known.state == "open":
                    known.state = "aborted"
                epoch = known.prepared.epoch + 1
                self.world.transactions[f"{transactional_id} {epoch}"] = known
            made = Transaction(Prepared(transactional_id, 1, epoch, 0))
            self.world.transactions[transactional_id] = made
            return Filling(self.world, made)

        made = self.world.call(effect)
        assert isinstance(made, Filling)
        return made

    def left_open(self, query: str) -> Iterable[str]:
        def effect() -> list[str]:
            return [name for name, one in self.world.transactions.items() if one.state == "open"]

        found = self.world.call(effect)
        assert isinstance(found, list)
        return found

    def abort(self, transactional_id: str) -> None:
        def effect() -> None:
            found = self.world.transactions[transactional_id]
            assert found.state != "committed", "aborted what counts"
            found.state = "aborted"

        self.world.call(effect)

    def commit(self, prepared: Prepared) -> None:
        def effect() -> None:
            found = self.world.transactions[prepared.transactional_id]
            if found.state == "aborted" or found.prepared != prepared:
                raise protocol.TransactionLost(prepared.transactional_id)
            found.state = "committed"

        self.world.call(effect)


class Spark:
    """Plans micro-batches, runs their tasks again when they fail, and keeps a checkpoint."""

    def __init__(self, world: World, batches: int) -> None:
        self.world = world
        self.log, self.transactions = Log(world), Coordinator(world)
        self.rows = [[f"{number}-{row}" for row in range(5)] for number in range(batches)]
        self.finished = 0
        self.attempts = 0
        world.another_driver = self.run_a_driver

    def run_a_driver(self) -> None:
        """Run the query from its checkpoint until it fails, is killed, or is through."""
        try:
            while self.finished < len(self.rows):
                self.run_batch(self.finished)
        except (Killed, NoAnswer, WriteError):
            return

    def run_batch(self, batch: int) -> None:
        """Run one micro-batch, and write down that it is finished."""
        turn = protocol.begin_turn(self.log, self.transactions, QUERY)
        messages: list[protocol.Skip | protocol.Written | None] = []
        try:
            for partition, rows in enumerate(self.dealt(batch)):
                messages.append(None)
                messages[-1] = self.run_task(turn, batch, partition, rows)
            protocol.commit_batch(self.log, self.transactions, batch, messages)
        except (NoAnswer, WriteError):
            protocol.abort_batch(self.log, self.transactions, messages)
            raise
        if not self.world.chance(0.1):
            # Else the query ends with its micro-batch done and not written down.
            self.finished = max(self.finished, batch + 1)

    def dealt(self, batch: int) -> list[list[str]]:
        """Deal the rows of a micro-batch to tasks: another way each time, as shuffles may."""
        tasks: list[list[str]] = [[] for _ in range(self.world.random.randint(1, 3))]
        for row in self.rows[batch]:
            self.world.random.choice(tasks).append(row)
        return tasks

    def run_task(
        self, turn: protocol.Turn, batch: int, partition: int, rows: list[str]
    ) -> protocol.Skip | protocol.Written:
        """Run attempts of a task until one returns; one that was given up may go on later."""
        for _ in range(4):
            self.attempts += 1
            attempt = self.attempts

            def work(attempt: int = attempt) -> protocol.Skip | protocol.Written:
                return protocol.write_task(turn, batch, partition, attempt, rows, self.transactions)

            def later(work: Callable[[], object] = work) -> None:
                try:
                    work()
                except (Killed, NoAnswer, WriteError):
                    return

            if self.world.chance(0.1):
                self.world.lingering.append(later)
                continue
            try:
                done = work()
            except (Killed, NoAnswer, WriteError):
                continue
            if self.world.chance(0.1):
                # Its answer is lost: another attempt runs, this one's transaction stays open.
                continue
            return done
        raise NoAnswer
