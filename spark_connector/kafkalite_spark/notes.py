r"""What a checkpoint says beside names and offsets: notes at the end of each micro-batch.

Spark keeps the end of each micro-batch and nothing else of a Python source. Two things are missing:

- where the query began. When the first micro-batch is replayed, Spark asks the source once more,
  and the log has moved by then
- which topic it was: a topic that is deleted and created again has the same name and another id

So the offsets carry notes, in the name of a topic without partitions, which no topic can have:

    {"orders": {"0": 7}, "notes {\"ids\":{\"orders\":\"…\"},\"began\":{\"orders\":{\"0\":0}}}": {}}

Other readers of this format skip a topic without partitions. They are Spark's own connector, and
the versions of this one that wrote no notes.

Spark's own connector keeps the start in a file of the checkpoint, ``sources/<number>/0``:
a zero byte, ``v1``, a line feed, and the offsets. Source: Spark's `KafkaSourceInitialOffsetWriter`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from .errors import ReadError
from .offsets import Offsets, from_json, to_json, value_of

__all__ = ["Notes", "notes_of", "start_kept_by_spark", "with_notes"]

#: A topic's name has no blanks.
PREFIX = "notes "


class Notes(NamedTuple):
    """What the end of a micro-batch says beside its offsets."""

    #: The id of each topic, as far as brokers tell ids.
    ids: Mapping[str, str]
    #: Where the query began; only the end of the first micro-batch says so.
    began: Offsets | None = None


def with_notes(end: Offsets, notes: Notes) -> dict[str, dict[str, int]]:
    """Return the end of a micro-batch as Spark keeps it, with the notes beside it."""
    noted: dict[str, Any] = {}
    if notes.ids:
        noted["ids"] = dict(sorted(notes.ids.items()))
    if notes.began is not None:
        noted["began"] = to_json(notes.began)
    if not noted:
        return to_json(end)
    return {**to_json(end), PREFIX + json.dumps(noted, separators=(",", ":")): {}}


def notes_of(end: Mapping[str, Any]) -> Notes:
    """Return the notes of the end of a micro-batch; they are empty if it has none."""
    for name in end:
        if name.startswith(PREFIX):
            noted = value_of(name.removeprefix(PREFIX))
            began = noted.get("began")
            return Notes(noted.get("ids", {}), None if began is None else from_json(began))
    return Notes({})


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
