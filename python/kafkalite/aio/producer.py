"""The producer for asyncio: one ``await`` means delivered."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from typing import TYPE_CHECKING, Any, Generic, Self

from .. import _native
from ..arguments import absent, checked_callables, refuse_positional
from ..config import merged, warn
from ..errors import IllegalStateError
from ..producer import EXIT_TIMEOUT_S, lost_at_close
from ..typevars import SentKey, SentValue
from .waiting import end_at_exit, in_thread, on_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Never, Unpack

    from .._native import DeliveredRange, RecordMetadata
    from ..config import ConfigValue, ProducerOptions
    from ..records import ArrowArray, ArrowStream, Data, Headers

    ArrowData = ArrowArray | ArrowStream

__all__ = ["AsyncProducer"]


class _Line:
    """The calls that wait to add records to one topic, in the order in which they were made."""

    def __init__(self) -> None:
        """Make an empty line."""
        # Held by the first in line; it lets the others in one after the other.
        self.lock = asyncio.Lock()
        self.count = 0


class _Place:
    """A place in the line of one topic, from its entering until it is left."""

    def __init__(self, lines: dict[str, _Line], topic: str, turn: _native.Turn | None) -> None:
        """Make a place; ``turn`` says for how long it may be waited for, unless it is unlimited."""
        self._lines = lines
        self._topic = topic
        self._turn = turn
        self._loop = asyncio.get_running_loop()
        self._adding: Future[_native.BatchDelivery] | None = None

    async def __aenter__(self) -> Self:
        """Wait behind the calls that came before.

        Raises:
            RequestTimedOut: They took longer than ``max_block_ms``.
        """
        self._line = self._lines.setdefault(self._topic, _Line())
        self._line.count += 1
        turn = self._turn
        try:
            async with asyncio.timeout(None if turn is None else turn.seconds):
                await self._line.lock.acquire()
        except BaseException as error:
            self._leave()
            if turn is not None and isinstance(error, TimeoutError):
                raise turn.error() from None
            raise
        return self

    async def add(self, call: Callable[[], _native.BatchDelivery]) -> _native.BatchDelivery:
        """Return ``call()`` from a thread: it may wait for room, and the loop goes on meanwhile."""
        self._adding = on_thread(call)
        return await asyncio.wrap_future(self._adding)

    async def __aexit__(self, *_: object) -> None:
        """Let the next one in: when all is added, also if the call was cancelled."""
        if self._adding is None or self._adding.done():
            self._let_next_in()
        else:
            self._adding.add_done_callback(self._added)

    def _added(self, _: object) -> None:
        # A closed loop has no waiting tasks.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._let_next_in)

    def _let_next_in(self) -> None:
        self._line.lock.release()
        self._leave()

    def _leave(self) -> None:
        self._line.count -= 1
        if self._line.count == 0:
            del self._lines[self._topic]


def _deliver(producer: _native.Producer[Any, Any]) -> None:
    """Close a producer as at the end of the interpreter."""
    lost = producer._close(EXIT_TIMEOUT_S)
    # Where a call of `close` is under way, it waits no longer.
    producer._hurry()
    if lost:
        warnings.warn(lost_at_close(lost), RuntimeWarning, stacklevel=2)


class AsyncProducer(Generic[SentKey, SentValue]):
    """Sends records to topics, from one event loop.

    What may wait is awaited, and the loop goes on meanwhile: a topic's metadata, room in the
    buffer, the delivery. To have many records on their way, await many sends together, or use
    :meth:`send_batch`. Records of one topic are added in the order of the calls. The loop is woken
    once for all records that a broker acknowledged together.

    One that is left open is closed at the end of the interpreter. One that is forgotten while it
    is open delivers what was added, on a thread, and a ``ResourceWarning`` tells.

    Examples:
        >>> async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
        ...     await producer.send("orders", b"hello", key=b"k1")
    """

    def __init__(
        self,
        *_positional: Never,
        config: Mapping[str, ConfigValue | None] | None = None,
        key_serializer: Callable[[SentKey], bytes] | None = None,
        value_serializer: Callable[[SentValue], bytes] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """Make a producer; nothing is connected before the first record.

        Args:
            config: Keys as Kafka spells them, ``{"linger.ms": 5}``.
            key_serializer: Makes keys into bytes; ``None`` stays ``None``.
            value_serializer: Makes values into bytes; ``None`` stays ``None``.
            **options: Keys as keywords, ``linger_ms=5``; they win over ``config``.

        Raises:
            ConfigError: A key that no producer has, or a value that it cannot have.
        """
        refuse_positional("AsyncProducer", _positional)
        checked_callables(key_serializer=key_serializer, value_serializer=value_serializer)
        pairs = merged(config, options)
        self._native = _native.Producer(pairs, key_serializer, value_serializer)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event_loop: _native.EventLoop | None = None
        # Topics with waiting calls. The next call waits behind them.
        self._lines: dict[str, _Line] = {}
        warn(self._native._warnings)
        end_at_exit(self)

    def _bind(self) -> tuple[asyncio.AbstractEventLoop, _native.EventLoop]:
        """Return the running loop, which must be that of the first call."""
        loop = asyncio.get_running_loop()
        if self._event_loop is None or self._loop is None:
            self._loop = loop
            self._event_loop = _native.EventLoop(loop)
        elif self._loop is not loop:
            text = "ILLEGAL_STATE: this producer belongs to another event loop"
            raise IllegalStateError(text, hint="make one for each asyncio.run().")
        return loop, self._event_loop

    async def send(
        self,
        topic: str,
        value: SentValue | None = None,
        *,
        key: SentKey | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send one record, and return where it was written.

        Cancelling the wait does not take back a record that is on its way.

        Args:
            topic: Name of the topic, 1 to 249 characters.
            value: The record's value; ``None`` is a tombstone. A text is written as UTF-8.
            key: The record's key; decides about the partition.
            partition: The partition, from 0; wins over the key.
            headers: A mapping, or pairs of a name and bytes, text or ``None``.
            timestamp_ms: In ms since 1970 (UTC); now, if not given.

        Raises:
            BufferFullError: ``buffer_memory`` stayed full for ``max_block_ms``.
            MessageTooLarge: The record alone exceeds ``max_request_size`` bytes.
            UnknownTopicError: There is no such topic after ``max_block_ms``, or no such partition.
            InvalidArgumentError: A partition or a time below 0.
            DeliveryTimeout: No broker acknowledged it within ``delivery_timeout_ms``.
            KafkaliteError: As the broker refused it.

        Source:
            Kafka protocol, Produce (key 0); KIP-794 for the sticky partitioner.
        """
        loop, event_loop = self._bind()
        delivered: asyncio.Future[RecordMetadata] = loop.create_future()
        record = (event_loop, delivered, topic, value, key, partition, headers, timestamp_ms)
        must_wait = topic not in self._lines
        if must_wait:
            turn = self._native._try_send(*record, None)
            if turn is None:
                return await delivered
        else:
            turn = self._native._queue_up(topic)
        try:
            async with _Place(self._lines, topic, turn):
                while must_wait or self._native._try_send(*record, turn) is not None:
                    must_wait = False
                    await _wait_for(turn, loop)
        finally:
            # An exception's traceback, or a task that was cancelled, may keep the turn alive.
            turn.leave()
        return await delivered

    async def send_batch(
        self,
        topic: str,
        values: Sequence[SentValue | None] | ArrowData,
        *,
        keys: Sequence[SentKey | None] | ArrowData | None = None,
        headers: Mapping[str, Data] | Sequence[Headers | None] | None = None,
        timestamps: int | Sequence[int | None] | ArrowData | None = None,
        partitions: int | Sequence[int | None] | ArrowData | None = None,
    ) -> list[DeliveredRange]:
        """Send many records at once, and return where they were written.

        Args:
            topic: Name of the topic.
            values: A list of bytes, texts or ``None``, or Arrow data; as of
                :meth:`kafkalite.Producer.send_batch`.
            keys: A list or an Arrow array, as long as ``values``.
            headers: A mapping for all records, or a list with one for each.
            timestamps: In ms since 1970 (UTC): one for all, a list or an Arrow array.
            partitions: One for all, a list or an Arrow array.

        Raises:
            PartialError: Some records failed: ``errors`` has their exceptions by index.
            KafkaliteError: All of them failed with this.
        """
        loop, _ = self._bind()
        finished: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not finished.done():
                finished.set_result(None)

        def tell(_: object) -> None:
            # A closed loop has no waiting tasks.
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle)

        # A batch may be larger than the buffer: a thread waits for room, not the loop.
        async with _Place(self._lines, topic, None) as place:
            delivery = await place.add(
                lambda: self._native.send_batch(
                    topic,
                    values,
                    keys=keys,
                    headers=headers,
                    timestamps=timestamps,
                    partitions=partitions,
                )
            )
        delivery.add_done_callback(tell)
        await finished
        return delivery.result(0)

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything that was added so far at once, and wait until the fate of all is known.

        Args:
            timeout: Seconds to wait; ``None`` is as long as it takes.

        Raises:
            RequestTimedOut: It took longer; what is on its way may yet be delivered.
        """
        self._bind()
        await in_thread(self._native.flush, timeout)

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the topic's partitions, in order; asks the cluster if they are not known.

        Raises:
            UnknownTopicError: There is no such topic after ``max_block_ms``.
        """
        self._bind()
        return await in_thread(self._native.partitions_for, topic)

    def metrics(self) -> dict[str, float]:
        """Return what the producer counts, by the names of Kafka's metrics.

        Times are in ms, sizes in bytes.
        """
        return self._native.metrics()

    @property
    def closed(self) -> bool:
        """Whether the producer was closed."""
        return self._native.closed

    async def close(self, timeout: float = 5.0) -> None:
        """Deliver what was added so far, and end. Closing again does nothing.

        What is not delivered in time fails with ``ClosedError``, and a warning tells how many
        records that are.

        Args:
            timeout: Seconds to deliver; what is left then takes a second at most.
        """
        # At once: calls that wait for room end now.
        self._native._begin_close()
        lost = await in_thread(self._native._close, timeout)
        if lost:
            warnings.warn(lost_at_close(lost), RuntimeWarning, stacklevel=2)

    def _end(self, timeout: float = 5.0) -> None:
        """Close without an event loop, for a fixture whose loop is over; listeners hear nothing."""
        self._native._begin_close()
        self._native._close(timeout)

    def _end_at_exit(self) -> None:
        """Close as :class:`kafkalite.Producer` does at the end of the interpreter."""
        _deliver(self._native)

    async def __aenter__(self) -> Self:
        """Return the producer."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the producer."""
        await self.close()

    def __del__(self) -> None:
        """Have a producer that was left open deliver."""
        # An object whose making failed has nothing to close.
        with contextlib.suppress(AttributeError, RuntimeError):
            if not self.closed:
                # On a thread, because this may run in the middle of anything, on the loop too.
                # First, because a warning may be an error here.
                on_thread(_deliver, self._native)
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say what to do in place of what other producers have."""
            raise absent(self, name)

    def __repr__(self) -> str:
        """Return what it is, and whether it is open."""
        return f"<kafkalite.AsyncProducer {'closed' if self.closed else 'open'}>"


async def _wait_for(turn: _native.Turn, loop: asyncio.AbstractEventLoop) -> None:
    """Wait until it is time to try again.

    Raises:
        KafkaliteError: There will be no such time, or it did not come soon enough.
    """
    room: asyncio.Future[None] = loop.create_future()

    def settle(error: Exception | None) -> None:
        if room.done():
            return
        if error is None:
            room.set_result(None)
        else:
            room.set_exception(error)

    def tell(error: Exception | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, error)

    late = loop.call_later(turn.seconds, lambda: settle(turn.error()))
    try:
        turn.subscribe(tell)
        await room
    finally:
        late.cancel()
