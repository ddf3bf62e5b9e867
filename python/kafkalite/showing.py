"""Records, batches and deliveries for people: lines and tables, cut to a length that can be read.

The binary's classes call ``record``, ``batch``, ``delivery`` and their tables for ``__repr__`` and
``_repr_html_``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import ForkedClientError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .producer import BatchDelivery, Delivery
    from .records import Record, RecordBatch

#: Bytes of a key or a value that are shown.
MOST_BYTES = 60


def printable(text: str) -> str:
    """Return a text with escapes in place of what a terminal would obey."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


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


def record(one: Record[Any, Any]) -> str:
    """Return what ``repr(record)`` is; key, value and headers are cut at 60 bytes."""
    headers = ", ".join(f"({name!r}, {shown(value)})" for name, value in one.headers)
    more = f", headers=[{headers}]" if headers else ""
    return (
        f"Record(topic={one.topic!r}, partition={one.partition}, offset={one.offset}, "
        f"key={shown(one.key)}, value={shown(one.value)}{more}, timestamp_ms={one.timestamp_ms})"
    )


def record_table(one: Record[Any, Any]) -> str:
    """Return a record as a table in HTML, for notebooks."""
    return _table([one], "")


def batch(many: RecordBatch) -> str:
    """Return what ``repr(batch)`` is: records, bytes, and the offsets of each partition."""
    ranges = _ranges(many)
    text = "; ".join(ranges[:3]) + (f"; and {len(ranges) - 3} more" if len(ranges) > 3 else "")
    places = f": {text}" if text else ""
    return f"<RecordBatch of {_count(len(many))}, {many.nbytes:,} bytes{places}>"


def batch_table(many: RecordBatch) -> str:
    """Return the first records of a batch as a table in HTML, for notebooks."""
    first = [many[at] for at in range(min(len(many), _MOST_ROWS))]
    return _table(first, batch(many))


#: Records that a table shows.
_MOST_ROWS = 10


def _count(records: int) -> str:
    return f"{records:,} record{'' if records == 1 else 's'}"


def _ranges(many: RecordBatch) -> list[str]:
    """Return the first and the last offset of each partition, as ``orders-0 @ 5..7``."""
    firsts: dict[int, int] = {}
    lasts: dict[int, int] = {}
    for number, offset in zip(many.partitions, many.offsets, strict=True):
        firsts.setdefault(number, offset)
        lasts[number] = offset
    ends = many.ends
    if len({topic for topic, *_ in ends}) > 1:
        # Offsets of two topics do not tell apart which is which.
        return [f"{topic}-{number} before {end}" for topic, number, end, _ in ends]
    return [f"{topic}-{number} @ {firsts[number]}..{lasts[number]}" for topic, number, _, _ in ends]


def delivery(one: Delivery) -> str:
    """Return what ``repr(delivery)`` is: the place, and the outcome of the record."""
    place = f"{one.topic}-{one.partition}"
    try:
        if not one.done():
            return f"<Delivery to {place}: pending>"
        error = one.exception(0)
    except ForkedClientError:
        return f"<Delivery to {place}: of another process>"
    if error is not None:
        return f"<Delivery to {place}: failed, {error}>"
    return f"<Delivery to {place}: delivered @ {one.result(0).offset}>"


def batch_delivery(many: BatchDelivery) -> str:
    """Return what ``repr(delivery)`` of many records is."""
    what = f"BatchDelivery of {_count(len(many))}"
    try:
        if not many.done():
            return f"<{what}: pending>"
        failed = len(many.errors(0))
    except ForkedClientError:
        return f"<{what}: of another process>"
    return f"<{what}: {f'{failed} failed' if failed else 'delivered'}>"


def _table(records: Sequence[Record[Any, Any]], caption: str) -> str:
    import html

    names = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = []
    for one in records:
        headers = ", ".join(f"{name}={shown(value)}" for name, value in one.headers)
        place = (one.topic, one.partition, one.offset, one.timestamp_ms)
        cells = (*map(str, place), shown(one.key), shown(one.value), headers)
        rows.append("".join(f"<td>{html.escape(cell)}</td>" for cell in cells))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
