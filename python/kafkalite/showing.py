"""Records for people: a line, cut to a length that can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .records import Record

#: Bytes of a key or a value that are shown.
MOST_BYTES = 60


def shown(value: object) -> str:
    """Return a key or a value as Python writes it, cut at 60 bytes, or characters.

    Returns:
        ``b'hello'``; of a longer one its beginning and its size: ``b'xxxx...' (1,000 bytes)``.
    """
    if isinstance(value, bytes | str) and len(value) > MOST_BYTES:
        unit = "bytes" if isinstance(value, bytes) else "characters"
        text = repr(value[:MOST_BYTES])
        return f"{text[:-1]}...{text[-1]} ({len(value):,} {unit})"
    text = repr(value)
    return text if len(text) <= 3 * MOST_BYTES else f"{text[: 3 * MOST_BYTES]}..."


def line_of(record: Record[Any, Any]) -> str:
    """Return a record in a line: where it is, then key, value and headers."""
    line = f"{record.topic}-{record.partition} @ {record.offset}"
    if record.key is not None:
        line += f"  key={shown(record.key)}"
    line += f"  value={shown(record.value)}"
    return line + "".join(f"  {name}={shown(value)}" for name, value in record.headers)


def lines_of(records: Iterable[Record[Any, Any]], most: int = 20) -> list[str]:
    """Return records line by line, and behind the first ``most`` how many there are."""
    lines = [line_of(record) for record in records]
    left = len(lines) - most
    return lines if left <= 0 else [*lines[:most], f"and {left} more"]
