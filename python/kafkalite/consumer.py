"""Reading records, one by one or many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import consumer_calls as calls
from ._native import Handover
from .arguments import checked_callables, hinted
from .consumer_base import BaseConsumer
from .errors import KafkaliteError
from .typevars import ReadKey, ReadValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Self

    from .consumer_calls import Committable
    from .descriptions import CommittedOffset, ListedOffset
    from .records import Place, Record, RecordBatch, TopicPartition

__all__ = ["Consumer"]


class Consumer(BaseConsumer[ReadKey, ReadValue]):
    """Reads records of topics, alone or as a member of a group; a context manager.

    ``Consumer[K, V]`` hands out keys and values of these types; without deserializers bytes.

    The client's own thread fetches ahead and keeps the membership, whatever the program does.
    What is handed out stays this consumer's until it comes back: a rebalance waits for the next
    call, ``max_poll_interval_ms`` at most. Not meant for several threads at once; ``close``,
    ``pause`` and the like may be called from any.

    Args:
        topics: Names, one by one or as a list, or one pattern (compiled, or a text that begins
            with ``^``) that whole names match. None: see ``subscribe`` and ``assign``. Without a
            group all partitions are read.
        group_id: The group that shares the partitions and keeps what was committed.
        config: Keys of Kafka with dots.
        on_assign: Called with the partitions that were assigned; it may seek in them.
        on_revoke: Called with those that are given up, which may still be committed.
        on_lost: Called with partitions that another member may have already. Default:
            ``on_revoke``.
        key_deserializer: Makes keys out of bytes; null stays ``None``.
        value_deserializer: The same for values.
        cfg: Keys of Kafka as keywords, such as ``auto_offset_reset="earliest"``.

    Raises:
        ConfigError: A key or a value that cannot be.

    Source:
        Kafka's ``KafkaConsumer``; keys of ``ConsumerConfig``.
    """

    # What is read

    def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group; what is done is committed first.

        Raises:
            BrokerError: The last commit was refused; the consumer is unsubscribed anyway.
        """
        try:
            self._give_up()
        finally:
            self._native.unsubscribe()

    def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[int]:
        """Return the numbers of a topic's partitions, sorted.

        Raises:
            UnknownTopicError: There is no such topic.
        """
        found: list[int] = self._native.partitions(topic, timeout).result()
        return found

    # Reading

    def poll(self, timeout: float | None = None) -> Record[ReadKey, ReadValue] | None:
        """Return the next record.

        Args:
            timeout: How long to wait, in seconds; ``None`` waits without limit.

        Returns:
            The record, or ``None`` when none came in time.

        Raises:
            SerializationError: A deserializer failed; the record stays the next one.
            OffsetOutOfRangeError: The position is not in the log, and no policy says where to go.
            NoOffsetError: There is no position, and no policy.
            UnknownTopicError: A partition that was assigned by hand is not there. The error is
                raised once; the partition is read if it comes.
            InvalidRecordError: A batch that cannot be read; it stays the next one.
            NoBrokerReachable: No broker has ever answered.
            FencedInstanceError: Another member has this ``group_instance_id``.
        """
        record = self._native.poll(timeout)
        if not isinstance(record, Handover):
            return record
        deadline = calls.deadline_after(timeout)
        while isinstance(record, Handover):
            self._show(record)
            record = self._native.poll(calls.seconds_left(deadline))
        return record

    @hinted
    def consume(
        self, max_records: int | None = None, timeout: float | None = None
    ) -> list[Record[ReadKey, ReadValue]]:
        """Return records as soon as there are any.

        Args:
            max_records: How many at most; ``max_poll_records`` if it is not given.
            timeout: How long to wait for the first, in seconds; ``None`` waits without limit.

        Returns:
            At least one record, or an empty list when none came in time.

        Raises:
            KafkaliteError: As ``poll``.
        """
        limit = self._native.max_poll_records if max_records is None else max_records
        calls.checked_limits(limit, 1)
        deadline = calls.deadline_after(timeout)
        records = self._native.consume(limit, timeout)
        while isinstance(records, Handover):
            self._show(records)
            records = self._native.consume(limit, calls.seconds_left(deadline))
        return records

    @hinted
    def next_batch(
        self,
        max_records: int = calls.BATCH_RECORDS,
        max_bytes: int = calls.BATCH_BYTES,
        timeout: float | None = None,
    ) -> RecordBatch | None:
        """Return records without an object for each, as soon as there are any.

        Args:
            max_records: How many at most.
            max_bytes: Bytes of their keys, values and headers at most; one record is returned
                however large it is.
            timeout: How long to wait for the first, in seconds; ``None`` waits without limit.

        Returns:
            A batch, or ``None`` when nothing came in time.

        Raises:
            KafkaliteError: As ``poll``; a deserializer is called by the batch's own methods.
        """
        calls.checked_limits(max_records, max_bytes)
        deadline = calls.deadline_after(timeout)
        batch = self._native.next_batch(max_records, max_bytes, timeout)
        while isinstance(batch, Handover):
            self._show(batch)
            left = calls.seconds_left(deadline)
            batch = self._native.next_batch(max_records, max_bytes, left)
        return batch

    @hinted
    def batches(
        self,
        max_records: int = calls.BATCH_RECORDS,
        max_bytes: int = calls.BATCH_BYTES,
        timeout: float | None = None,
    ) -> Iterator[RecordBatch]:
        """Iterate over batches, each as soon as there is anything.

        Args:
            max_records: Records of one batch at most.
            max_bytes: Bytes of keys, values and headers of one batch at most.
            timeout: The iteration ends when nothing comes for so many seconds; ``None`` is never.

        Raises:
            KafkaliteError: As ``poll``.
        """
        while (batch := self.next_batch(max_records, max_bytes, timeout)) is not None:
            yield batch

    def __iter__(self) -> Iterator[Record[ReadKey, ReadValue]]:
        """Iterate over records without end."""
        native_poll = self._native.poll
        while True:
            record = native_poll(None)
            if isinstance(record, Handover):
                self._show(record)
            elif record is not None:
                yield record

    # Places

    def position(self, partition: tuple[str, int], *, timeout: float | None = None) -> int:
        """Return the next offset that is handed out: behind what calls have returned.

        Raises:
            IllegalStateError: The partition is not assigned.
            UnknownTopicError: There is no such partition.
            RequestTimedOut: It was not found out in time.
        """
        (place,) = calls.places_of((partition,))
        offset: int = self._native.position(place, timeout).result()
        return offset

    # What the group keeps

    @hinted
    def commit(self, offsets: Committable[Place] = None, *, timeout: float | None = None) -> None:
        """Commit, and wait for it.

        Args:
            offsets: A record or a batch, which are done; or the next offset by partition. All
                that calls returned until now, if it is not given.
            timeout: In seconds; ``default_api_timeout_ms`` if it is not given.

        Raises:
            RebalanceError: The group went on without this member since the last call that reads,
                or rebalances. Or the member does not hold a partition any more. Or it lost the
                partition after it had read the record or batch, and got the partition back.
            UnknownTopicError: A partition is gone; all others are committed.
            IllegalStateError: There is no group.
        """
        self._native.commit(calls.commit_rows(offsets), timeout).result()

    def commit_async(
        self,
        offsets: Committable[Place] = None,
        callback: Callable[[KafkaliteError | None], object] | None = None,
    ) -> None:
        """Commit, and go on. Commits go out in the order of their calls.

        Args:
            offsets: As for ``commit``.
            callback: Called with the error, or ``None``, on a thread for that: it may take its
                time. ``close`` waits for it.
        """
        checked_callables(callback=callback)
        operation = self._native.commit(calls.commit_rows(offsets), None)

        def tell() -> None:
            error: KafkaliteError | None = None
            try:
                operation.result(0)
            except KafkaliteError as failure:
                error = failure
            if callback is not None:
                callback(error)

        operation.add_done_callback(tell)

    def committed(
        self, *partitions: tuple[str, int], timeout: float | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return what the group committed, of all assigned partitions if none is given.

        Partitions without a committed offset are left out.

        Raises:
            IllegalStateError: There is no group.
        """
        wanted = calls.places_of(partitions) or self.assignment()
        return calls.committed_of(self._native.committed(wanted, timeout).result())

    # What the log has

    def offsets_for_times(
        self, times: Mapping[Place, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, ListedOffset | None]:
        """Return the first record of each partition that is as new as its time.

        Args:
            times: Milliseconds since 1970, UTC, by partition.
            timeout: In seconds; ``default_api_timeout_ms`` if it is not given.

        Raises:
            UnknownTopicError: There is no such topic or partition.
        """
        rows = calls.rows_of_times(times)
        return calls.found_of(times, self._native.offsets(rows, timeout).result())

    def beginning_offsets(
        self, *partitions: tuple[str, int], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset there is, of all assigned partitions if none is given."""
        return self._ends(partitions, calls.BEGINNING, timeout)

    def end_offsets(
        self, *partitions: tuple[str, int], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset behind the last record, of all assigned partitions if none is given."""
        return self._ends(partitions, calls.END, timeout)

    def _ends(
        self, partitions: tuple[tuple[str, int], ...], end: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        wanted = calls.places_of(partitions) or self.assignment()
        rows = [(topic, partition, end) for topic, partition in wanted]
        return calls.ends_of(self._native.offsets(rows, timeout).result())

    # Its end

    def close(self, timeout: float = 5, *, commit: bool = True) -> None:
        """Commit what was handed out, leave the group, end the thread. Closing twice does nothing.

        Records of a call that is not over yet are not committed.

        Args:
            timeout: Time limit in seconds. Half of it is for a rebalance in progress, so that
                the last commit is not refused.
            commit: Whether the records of the last call count as done; those of earlier calls do.
                Only with ``enable_auto_commit``.

        Raises:
            BrokerError: The last commit was refused; the consumer is closed anyway.
        """
        if self._native.closed or self._closing:
            return
        self._closing = True
        try:
            self._tell("revoke", self.assignment())
        finally:
            self._native.close(timeout, not commit)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close. After an exception what the last call handed out is not committed."""
        self.close(commit=kind is None)

    def _show(self, handover: Handover) -> None:
        """Call the listeners of a rebalance, then let it happen."""
        try:
            if handover.what == "revoke":
                try:
                    self._native.before_event().result()
                except KafkaliteError as error:
                    calls.warn_of_commit(error)
            self._tell(handover.what, calls.partitions_of(handover.partitions))
        finally:
            self._native.finish_event()

    def _tell(self, what: str, partitions: list[TopicPartition]) -> None:
        listener = self._listeners[what]
        if listener is not None and (partitions or what == "assign"):
            listener(partitions)

    def _give_up(self) -> None:
        """Commit what is done and call the listeners, because all partitions are given up."""
        partitions = self.assignment()
        if partitions:
            self._native.before_unsubscribe().result()
            self._tell("revoke", partitions)
