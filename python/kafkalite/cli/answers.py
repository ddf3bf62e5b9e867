"""Answers on stdout: a table for people, JSON for programs; and progress on stderr.

``rich`` is imported where a terminal reads; a pipe gets aligned columns.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Row = Mapping[str, object]

_Command = TypeVar("_Command", bound="Callable[..., object]")


def json_option(command: _Command) -> _Command:
    """Add ``--json``: the answer for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def say(text: str) -> None:
    """Write talk, which is no answer, to stderr."""
    click.echo(text, err=True)


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 record``, ``2 records``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size_in_words(count: int | None) -> str | None:
    """Return a number of bytes with its unit: ``1.5 MiB``."""
    if count is None or count < 1024:
        return None if count is None else f"{count} B"
    size, units = count / 1024, iter(("KiB", "MiB", "GiB", "TiB", "PiB"))
    unit = next(units)
    while size >= 1023.95 and unit != "PiB":
        size, unit = size / 1024, next(units)
    return f"{size:.1f} {unit}"


def answer_json(answer: object) -> None:
    """Write one JSON document, or one line of several, to stdout."""
    click.echo(json.dumps(answer, ensure_ascii=False))


def text_or_base64(name: str, value: bytes | None) -> dict[str, str | None]:
    """Return bytes as a member of a JSON object.

    Returns:
        ``{name: text}``; for what is not UTF-8, ``{name_base64: ...}``.
    """
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def answer_table(rows: Sequence[Row], columns: Sequence[str], *, as_json: bool) -> None:
    """Write rows to stdout.

    Args:
        rows: What to tell; a row may know more than the columns, which JSON then tells.
        columns: The names of the columns that people see, in their order.
        as_json: One JSON list of all rows.
    """
    if as_json:
        return answer_json(list(rows))
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    heads = [column.replace("_", " ") for column in columns]
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        return _rich_table(heads, cells)
    widths = [max(len(line[at]) for line in [heads, *cells]) for at in range(len(heads))]
    for line in [heads, *cells]:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())
    return None


def answer_rows(rows: Iterable[Row], columns: Sequence[str], *, as_json: bool) -> None:
    """Write rows to stdout as they come, however many there are: ``answer_table`` has all at once.

    Args:
        rows: Each has just these columns.
        columns: Their names, in their order.
        as_json: One JSON list of all rows.
    """
    if as_json:
        before = "["
        for row in rows:
            click.echo(before + json.dumps(row, ensure_ascii=False), nl=False)
            before = ", "
        return click.echo("]" if before == ", " else "[]")
    # The widest number of 64 bits.
    width = 20
    click.echo("  ".join(column.replace("_", " ").ljust(width) for column in columns).rstrip())
    for row in rows:
        click.echo("  ".join(_cell(row[column]).ljust(width) for column in columns).rstrip())
    return None


def _rich_table(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for line in cells:
        table.add_row(*(Text(cell) for cell in line))
    Console().print(table)


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case list() | tuple():
            return ",".join(str(part) for part in value)
    return str(value)


class Progress(Protocol):
    """Hears how far some work is."""

    def __call__(self, advance: float) -> None:
        """Note that so much more is done."""


@contextmanager
def progress(
    what: str, total: float | None, unit: str = "bytes", *, shown: bool = True
) -> Iterator[Progress]:
    """Show how far some work is, on stderr, if that is a terminal.

    Args:
        what: A few words in front of the bar.
        total: All there is to do; ``None`` if that is not known.
        unit: ``bytes``, or what is counted.
        shown: ``False`` shows no bar.
    """
    if not shown or not sys.stderr.isatty():
        yield lambda advance: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as RichProgress

    of_bytes = (DownloadColumn(), TransferSpeedColumn())
    of_counts = (MofNCompleteColumn(), TextColumn(unit))
    columns = [TextColumn("{task.description}"), BarColumn()]
    columns += of_bytes if unit == "bytes" else of_counts
    with RichProgress(
        *columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True
    ) as bars:
        task = bars.add_task(what, total=total)
        yield lambda advance: bars.advance(task, advance)
