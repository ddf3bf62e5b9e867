"""From offsets and limits to the ranges that tasks read. Pure: no clock, no broker.

- ``limited``: how far a micro-batch goes, so that no partition starves
- ``tasks``: large ranges are split, small ones share a task where there are more than run at once

Spark plans a batch again when it replays it, so equal arguments give equal answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from .offsets import Offsets, Partition

__all__ = ["Range", "limited", "ranges_between", "size_of", "tasks"]

#: Tasks that a small range may still join: with all of them 10,000 partitions took 20 s to pack.
OPEN = 64
#: Estimated bytes of a record of a partition whose size is unknown.
RECORD_BYTES = 1_024


@dataclass(frozen=True, order=True)
class Range:
    """Offsets ``[start, end)`` of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets; there may be fewer records."""
        return max(0, self.end - self.start)


def ranges_between(start: Mapping[Partition, int], end: Mapping[Partition, int]) -> list[Range]:
    """Return what lies between, partition by partition in order; nothing that is empty."""
    ranges = [
        Range(topic, partition, start[topic, partition], until)
        for (topic, partition), until in sorted(end.items())
        if (topic, partition) in start
    ]
    return [one for one in ranges if one.size > 0]


def size_of(start: Mapping[Partition, int], end: Mapping[Partition, int]) -> int:
    """Return how many offsets lie between."""
    return sum(one.size for one in ranges_between(start, end))


def limited(start: Mapping[Partition, int], end: Mapping[Partition, int], most: int) -> Offsets:
    """Return the end of a micro-batch of ``most`` offsets, shared in proportion to what waits.

    Args:
        start: Where the micro-batch begins.
        end: What there is.
        most: Offsets at most. If there are more partitions than that, one offset of each is read,
            as in Spark's own source, so that none starves.
    """
    waiting = {(one.topic, one.partition): one.size for one in ranges_between(start, end)}
    total = sum(waiting.values())
    until = dict(end)
    if total <= most:
        return until
    given = 0
    shares: list[tuple[float, Partition]] = []
    for partition, size in waiting.items():
        share = size * most / total
        # A partition with little gets a whole offset before others get their fractions.
        whole = min(size, max(1, int(share)))
        until[partition] = start[partition] + whole
        given += whole
        shares.append((share - int(share), partition))
    # What rounding left over goes to those who lost most by it.
    for _, partition in sorted(shares, key=lambda one: (-one[0], one[1])):
        if given >= most:
            break
        if until[partition] < end[partition]:
            until[partition] += 1
            given += 1
    return until


def tasks(
    ranges: list[Range],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
    rows_per_task: int = 250_000,
    bytes_per_task: int = 16 << 20,
    record_bytes: Mapping[Partition, float] | None = None,
    parallelism: int = 1,
) -> list[list[Range]]:
    """Return the ranges of each task, no partition twice in one.

    Large ranges are split in proportion when fewer than ``min_partitions`` would come of it, and
    wherever they pass ``max_records``. Small ones are packed, first fit, up to ``rows_per_task``
    (and ``max_records``) and ``bytes_per_task``. At least ``min_partitions`` tasks are left, and at
    least as many as run at once.

    Args:
        ranges: What is read.
        min_partitions: Tasks wanted at least.
        max_records: Offsets that a task reads at most.
        rows_per_task: Offsets up to which ranges share a task.
        bytes_per_task: Bytes up to which ranges share a task, as far as can be estimated.
        record_bytes: Estimated bytes of a record, by partition; ``RECORD_BYTES`` for others.
        parallelism: Tasks that run at once: fewer are never made for the sake of packing.
    """
    pieces = [piece for one in ranges for piece in _at_most(one, max_records)]
    if min_partitions is not None and len(pieces) < min_partitions:
        return [[piece] for piece in _split(pieces, min_partitions)]
    room = rows_per_task if max_records is None else min(rows_per_task, max_records)
    weights = _Weights(record_bytes or {})
    packed = _packed(pieces, room, bytes_per_task, weights)
    wanted = min(max(min_partitions or 1, parallelism), len(pieces))
    if len(packed) >= wanted:
        return packed
    for hands in range(wanted, len(pieces)):
        dealt = _dealt(pieces, hands, weights)
        if max_records is None or all(sum(r.size for r in one) <= max_records for one in dealt):
            return dealt
    return sorted([piece] for piece in pieces)


class _Weights:
    """Estimated bytes of ranges."""

    def __init__(self, record_bytes: Mapping[Partition, float]) -> None:
        self._record_bytes = record_bytes

    def __call__(self, one: Range) -> int:
        known = self._record_bytes.get((one.topic, one.partition), RECORD_BYTES)
        return max(1, int(one.size * known))


def _at_most(one: Range, most: int | None) -> list[Range]:
    if most is None or one.size <= most:
        return [one]
    return _cut(one, -(-one.size // most))


def _cut(one: Range, pieces: int) -> list[Range]:
    """Cut into so many pieces whose sizes differ by one at most."""
    pieces = max(1, min(pieces, one.size))
    edges = [one.start + one.size * index // pieces for index in range(pieces + 1)]
    return [replace(one, start=edges[i], end=edges[i + 1]) for i in range(pieces)]


def _split(ranges: list[Range], wanted: int) -> list[Range]:
    """Split in proportion to size, into ``wanted`` pieces or a few more."""
    total = sum(one.size for one in ranges)
    pieces = []
    for one in ranges:
        pieces += _cut(one, max(1, round(one.size * wanted / total)))
    return pieces


def _packed(ranges: list[Range], room: int, most: int, weigh: _Weights) -> list[list[Range]]:
    packs: list[_Pack] = []
    for one in sorted(ranges, key=lambda one: (-weigh(one), one)):
        # Pieces of one partition are more than half of what a task may read: they never meet.
        weight = weigh(one)
        fitting = (
            pack
            for pack in packs[-OPEN:]
            if pack.size + one.size <= room and pack.weight + weight <= most
        )
        pack = next(fitting, None)
        if pack is None:
            packs.append(pack := _Pack())
        pack.add(one, weight)
    return sorted(sorted(pack.ranges) for pack in packs)


def _dealt(ranges: list[Range], hands: int, weigh: _Weights) -> list[list[Range]]:
    """Deal ranges to ``hands`` tasks, the largest first to who has least."""
    dealt = [(0, hand, _Pack()) for hand in range(hands)]
    for one in sorted(ranges, key=lambda one: (-weigh(one), one)):
        # A reader reads a partition once at a time.
        passed = []
        while dealt and dealt[0][2].has(one):
            passed.append(heappop(dealt))
        _, hand, pack = heappop(dealt) if dealt else (0, len(passed), _Pack())
        pack.add(one, weigh(one))
        for other in [*passed, (pack.weight, hand, pack)]:
            heappush(dealt, other)
    return sorted(sorted(pack.ranges) for _, _, pack in dealt if pack.ranges)


class _Pack:
    """What one task reads."""

    def __init__(self) -> None:
        self.ranges: list[Range] = []
        self.size = self.weight = 0
        self._partitions: set[Partition] = set()

    def add(self, one: Range, weight: int) -> None:
        self.ranges.append(one)
        self.size += one.size
        self.weight += weight
        self._partitions.add((one.topic, one.partition))

    def has(self, one: Range) -> bool:
        """Whether it reads a range of the same partition."""
        return (one.topic, one.partition) in self._partitions
