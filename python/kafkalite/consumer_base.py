"""The calls of both consumers that do not wait: topics, partitions and positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from . import consumer_calls as calls
from .arguments import absent, checked_callables, checked_ms, hinted
from .errors import ForkedClientError
from .typevars import ReadKey, ReadValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Unpack

    from .config import ConfigValue, ConsumerOptions
    from .consumer_calls import TopicSelection
    from .descriptions import CommittedOffset
    from .records import TopicPartition

__all__ = ["BaseConsumer"]


class BaseConsumer(Generic[ReadKey, ReadValue]):
    """A consumer without the calls that wait; see ``Consumer``."""

    #: A listener that closes the consumer while it is closed is not told again.
    _closing = False

    def __init__(
        self,
        *topics: TopicSelection,
        group_id: str | None = None,
        config: Mapping[str, ConfigValue | None] | None = None,
        on_assign: Callable[[list[TopicPartition]], object] | None = None,
        on_revoke: Callable[[list[TopicPartition]], object] | None = None,
        on_lost: Callable[[list[TopicPartition]], object] | None = None,
        key_deserializer: Callable[[bytes], ReadKey] | None = None,
        value_deserializer: Callable[[bytes], ReadValue] | None = None,
        **cfg: Unpack[ConsumerOptions],
    ) -> None:
        """Make a consumer; nothing is sent before something is subscribed to."""
        checked_callables(
            on_assign=on_assign,
            on_revoke=on_revoke,
            on_lost=on_lost,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
        )
        # Before the configuration, which is missing where it was given in place of a topic.
        selection = calls.selection_of(topics) if topics else None
        deserializers = (key_deserializer, value_deserializer)
        self._native = calls.native_consumer(group_id, config, cfg, deserializers)
        self._listeners = {"assign": on_assign, "revoke": on_revoke, "lost": on_lost or on_revoke}
        self._native.set_listened_to(any(self._listeners.values()))
        if selection:
            self._native.subscribe(*selection)

    @property
    def closed(self) -> bool:
        """Whether the consumer was closed; one that was made before a fork is."""
        try:
            return self._native.closed
        except ForkedClientError:
            return True

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say what to do in place of what other consumers have."""
            raise absent(self, name)

    def __repr__(self) -> str:
        """Return its state; of an open one its group, its topics and how many partitions it has."""
        try:
            state = "closed" if self._native.closed else f"open{self._reading()}"
        except ForkedClientError:
            state = "of another process"
        return f"<kafkalite.{type(self).__name__} {state}>"

    def _reading(self) -> str:
        group, topics = self._native.group_id, self._native.subscription()
        text = "" if group is None else f", group {group!r}"
        if topics:
            more = f" and {len(topics) - 3} more" if len(topics) > 3 else ""
            text += f", subscribed to {', '.join(topics[:3])}{more}"
        if count := len(self._native.assignment()):
            text += f", {count} partition{'' if count == 1 else 's'} assigned"
        return text

    # What is read

    @hinted
    def subscribe(self, *topics: TopicSelection) -> None:
        """Read these topics in place of those before; the group decides which partitions.

        Args:
            topics: Names, or one pattern; one by one or as a list.

        Raises:
            InvalidArgumentError: Neither names nor one pattern, or a pattern that is none.
            IllegalStateError: Partitions were assigned by hand.
        """
        self._native.subscribe(*calls.selection_of(topics))

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read exactly these partitions, without the group's help.

        Args:
            partitions: Topic and number of each. They begin at the group's committed offset, if
                there is a group that has one, else where ``auto_offset_reset`` says. With
                automatic commits the consumer commits, in the background, what was handed out of
                the partitions that this call takes away.

        Raises:
            IllegalStateError: Topics are subscribed to.
            InvalidArgumentError: What is no list of pairs of a topic and a number from 0.
        """
        self._native.assign(calls.pairs_of(partitions))

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are read now, sorted."""
        return calls.partitions_of(self._native.assignment())

    def subscription(self) -> list[str]:
        """Return the topics that are subscribed to by name, sorted."""
        return self._native.subscription()

    # Places

    def seek(self, partition: tuple[str, int], offset: int | CommittedOffset) -> None:
        """Go to an offset; the next record of the partition is the first one from there on.

        Raises:
            IllegalStateError: The partition is not assigned.
            InvalidArgumentError: The offset is negative.
        """
        (place,) = calls.places_of((partition,))
        self._native.seek(place, *calls.place_of(offset))

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Go to the first offset there is, of all assigned partitions if none is given."""
        self._native.seek_to(calls.places_of(partitions) or self.assignment(), calls.BEGINNING)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Go behind the last record, of all assigned partitions if none is given."""
        self._native.seek_to(calls.places_of(partitions) or self.assignment(), calls.END)

    def seek_to_time(self, timestamp_ms: int, *partitions: tuple[str, int]) -> None:
        """Go to the first record that is as new as ``timestamp_ms``, or else behind the last."""
        time = max(checked_ms("timestamp_ms", timestamp_ms), 0)
        self._native.seek_to(calls.places_of(partitions) or self.assignment(), time)

    def lag(self, *partitions: tuple[str, int]) -> dict[TopicPartition, int | None]:
        """Return how many records are behind the position, of all partitions if none is given.

        What the last fetch told counts: nothing is asked. ``None`` before the first.
        """
        wanted = calls.partitions_of(calls.places_of(partitions)) or self.assignment()
        return {partition: self._native.lag(partition) for partition in wanted}

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Hold back partitions, all assigned ones if none is given, until ``resume``.

        Raises:
            IllegalStateError: A partition is not assigned.
        """
        self._native.set_paused(calls.places_of(partitions) or self.assignment(), True)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Go on with partitions, all assigned ones if none is given."""
        self._native.set_paused(calls.places_of(partitions) or self.assignment(), False)

    def paused(self) -> list[TopicPartition]:
        """Return the partitions that are paused, sorted."""
        return calls.partitions_of(self._native.paused())
