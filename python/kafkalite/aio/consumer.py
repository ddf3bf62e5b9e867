"""Reading records in asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from .. import consumer_calls as calls
from .._native import Handover
from ..consumer_base import BaseConsumer
from ..errors import KafkaliteError
from ..typevars import ReadKey, ReadValue
from .waiting import end_of, in_thread, is_exiting, result_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Self

    from ..consumer_calls import Committable
    from ..descriptions import CommittedOffset, ListedOffset
    from ..records import Place, Record, RecordBatch, TopicPartition

__all__ = ["AsyncConsumer"]

#: Records that are handed out before other tasks have their turn.
RECORDS_AT_A_TIME = 256

#: The changes of hands that listeners see here, in their own tasks and in those that they begin.
_listening: ContextVar[tuple[asyncio.Task[Any], ...]] = ContextVar("listening", default=())


class AsyncConsumer(BaseConsumer[ReadKey, ReadValue]):
    """``Consumer`` for asyncio: the same names and arguments, ``await`` before what waits.

    Listeners may be coroutine functions. No thread waits for this client: it tells the loop.

    Args:
        topics: As for ``Consumer``.
        group_id: As for ``Consumer``.
        config: As for ``Consumer``.
        on_assign: As for ``Consumer``, or a coroutine function.
        on_revoke: As for ``Consumer``, or a coroutine function.
        on_lost: As for ``Consumer``, or a coroutine function.
        key_deserializer: As for ``Consumer``.
        value_deserializer: As for ``Consumer``.
        cfg: As for ``Consumer``.

    Raises:
        ConfigError: A key or a value that cannot be.

    Source:
        As for ``Consumer``.
    """

    _handed_out = 0
    _woken: asyncio.Future[None] | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    #: A change of hands that listeners have not seen to their end.
    _shown: asyncio.Task[None] | None = None

    async def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group; see ``Consumer.unsubscribe``."""
        try:
            await self._seen()
            partitions = self.assignment()
            if partitions:
                await result_of(self._native.before_unsubscribe())
                await self._tell("revoke", partitions)
        finally:
            self._native.unsubscribe()

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[int]:
        """Return the numbers of a topic's partitions, sorted."""
        found: list[int] = await result_of(self._native.partitions(topic, timeout))
        return found

    # Reading

    async def poll(self, timeout: float | None = None) -> Record[ReadKey, ReadValue] | None:
        """Return the next record, or ``None`` after ``timeout`` seconds; see ``Consumer.poll``."""
        deadline = calls.deadline_after(timeout)
        if self._handed_out >= RECORDS_AT_A_TIME:
            await self._breathe()
        if self._shown is not None:
            await self._seen()
        while True:
            record = self._native.poll(0)
            if isinstance(record, Handover):
                await self._show(record)
            elif record is not None:
                self._handed_out += 1
                return record
            elif not await self._wait(deadline):
                # A loop of calls that do not wait would leave other tasks no turn.
                await self._breathe()
                return None

    async def consume(
        self, max_records: int | None = None, timeout: float | None = None
    ) -> list[Record[ReadKey, ReadValue]]:
        """Return records as soon as there are any; see ``Consumer.consume``."""
        limit = self._native.max_poll_records if max_records is None else max_records
        calls.checked_limits(limit, 1)
        deadline = calls.deadline_after(timeout)
        await self._breathe()
        await self._seen()
        while True:
            records = self._native.consume(limit, 0)
            if isinstance(records, Handover):
                await self._show(records)
            elif records or not await self._wait(deadline):
                return records

    async def next_batch(
        self,
        max_records: int = calls.BATCH_RECORDS,
        max_bytes: int = calls.BATCH_BYTES,
        timeout: float | None = None,
    ) -> RecordBatch | None:
        """Return records without an object for each; see ``Consumer.next_batch``."""
        calls.checked_limits(max_records, max_bytes)
        deadline = calls.deadline_after(timeout)
        await self._breathe()
        await self._seen()
        while True:
            batch = self._native.next_batch(max_records, max_bytes, 0)
            if isinstance(batch, Handover):
                await self._show(batch)
            elif batch is not None:
                return batch
            elif not await self._wait(deadline):
                return None

    async def batches(
        self,
        max_records: int = calls.BATCH_RECORDS,
        max_bytes: int = calls.BATCH_BYTES,
        timeout: float | None = None,
    ) -> AsyncIterator[RecordBatch]:
        """Iterate over batches; see ``Consumer.batches``."""
        while (batch := await self.next_batch(max_records, max_bytes, timeout)) is not None:
            yield batch

    def __aiter__(self) -> Self:
        """Iterate over records without end."""
        return self

    async def __anext__(self) -> Record[ReadKey, ReadValue]:
        """Return the next record."""
        record = await self.poll()
        while record is None:
            record = await self.poll()
        return record

    async def _breathe(self) -> None:
        """Let other tasks have their turn, before records are taken: to be cancelled loses none."""
        self._handed_out = 0
        await asyncio.sleep(0)

    async def _wait(self, deadline: float | None) -> bool:
        """Wait until there is something to look at; ``False`` when it is too late for that."""
        left = calls.seconds_left(deadline)
        if left == 0:
            return False
        # A longer wait would look like a program that stopped reading.
        longest = self._native.max_poll_interval / 3
        wait = longest if left is None else min(left, longest)
        await asyncio.wait([self._waking()], timeout=wait)
        return True

    def _waking(self) -> asyncio.Future[None]:
        """Return a future for when there is something to look at; all who wait share it."""
        loop = asyncio.get_running_loop()
        # A signal's handler may raise between any two steps here and in `_wake`, and the loop may
        # go on. So every caller asks to be woken, and nothing counts as done before it is.
        if self._loop is not loop:
            self._forget_loop()
            loop.add_reader(self._native.wake_fd(), self._wake)
            self._loop = loop
        woken = self._woken
        if woken is None or woken.done() or woken.get_loop() is not loop:
            woken = self._woken = loop.create_future()
        self._native.arm()
        return woken

    def _wake(self) -> None:
        """Wake those who wait, then take the bytes that the client's thread wrote.

        Bytes that are left call this again. The loop calls it twice for the same bytes where an
        exception left its first call in the queue.
        """
        self._settle()
        with contextlib.suppress(BlockingIOError):
            os.read(self._native.wake_fd(), 4096)

    def _settle(self) -> None:
        woken = self._woken
        if woken is not None and not woken.done() and not woken.get_loop().is_closed():
            woken.set_result(None)

    def _forget_loop(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._native.wake_fd())
        self._loop = None

    # Places

    async def position(self, partition: tuple[str, int], *, timeout: float | None = None) -> int:
        """Return the next offset that is handed out; see ``Consumer.position``."""
        (place,) = calls.places_of((partition,))
        offset: int = await result_of(self._native.position(place, timeout))
        return offset

    # What the group keeps, and what the log has

    async def commit(
        self, offsets: Committable[Place] = None, *, timeout: float | None = None
    ) -> None:
        """Commit; see ``Consumer.commit``."""
        await result_of(self._native.commit(calls.commit_rows(offsets), timeout))

    async def committed(
        self, *partitions: tuple[str, int], timeout: float | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return what the group committed; see ``Consumer.committed``."""
        wanted = calls.places_of(partitions) or self.assignment()
        return calls.committed_of(await result_of(self._native.committed(wanted, timeout)))

    async def offsets_for_times(
        self, times: Mapping[Place, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, ListedOffset | None]:
        """Return the first record as new as each time; see ``Consumer.offsets_for_times``."""
        rows = calls.rows_of_times(times)
        return calls.found_of(times, await result_of(self._native.offsets(rows, timeout)))

    async def beginning_offsets(
        self, *partitions: tuple[str, int], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset there is, of all assigned partitions if none is given."""
        return await self._ends(partitions, calls.BEGINNING, timeout)

    async def end_offsets(
        self, *partitions: tuple[str, int], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset behind the last record, of all assigned partitions if none is given."""
        return await self._ends(partitions, calls.END, timeout)

    async def _ends(
        self, partitions: tuple[tuple[str, int], ...], end: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        wanted = calls.places_of(partitions) or self.assignment()
        rows = [(topic, partition, end) for topic, partition in wanted]
        return calls.ends_of(await result_of(self._native.offsets(rows, timeout)))

    # Its end

    async def close(self, timeout: float = 5, *, commit: bool = True) -> None:
        """Commit what was handed out, leave the group, end the thread; see ``Consumer.close``.

        A listener that takes longer than ``timeout`` is cancelled.
        """
        if self._native.closed or self._closing:
            return
        self._closing = True
        try:
            await self._seen(timeout)
            await self._announce_end(timeout)
        finally:
            try:
                await in_thread(self._native.close, timeout, not commit, is_exiting)
            finally:
                self._forget_loop()
                # A waiting task is woken now, not at the end of its wait.
                self._settle()

    def _end(self, timeout: float = 5.0) -> None:
        """Close without an event loop, for a fixture whose loop is over; listeners hear nothing."""
        self._closing = True
        self._native.close(timeout, False)

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close. After an exception what the last call handed out is not committed."""
        await self.close(commit=kind is None)

    async def _show(self, handover: Handover) -> None:
        """Let listeners see what changes hands, then let it happen.

        A task of its own does it. So a cancelled caller ends neither the last commit of lost
        partitions nor a listener that is about to seek.
        """
        self._shown = asyncio.create_task(self._shown_to_listeners(handover))
        await self._seen()

    async def _seen(self, timeout: float | None = None) -> None:
        """Wait until listeners have seen the last change of hands; after `timeout` end that."""
        shown = self._shown
        if shown is None or shown in _listening.get():
            return
        if shown.get_loop() is not asyncio.get_running_loop():
            self._shown = None
            return
        in_time = await end_of(shown, timeout)
        if self._shown is shown:
            self._shown = None
            if in_time:
                # What a listener raises is raised where the consumer is called next.
                shown.result()

    async def _shown_to_listeners(self, handover: Handover) -> None:
        if shown := asyncio.current_task():
            _listening.set((*_listening.get(), shown))
        try:
            if handover.what == "revoke":
                try:
                    await result_of(self._native.before_event())
                except KafkaliteError as error:
                    calls.warn_of_commit(error)
            await self._tell(handover.what, calls.partitions_of(handover.partitions))
        finally:
            self._native.finish_event()

    async def _announce_end(self, timeout: float) -> None:
        """Let the listener see that all is given up, for ``timeout`` seconds at most."""
        if self._listeners["revoke"] is None:
            return
        told = asyncio.create_task(self._tell("revoke", self.assignment()))
        try:
            if await end_of(told, timeout):
                told.result()
        except asyncio.CancelledError:
            told.cancel()
            raise

    async def _tell(self, what: str, partitions: list[TopicPartition]) -> None:
        listener = self._listeners[what]
        if listener is not None and (partitions or what == "assign"):
            told = listener(partitions)
            if inspect.isawaitable(told):
                await told
