"""``kafkalite consume``: records to lines."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from . import suggesting
from .answers import json_option, plural, progress, text_or_base64
from .connecting import Cluster, cluster_options
from .failures import CommandError, ExitCode
from .formats import Format
from .helping import examples
from .places import Place, PlaceValue, Seconds
from .readers import Limits, alone, member, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..records import Record as AnyRecord

    Record = AnyRecord[bytes, bytes]

_EXAMPLES = examples(
    "kafkalite consume orders --from-beginning",
    "kafkalite consume orders:0 -o -10 -e",
    "kafkalite consume '^orders-.*' -o yesterday -f '%T{iso} %k %v\\n'",
    "kafkalite consume orders -g billing -e --json",
)


def json_line(record: Record) -> bytes:
    """Return a record as one line of JSON; `produce --input jsonl` reads it."""
    headers = [{"name": name, **text_or_base64("value", value)} for name, value in record.headers]
    told = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **text_or_base64("key", record.key),
        **text_or_base64("value", record.value),
        "headers": headers,
    }
    return json.dumps(told, ensure_ascii=False).encode() + b"\n"


@click.command("consume", epilog=_EXAMPLES)
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="TOPIC[:PARTITION]|^REGEX...",
    shell_complete=suggesting.topics,
)
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after this many records.")
@click.option("--from-beginning", is_flag=True, help="The same as --offset earliest.")
@click.option(
    "-o",
    "--offset",
    type=Place(),
    help="Position to start at (default: latest): an offset, -N (last N records of each "
    "partition), earliest, latest, 1h (one hour ago), today, yesterday, 2026-03-01T12:00Z.",
)
@click.option("-g", "--group", help="Consumer group to read and commit as.")
@click.option(
    "-e",
    "--exit-at-end",
    is_flag=True,
    help="Stop at the present end of each partition. A group commits up to there.",
)
@click.option("--idle", type=Seconds(), help="Stop after this many seconds without records.")
@click.option(
    "-f",
    "--format",
    "line",
    type=Format(),
    default="{value}\\n",
    show_default=True,
    help="Format of a record: {topic} {partition} {offset} {timestamp} {key} {value} "
    "{headers}, or kcat's %t %p %o %T %k %v %h. {value:hex} and %v{base64} encode, "
    "{timestamp:iso} and %T{%H:%M:%S} write a time in UTC.",
)
@json_option
@cluster_options
def command(
    cluster: Cluster,
    words: tuple[str, ...],
    count: int | None,
    from_beginning: bool,
    offset: PlaceValue | None,
    group: str | None,
    exit_at_end: bool,
    idle: float | None,
    line: Callable[[Record], bytes],
    as_json: bool,
) -> int:
    """Print records as they arrive. With --json each record is a JSON object on one line.

    A TOPIC that begins with ^ is a regular expression. It must match the whole name.
    """
    if group is not None and offset is not None:
        raise click.UsageError(
            "a group begins where it committed: --offset cannot be given with --group; "
            "`kafkalite groups reset-offsets` moves a group"
        )
    if from_beginning:
        offset = PlaceValue(word="earliest")
    if group is not None:
        consumer, ends = member(
            cluster, words, group, from_beginning=from_beginning, to_end=exit_at_end
        )
    else:
        consumer, ends = alone(cluster, words, offset, to_end=exit_at_end)
    # On a terminal the records themselves tell how far it is, and a bar would stand among them.
    shown = count is not None and not sys.stdout.isatty()
    make = json_line if as_json else line
    written = 0
    with consumer, progress("consume", count, "records", shown=shown) as advance:
        for records in read(consumer, ends, Limits(count, idle)):
            sys.stdout.buffer.write(b"".join(map(make, records)))
            sys.stdout.buffer.flush()
            written += len(records)
            advance(len(records))
    if count is not None and written < count:
        raise CommandError(
            f"there were {plural(written, 'record')}, not {count}",
            hint="more may come: leave out --idle and --exit-at-end to wait for them.",
            exit_code=ExitCode.PARTLY,
        )
    return ExitCode.DONE
