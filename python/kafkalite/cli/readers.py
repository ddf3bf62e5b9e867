"""How ``kafkalite consume`` reads: alone or as a member of a group, and where it stops."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import click

from ..errors import InvalidArgumentError
from .answers import say
from .connecting import partitions_of
from .places import PlaceValue
from .topics import expand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..consumer import Consumer
    from ..records import Record as AnyRecord
    from .connecting import Cluster

    Record = AnyRecord[bytes, bytes]

#: Records taken at once, and how long to wait for the first of them.
_MOST_RECORDS = 1_000
_WAIT_S = 0.5

#: How long metadata may take that has the partitions of the topics, and between two looks.
_ASSIGNED_S = 10.0
_LOOK_S = 0.005

_LATEST = PlaceValue(word="latest")


class Ends(Protocol):
    """Where the reading stops."""

    def before(self, records: list[Record]) -> list[Record]:
        """Return those of the records that count."""

    def are_reached(self, consumer: Consumer, *, idle: bool) -> bool:
        """Tell whether nothing is left to read; ``idle`` says that no record came."""


@dataclass
class FixedEnds:
    """The ends of the partitions that a consumer without a group reads, exclusive."""

    #: By topic and partition; a partition that is read up to its end is taken out.
    left: dict[tuple[str, int], int]

    def before(self, records: list[Record]) -> list[Record]:
        """Return the records before the ends."""
        return [record for record in records if self._counts(record)]

    def _counts(self, record: Record) -> bool:
        place = (record.topic, record.partition)
        end = self.left.get(place)
        if end is not None and record.offset + 1 >= end:
            del self.left[place]
        return end is not None and record.offset < end

    def are_reached(self, consumer: Consumer, *, idle: bool) -> bool:
        """Tell whether every partition is read up to its end."""
        if idle:
            # The last records before an end may be gone: compacted away, or of a transaction.
            passed = [place for place, end in self.left.items() if consumer.position(place) >= end]
            for place in passed:
                del self.left[place]
        return not self.left


@dataclass
class GroupEnds:
    """The ends of all partitions that a group reads. A member stops at the ends of its own.

    A record behind an end is still printed, because the consumer returned it and commits it.
    """

    ends: dict[tuple[str, int], int]
    #: Whether the group has dealt out its partitions; this member may have got none. While the
    #: group rebalances a member has none either, and is not at its end for that.
    joined: bool = False

    def note_assignment(self, partitions: object) -> None:
        """Note that the group has dealt out its partitions."""
        self.joined = True

    def note_revocation(self, partitions: object) -> None:
        """Note that the group rebalances."""
        self.joined = False

    def before(self, records: list[Record]) -> list[Record]:
        """Return all of them."""
        return records

    def are_reached(self, consumer: Consumer, *, idle: bool) -> bool:
        """Tell whether this member's partitions are read up to their ends."""
        return self.joined and all(
            consumer.position(place) >= self.ends.get((place.topic, place.partition), 0)
            for place in consumer.assignment()
        )


@dataclass(frozen=True)
class Limits:
    """When to stop."""

    #: After this many records.
    count: int | None
    #: After this many seconds without one.
    idle_s: float | None


def member(
    cluster: Cluster, words: tuple[str, ...], group: str, *, from_beginning: bool, to_end: bool
) -> tuple[Consumer, Ends | None]:
    """Make a member of a group.

    Args:
        cluster: Where the topics are.
        words: Topics, or one pattern.
        group: Its id.
        from_beginning: Where the group begins that has committed nothing.
        to_end: Whether it stops where the partitions end now.
    """
    from ..consumer import Consumer

    topics = [topic for topic, partition in partitions_of(words) if partition is None]
    if len(topics) != len(words):
        raise click.UsageError("a group deals partitions out itself: give topics alone")
    ends = None
    if to_end:
        with cluster.admin(beside=True) as admin:
            places = expand(admin, words, cluster, patterns=True)
            ends = GroupEnds(_LATEST.resolve(admin, places, cluster))
    reset = "earliest" if from_beginning else "latest"
    consumer = Consumer(
        *topics,
        group_id=group,
        config=cluster.keys(auto_offset_reset=reset),
        on_assign=None if ends is None else ends.note_assignment,
        on_revoke=None if ends is None else ends.note_revocation,
    )
    return consumer, ends


def alone(
    cluster: Cluster, words: tuple[str, ...], offset: PlaceValue | None, *, to_end: bool
) -> tuple[Consumer, Ends | None]:
    """Make a consumer without a group, at its place; ``to_end`` as for ``member``.

    Partitions and topics that come later are read from their beginning, unless it reads up to
    ends, or single partitions are named.
    """
    from ..consumer import Consumer

    with cluster.admin(beside=True) as admin:
        places = expand(admin, words, cluster, patterns=True)
        offsets = (offset or _LATEST).resolve(admin, places, cluster)
        ends = _LATEST.resolve(admin, places, cluster)
    # A log may lose its first records before they are read: what is left is read. A topic that is
    # deleted is not made again by its reader.
    keys = cluster.keys(
        enable_auto_commit="false", auto_offset_reset="earliest", allow_auto_create_topics="false"
    )
    consumer = Consumer(config=keys)
    if to_end or any(number is not None for _, number in partitions_of(words)):
        consumer.assign(places)
    else:
        _follow(consumer, words, places)
    for place, at in offsets.items():
        consumer.seek(place, min(at, ends[place]))
    if not to_end:
        return consumer, None
    # What has no record before its end is read already.
    return consumer, FixedEnds({at: end for at, end in ends.items() if offsets[at] < end})


def _follow(consumer: Consumer, words: tuple[str, ...], places: list[tuple[str, int]]) -> None:
    """Subscribe to topics, and return when the partitions that there are now are assigned."""
    try:
        consumer.subscribe(*_selection(words))
    except InvalidArgumentError as error:
        # The words were good for Python, which knows more of regular expressions.
        say(f"topics that come later are not read: {error}")
        consumer.subscribe(*{topic for topic, _ in places})
    deadline = time.monotonic() + _ASSIGNED_S
    wanted = set(places)
    while not wanted <= {(place.topic, place.partition) for place in consumer.assignment()}:
        if time.monotonic() > deadline:
            # The broker that the consumer asked lags behind: at least what there is is read.
            consumer.unsubscribe()
            consumer.assign(places)
            return
        time.sleep(_LOOK_S)


def _selection(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return names, or one pattern for all words: a subscription takes no more."""
    if not any(word.startswith("^") for word in words):
        return words
    parts = (word if word.startswith("^") else re.escape(word) for word in words)
    return (f"^(?:{'|'.join(f'(?:{part})' for part in parts)})",)


def read(consumer: Consumer, ends: Ends | None, limits: Limits) -> Iterator[list[Record]]:
    """Yield records as they come, until a limit or the ends are reached."""
    left, idle = limits.count, True
    quiet_since = time.monotonic()
    while left != 0 and not (ends is not None and ends.are_reached(consumer, idle=idle)):
        most = _MOST_RECORDS if left is None else min(left, _MOST_RECORDS)
        records = consumer.consume(most, timeout=_WAIT_S)
        if ends is not None:
            records = ends.before(records)
        idle = not records
        if records:
            quiet_since = time.monotonic()
            left = None if left is None else left - len(records)
            yield records
        elif limits.idle_s is not None and time.monotonic() - quiet_since >= limits.idle_s:
            return
