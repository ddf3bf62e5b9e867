"""The history checker: after any fault, what must none of the clients have seen?

A history is a list of sends (acknowledged, refused or unknown) and of polls, with values that
are unique. The checker finds

- ``duplicate``: one value at two offsets, although the producer was idempotent
- ``inconsistent-offset``: two values at one offset, across clients, replicas and time
- ``lost-write``: acknowledged, below the highest offset that was read, and never read
- ``unseen``: acknowledged, and not read although everything was healed and drained
- ``aborted-read``: a value of an aborted transaction was read
- ``precommitted-read``: a value was read before its transaction was committed
- ``poll-skip``: a reader jumped over an offset at which another reader found a record
- ``non-monotonic-poll``: a reader went back without a reason
- ``phantom``: a value was read that was never sent

and, in the bytes of a log, ``bad-crc``, ``offset-gap`` and ``truncated-batch``; in marks observed
over time (log end offset, high watermark, ...) ``mark-went-back`` within one leader epoch.
"""

from __future__ import annotations

import enum
import itertools
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.harness.wire import batches

try:  # The C implementation reads a large log in reasonable time; the table is the fallback.
    from crc32c import crc32c as _crc32c
except ImportError:
    _crc32c = batches.crc32c

HEADER_BYTES = 61


class Outcome(enum.Enum):
    """The answer that a producer got about a record."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Fate(enum.Enum):
    """The outcome of a transaction; a record outside of one is committed from the start."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Send:
    """One record handed to a producer. ``offset`` is set if and only if it was acknowledged."""

    value: str
    partition: int
    outcome: Outcome
    offset: int | None = None
    fate: Fate = Fate.COMMITTED


@dataclass(frozen=True, slots=True)
class Poll:
    """One record a reader (in assign mode) got. ``sought``: the test moved the reader there."""

    reader: str
    partition: int
    offset: int
    value: str
    sought: bool = False
    #: What had become of the value's transaction at the time of the poll.
    fate_then: Fate = Fate.COMMITTED


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not happen."""

    kind: str
    detail: str


@dataclass
class History:
    """All sends and all polls of a run; each reader's polls in their order."""

    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    #: Whether, after healing, some reader read every partition to its end.
    drained: bool = True
    idempotent: bool = True


def check(history: History) -> list[Violation]:
    """Every violation in the history; an empty list is a clean run."""
    found: list[Violation] = []
    for rule in (_duplicates, _offsets, _losses, _transactions, _order, _phantoms):
        found += rule(history)
    return found


def _places(history: History) -> dict[tuple[int, int], set[str]]:
    """The values seen at each (partition, offset), by readers and by acknowledgements."""
    places: dict[tuple[int, int], set[str]] = defaultdict(set)
    for poll in history.polls:
        places[poll.partition, poll.offset].add(poll.value)
    for send in history.sends:
        if send.outcome is Outcome.OK and send.offset is not None and send.offset >= 0:
            places[send.partition, send.offset].add(send.value)
    return places


def _duplicates(history: History) -> Iterable[Violation]:
    if not history.idempotent:
        return
    where: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for poll in history.polls:
        where[poll.value].add((poll.partition, poll.offset))
    for value, places in where.items():
        if len(places) > 1:
            yield Violation("duplicate", f"{value!r} at {sorted(places)}")


def _offsets(history: History) -> Iterable[Violation]:
    for place, values in _places(history).items():
        if len(values) > 1:
            yield Violation("inconsistent-offset", f"{sorted(values)} at {place}")


def _losses(history: History) -> Iterable[Violation]:
    read = {poll.value for poll in history.polls}
    highest: dict[int, int] = {}
    for poll in history.polls:
        highest[poll.partition] = max(poll.offset, highest.get(poll.partition, -1))
    for send in history.sends:
        owed = send.outcome is Outcome.OK and send.fate is Fate.COMMITTED
        if not owed or send.value in read:
            continue
        # An acknowledgement under acks=0 carries no offset: it promises nothing.
        if send.offset is None or send.offset < 0:
            continue
        told = f"{send.value!r} acknowledged at {send.partition}:{send.offset}"
        if send.offset < highest.get(send.partition, -1):
            yield Violation("lost-write", told)
        elif history.drained:
            yield Violation("unseen", told)


