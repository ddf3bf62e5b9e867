"""Segments on the disk, looked at from outside: nothing is changed, no broker is asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native
from ._native import LogBatch, LogRecord, SegmentCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "Adopted",
    "IndexEntry",
    "LogBatch",
    "LogRecord",
    "Segment",
    "SegmentCheck",
    "adopt",
    "batches",
    "check",
    "check_epochs",
    "group_record",
    "holds_groups",
    "index_entries",
    "is_index",
    "partitions",
    "segments",
]

#: Bytes of batches that are read at once.
_CHUNK_BYTES = 1 << 20
#: Of a batch with more bytes the checksum alone is checked.
LARGE_BYTES = 64 << 20
#: Entries of an index that are read at once.
_ENTRIES = 10_000


class Segment(NamedTuple):
    """One segment of a partition."""

    #: Its ``.log`` file.
    path: Path
    #: The offset in its name.
    base_offset: int
    #: Of that file.
    bytes: int


class IndexEntry(NamedTuple):
    """One entry: of an ``.index`` with a position, of a ``.timeindex`` with a time."""

    #: The last of a batch; of a ``.timeindex``, up to which nothing is later than the time.
    offset: int
    #: Where the batch starts, in bytes into the ``.log``.
    position: int | None = None
    #: In ms since 1970.
    timestamp_ms: int | None = None


class Adopted(NamedTuple):
    """What was taken over from another broker."""

    records: int
    batches: int
    log_start_offset: int
    log_end_offset: int


def partitions(path: Path) -> list[Path]:
    """Return the partitions at ``path``.

    Args:
        path: A data directory, a partition's directory, or a ``.log`` file.

    Returns:
        The partitions' directories in the order of their names; ``path`` itself if it is
        no data directory.
    """
    if not path.is_dir() or any(path.glob("*.log")):
        return [path]
    named = (entry for entry in path.iterdir() if re.search(r"-\d+$", entry.name))
    # The metadata log lies there like a partition, and holds no record batches.
    found = [e for e in named if e.name != "__cluster_metadata-0" and any(e.glob("*.log"))]
    return sorted(found) or [path]


def segments(path: Path) -> list[Segment]:
    """Return the segments of a partition, or the one whose file ``path`` is.

    Raises:
        KafkaliteError: There is none.
    """
    return [Segment(Path(file), base, size) for file, base, size in _native.log_segments(path)]


def batches(path: Path, *, position: int = 0, records: bool = True) -> Iterator[LogBatch]:
    """Read the batches of one segment.

    Args:
        path: Its ``.log`` file.
        position: Bytes into the file, where a batch starts.
        records: Whether to decode the records.

    Raises:
        KafkaliteError: Something there is no batch; those before it are returned first.
    """
    at: int | None = position
    while at is not None:
        found, at = _native.log_batches(path, at, _CHUNK_BYTES, records)
        yield from found


def is_index(path: Path) -> bool:
    """Tell whether a file is one of a segment's two indexes, by its name."""
    return path.suffix in (".index", ".timeindex")


def index_entries(path: Path) -> Iterator[IndexEntry]:
    """Read the entries of an ``.index`` or a ``.timeindex``, some at a time.

    Raises:
        KafkaliteError: The file cannot be read.
    """
    is_offsets = path.suffix == ".index"
    first = 0
    while entries := _native.log_index(path, first, _ENTRIES):
        first += len(entries)
        if is_offsets:
            yield from (IndexEntry(offset, position=position) for offset, position in entries)
        else:
            yield from (IndexEntry(offset, timestamp_ms=time_ms) for time_ms, offset in entries)


def holds_groups(path: Path) -> bool:
    """Tell whether a partition, or a file in it, is one of ``__consumer_offsets``, by its name."""
    partition = path if path.is_dir() else path.parent
    return partition.resolve().name.startswith("__consumer_offsets-")


def group_record(record: LogRecord) -> dict[str, Any]:
    """Return what a record of ``__consumer_offsets`` says.

    Returns:
        ``kind`` is ``offset`` (an offset that a group committed), ``group`` (its members),
        ``foreign`` (of another group protocol) or ``unreadable``. The first two have ``group`` and
        ``removed``, and the fields of Kafka's ``OffsetCommitValue`` or ``GroupMetadataValue``.
    Source:
        Kafka's ``GroupCoordinatorRecordSerde``.
    """
    return _native.log_group_record(record.key, record.value)


def check(segment: Segment, *, newest: bool, progress: Callable[[int], None]) -> SegmentCheck:
    """Read a whole segment and both its indexes.

    Args:
        segment: Which one.
        newest: Whether none follows it: it may then end in zeros.
        progress: Hears how many bytes were read since it last heard.

    Raises:
        KafkaliteError: A file cannot be read.
    """
    return _native.log_check(segment.path, newest, progress)


def check_epochs(partition: Path) -> str | None:
    """Return what is wrong with a partition's leader epochs, if anything is."""
    return _native.log_check_epochs(partition)


def adopt(source: Path, *, topic: str, partition: int, data_dir: Path) -> Adopted:
    """Take over a partition that another broker wrote.

    Args:
        source: The directory of one partition.
        topic: A topic of ours, created before.
        partition: One of its partitions, still empty.
        data_dir: Its broker is stopped.

    Raises:
        KafkaliteError: The directory is locked, or the segments cannot be taken over.
    """
    return Adopted(*_native.log_adopt(source, topic, partition, data_dir))
