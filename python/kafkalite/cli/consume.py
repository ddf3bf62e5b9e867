"""``kafkalite consume``: records to lines."""

from __future__ import annotations

import json
import string
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from . import suggesting
from .answers import json_option, progress, text_or_base64
from .connecting import Cluster, cluster_options, partitions_of
from .escapes import unescaped
from .failures import CommandError, ExitCode
from .places import Place, PlaceValue, Seconds
from .topics import expand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..consumer import Consumer
    from ..records import Record as AnyRecord

    Record = AnyRecord[bytes | None, bytes | None]

#: Records taken at once, and how long to wait for the first of them.
_MOST_RECORDS = 1_000
_WAIT_S = 0.5

#: What a format may name, as bytes.
_FIELDS: dict[str, Callable[[Record], bytes]] = {
    "topic": lambda record: record.topic.encode(),
    "partition": lambda record: b"%d" % record.partition,
    "offset": lambda record: b"%d" % record.offset,
    "timestamp": lambda record: b"%d" % record.timestamp_ms,
    "key": lambda record: record.key or b"",
    "value": lambda record: record.value or b"",
    "headers": lambda record: b",".join(
        name.encode() + b"=" + (value or b"") for name, value in record.headers
    ),
}


class Format(click.ParamType["Callable[[Record], bytes]"]):
    r"""A line with ``{key}``, ``{value}`` and so on in it; ``\t`` and ``\n`` are meant."""

    name = "FORMAT"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Callable[[Record], bytes]:
        """Read a format."""
        pieces: list[bytes | Callable[[Record], bytes]] = []
        try:
            text = unescaped(str(value)).decode(errors="surrogateescape")
            for literal, name, _, _ in string.Formatter().parse(text):
                pieces.append(literal.encode(errors="surrogateescape"))
                if name is not None:
                    pieces.append(_FIELDS[name])
        except (ValueError, KeyError) as error:
            self.fail(f"{error}: give {', '.join(f'{{{name}}}' for name in _FIELDS)}", param, ctx)
        return lambda record: b"".join(
            piece if isinstance(piece, bytes) else piece(record) for piece in pieces
        )


def json_line(record: Record) -> bytes:
    """Return a record as one line of JSON; `produce --json` reads it."""
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


@dataclass(frozen=True)
class Limits:
    """When to stop."""

    #: After this many records.
    count: int | None
    #: After this many seconds without one.
    idle_s: float | None
    #: At these ends, exclusive, by topic and partition.
    ends: dict[tuple[str, int], int] | None


@click.command("consume")
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="TOPIC[:PARTITION]...",
    shell_complete=suggesting.topics,
)
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after this many records.")
@click.option("--from-beginning", is_flag=True, help="The same as --offset earliest.")
@click.option("-o", "--offset", type=Place(), help="Offset, -N, earliest, latest, or a time.")
@click.option("-g", "--group", help="Read as a member of a group, which commits.")
@click.option("-e", "--exit-at-end", is_flag=True, help="Stop where the partitions end now.")
@click.option("--idle", type=Seconds(), help="Stop after so many seconds without records.")
@click.option(
    "-f",
    "--format",
    "line",
    type=Format(),
    default="{value}\\n",
    show_default=True,
    help="{topic} {partition} {offset} {timestamp} {key} {value} {headers}",
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
    """Write records to stdout as they come. With --json each is one line, a JSON object."""
    if group is not None and (offset is not None or exit_at_end):
        raise click.UsageError("a group knows where it is: no --offset, no --exit-at-end")
    if from_beginning:
        offset = PlaceValue(word="earliest")
    with ExitStack() as stack:
        if group is not None:
            consumer = _member(cluster, words, group, from_beginning)
            ends = None
        else:
            consumer, ends = _reader(cluster, words, offset, exit_at_end)
        stack.enter_context(consumer)
        limits = Limits(count, idle, ends)
        # On a terminal the records themselves tell how far it is, and a bar would stand among them.
        shown = count is not None and not sys.stdout.isatty()
        advance = stack.enter_context(progress("consume", count, "records")) if shown else None
        written = 0
        for records in _records(consumer, limits):
            make = json_line if as_json else line
            sys.stdout.buffer.write(b"".join(map(make, records)))
            sys.stdout.buffer.flush()
            written += len(records)
            if advance is not None:
                advance(len(records))
    if count is not None and written < count:
        raise CommandError(
            f"there were {written} records, not {count}",
            hint="more may come: leave out --idle and --exit-at-end to wait for them.",
            exit_code=ExitCode.PARTLY,
        )
    return ExitCode.DONE


def _member(cluster: Cluster, words: tuple[str, ...], group: str, from_beginning: bool) -> Consumer:
    from ..consumer import Consumer

    topics = [topic for topic, partition in partitions_of(words) if partition is None]
    if len(topics) != len(words):
        raise click.UsageError("a group deals partitions out itself: give topics alone")
    reset = "earliest" if from_beginning else "latest"
    return Consumer(*topics, group_id=group, config=cluster.keys(auto_offset_reset=reset))


def _reader(
    cluster: Cluster, words: tuple[str, ...], offset: PlaceValue | None, exit_at_end: bool
) -> tuple[Consumer, dict[tuple[str, int], int] | None]:
    """Make a consumer without a group, at its place."""
    from ..consumer import Consumer

    with cluster.admin() as admin:
        places = expand(admin, words, cluster)
        latest = PlaceValue(word="latest")
        offsets = (offset or latest).resolve(admin, places, cluster)
        ends = latest.resolve(admin, places, cluster) if exit_at_end else None
    consumer = Consumer(config=cluster.keys(enable_auto_commit="false"))
    consumer.assign(places)
    for place, at in offsets.items():
        consumer.seek(place, at)
    if ends is not None:
        # What has no record before its end is read already.
        ends = {place: end for place, end in ends.items() if offsets[place] < end}
    return consumer, ends


def _records(consumer: Consumer, limits: Limits) -> Iterator[list[Record]]:
    """Records as they come, until a limit is reached."""
    left = limits.count
    open_ends = None if limits.ends is None else dict(limits.ends)
    quiet_since = time.monotonic()
    while left != 0 and open_ends != {}:
        most = _MOST_RECORDS if left is None else min(left, _MOST_RECORDS)
        records = consumer.consume(most, timeout=_WAIT_S)
        if open_ends is not None:
            records = [record for record in records if _is_before_end(record, open_ends)]
        if records:
            quiet_since = time.monotonic()
            left = None if left is None else left - len(records)
            yield records
        elif limits.idle_s is not None and time.monotonic() - quiet_since >= limits.idle_s:
            return
        elif open_ends:
            # The last records before an end may be gone: compacted away, or of a transaction.
            passed = [place for place, end in open_ends.items() if consumer.position(place) >= end]
            for place in passed:
                del open_ends[place]


def _is_before_end(record: Record, open_ends: dict[tuple[str, int], int]) -> bool:
    """Tell whether a record counts; takes the partition out when its end is reached."""
    place = (record.topic, record.partition)
    end = open_ends.get(place)
    if end is not None and record.offset + 1 >= end:
        del open_ends[place]
    return end is not None and record.offset < end