def _transactions(history: History) -> Iterable[Violation]:
    fates = {send.value: send.fate for send in history.sends}
    for poll in history.polls:
        if fates.get(poll.value) is Fate.ABORTED:
            yield Violation("aborted-read", f"{poll.value!r} by {poll.reader}")
        elif poll.fate_then is Fate.OPEN:
            yield Violation("precommitted-read", f"{poll.value!r} by {poll.reader}")


def _order(history: History) -> Iterable[Violation]:
    holding: dict[int, list[int]] = defaultdict(list)
    aborted = {send.value for send in history.sends if send.fate is Fate.ABORTED}
    for (partition, offset), values in sorted(_places(history).items()):
        # Readers jump over aborted records by right.
        if values - aborted:
            holding[partition].append(offset)
    following = {
        (partition, low): high
        for partition, offsets in holding.items()
        for low, high in itertools.pairwise(offsets)
    }
    last: dict[tuple[str, int], int] = {}
    for poll in history.polls:
        before = last.get((poll.reader, poll.partition))
        last[poll.reader, poll.partition] = poll.offset
        if before is None or poll.sought:
            continue
        where = f"{poll.reader} at {poll.partition}: {before} then {poll.offset}"
        if poll.offset <= before:
            yield Violation("non-monotonic-poll", where)
        elif following.get((poll.partition, before), poll.offset) < poll.offset:
            yield Violation("poll-skip", where)


def _phantoms(history: History) -> Iterable[Violation]:
    sent = {send.value for send in history.sends}
    for value in {poll.value for poll in history.polls} - sent:
        yield Violation("phantom", repr(value))


# Logs and marks


def check_log(data: bytes, base_offset: int | None = None) -> list[Violation]:
    """The bytes of a ``.log`` file: whole batches, valid CRCs, offsets without a gap.

    Not for compacted logs, whose offsets have gaps by right.
    """
    found: list[Violation] = []
    at, expected = 0, base_offset
    while at < len(data):
        if at + HEADER_BYTES > len(data):
            return [*found, Violation("truncated-batch", f"{len(data) - at} bytes at {at}")]
        base, length = struct.unpack_from(">qi", data, at)
        end = at + 12 + length
        if length < HEADER_BYTES - 12 or end > len(data):
            return [*found, Violation("truncated-batch", f"length {length} at {at}")]
        (crc,) = struct.unpack_from(">I", data, at + 17)
        if _crc32c(data[at + 21 : end]) != crc:
            found.append(Violation("bad-crc", f"batch {base} at {at}"))
        if expected is not None and base != expected:
            found.append(Violation("offset-gap", f"{expected} expected, {base} at {at}"))
        (last_delta,) = struct.unpack_from(">i", data, at + 23)
        expected = base + last_delta + 1
        at = end
    return found


@dataclass(frozen=True, slots=True)
class Mark:
    """An observed value, such as a partition's high watermark, under a leader epoch."""

    name: str
    partition: int
    leader_epoch: int
    value: int


def check_marks(marks: Iterable[Mark]) -> list[Violation]:
    """Marks in the order of observation; within a leader epoch none may go back."""
    found: list[Violation] = []
    last: dict[tuple[str, int, int], int] = {}
    for mark in marks:
        key = (mark.name, mark.partition, mark.leader_epoch)
        if mark.value < last.get(key, mark.value):
            told = f"{mark.name} of {mark.partition}: {last[key]} then {mark.value}"
            found.append(Violation("mark-went-back", told))
        last[key] = mark.value
    return found


def check_replicas(
    replicas: dict[str, bytes], below: Callable[[bytes], int] = len
) -> list[Violation]:
    """Replicas have to be byte-identical below the high watermark (``below``: bytes of it)."""
    found: list[Violation] = []
    items = list(replicas.items())
    for (name, one), (other_name, other) in itertools.pairwise(items):
        shared = min(below(one), below(other))
        if one[:shared] != other[:shared]:
            found.append(Violation("replicas-differ", f"{name} and {other_name}"))
    return found


def summary(violations: list[Violation], show: int = 10) -> str:
    """Counts by kind, and the first few."""
    counts: dict[str, int] = defaultdict(int)
    for one in violations:
        counts[one.kind] += 1
    lines = [f"{kind}: {count}" for kind, count in sorted(counts.items())]
    return "\n".join([*lines, *(f"  {one.kind}: {one.detail}" for one in violations[:show])])
