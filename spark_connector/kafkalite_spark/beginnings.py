r"""Where a query began: the checkpoint's only word about it, for Spark itself keeps ends alone.

When the first micro-batch is replayed, Spark asks the source once more where the query begins. The
log has moved by then. So the offsets at which the first micro-batch ends record its start as well,
in the name of a topic without partitions, which no topic can have:

    {"orders": {"0": 100}, "began {\"orders\":{\"0\":0}}": {}}

Programs that read offsets in this shape pass over a topic without partitions: Spark's own
connector, and the versions of this one that recorded no start.

Spark's own connector keeps the start in a file of the checkpoint, ``sources/<number>/0``:
a zero byte, ``v1``, a line feed, and the offsets. Source: Spark's `KafkaSourceInitialOffsetWriter`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from .errors import ReadError
from .offsets import Offsets, from_json, to_json, value_of

__all__ = ["recorded_start", "start_kept_by_spark", "with_start"]

#: A topic's name has no blanks.
PREFIX = "began "


def with_start(end: Offsets, start: Offsets) -> dict[str, dict[str, int]]:
    """Return the end of a first micro-batch as Spark keeps it, with the start beside it."""
    told = json.dumps(to_json(start), separators=(",", ":"))
    return {**to_json(end), PREFIX + told: {}}


def recorded_start(end: Mapping[str, Any]) -> Offsets | None:
    """Return the start that the end of a first micro-batch records, or ``None``."""
    for name in end:
        if name.startswith(PREFIX):
            return from_json(value_of(name.removeprefix(PREFIX)))
    return None


def start_kept_by_spark(checkpoint: str, end: Offsets) -> Offsets | None:
    """Return where a query of Spark's own connector began, if the checkpoint says.

    Args:
        checkpoint: The query's checkpoint location: a path, or a ``file:`` URI.
        end: Where its first micro-batch ends: of several sources, the one that reads these
            partitions is meant.

    Raises:
        ReadError: The checkpoint cannot be read, or several sources read these partitions.
    """
    place = _local(checkpoint)
    found: list[Offsets] = []
    for path in sorted((place / "sources").glob("*/0")):
        start = _read(path)
        topics = {topic for topic, _ in start}
        if topics & {topic for topic, _ in end} and start not in found:
            found.append(start)
    if len(found) > 1:
        raise ReadError(f"several sources of the checkpoint {checkpoint} read the same topics")
    return found[0] if found else None


def _local(checkpoint: str) -> Path:
    parts = urlsplit(checkpoint)
    place = Path(unquote(parts.path) if parts.scheme == "file" else checkpoint)
    if parts.scheme not in {"", "file"} or not place.is_dir():
        raise ReadError(
            f"checkpointLocation: {checkpoint} is no folder that the driver's Python can read. "
            "Copy its folder `sources` to a local disk, and give the folder that holds it"
        )
    return place


def _read(path: Path) -> Offsets:
    text = path.read_bytes().lstrip(b"\0").decode()
    if text.startswith("v"):
        version, _, text = text.partition("\n")
        if version != "v1":
            raise ReadError(f"{path} has version {version}; this connector reads v1")
    try:
        return from_json(value_of(text.strip()))
    except ValueError as error:
        raise ReadError(f"{path} holds no offsets: {error}") from error
