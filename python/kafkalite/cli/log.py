"""``kafkalite log``: segments on the disk, with or without a broker over them."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import log_files
from ..showing import printable
from . import group_records
from .answers import (
    answer_json,
    answer_rows,
    answer_table,
    json_option,
    progress,
    text_or_base64,
)
from .failures import CommandError, ExitCode
from .helping import examples
from .places import PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PLACE = click.Path(exists=True, path_type=Path)


@click.group(
    "log",
    epilog=examples(
        "kafkalite log verify kafkalite-data", "kafkalite log dump kafkalite-data/orders-0 -n 3"
    ),
)
def command() -> None:
    """Show, check and adopt segments on the disk."""


@command.command(
    "dump",
    epilog=examples(
        "kafkalite log dump kafkalite-data/orders-0 --offset 100 -n 3",
        "kafkalite log dump kafkalite-data/orders-0 --no-records --json",
    ),
)
@click.argument("path", type=_PLACE)
@click.option("--records/--no-records", default=True, help="Show the records of each batch.")
@click.option("--offset", type=click.IntRange(0), default=0, help="First offset to show.")
@click.option("-n", "count", type=click.IntRange(1), help="Number of batches to show.")
@click.option(
    "--decode",
    type=click.Choice(["auto", "groups", "none"]),
    default="auto",
    show_default=True,
    help="Decode records of groups. Default: only in __consumer_offsets.",
)
@json_option
def dump(
    path: Path, records: bool, offset: int, count: int | None, decode: str, as_json: bool
) -> None:
    """Show the batches and records of a partition's directory, or of one .log file.

    For an .index or a .timeindex, show its entries. With --json each batch is one line. Records of
    a batch above 64 MiB are not shown.
    """
    if log_files.is_index(path):
        return _show_index(path, offset, count, as_json)
    is_groups = decode == "groups" or (decode == "auto" and log_files.holds_groups(path))
    shown = 0
    for segment in _from_offset(log_files.segments(path), offset):
        if not as_json:
            click.echo(f"{segment.path}  ({segment.bytes} bytes)")
        for batch in log_files.batches(segment.path, records=records):
            if batch.last_offset < offset:
                continue
            decodes = is_groups and not batch.is_control
            if as_json:
                answer_json(_batch(batch, segment.path, records, decodes))
            else:
                _show(batch, decodes)
            shown += 1
            if shown == count:
                return None
    return None


def _show_index(path: Path, offset: int, count: int | None, as_json: bool) -> None:
    entries = (entry for entry in log_files.index_entries(path) if entry.offset >= offset)
    column = "position" if path.suffix == ".index" else "timestamp_ms"
    rows = ({"offset": entry.offset, column: getattr(entry, column)} for entry in entries)
    answer_rows(itertools.islice(rows, count), ["offset", column], as_json=as_json)


def _from_offset(segments: list[log_files.Segment], offset: int) -> Iterator[log_files.Segment]:
    """Those that may hold the offset or a later one."""
    for at, segment in enumerate(segments):
        ends_before = at + 1 < len(segments) and segments[at + 1].base_offset <= offset
        if not ends_before:
            yield segment


def _show(batch: log_files.LogBatch, decodes: bool) -> None:
    marks = [batch.codec] if batch.codec != "none" else []
    marks += [word for word in ("transactional", "control") if getattr(batch, f"is_{word}")]
    if batch.producer_id >= 0:
        marks.append(
            f"producer {batch.producer_id} epoch {batch.producer_epoch} "
            f"sequence {batch.base_sequence}"
        )
    if batch.size > log_files.LARGE_BYTES:
        marks.append("too large: its records are not shown")
    if batch.flaw:
        marks.append(f"DAMAGED: {batch.flaw}")
    click.echo(
        f"  {batch.base_offset}..{batch.last_offset}  at {batch.position}  {batch.size} bytes  "
        f"{batch.record_count} records  epoch {batch.leader_epoch}  "
        f"{_time(batch.max_timestamp_ms)}" + "".join(f"  {mark}" for mark in marks)
    )
    for record in batch.records:
        what = group_records.words(log_files.group_record(record)) if decodes else _data(record)
        click.echo(f"    {record.offset}  {_time(record.timestamp_ms)}  {what}")


def _data(record: log_files.LogRecord) -> str:
    headers = "".join(f"  {name}={_short(value)}" for name, value in record.headers)
    return f"{_short(record.key)}: {_short(record.value)}{headers}"


def _batch(
    batch: log_files.LogBatch, file: Path, records: bool, decodes: bool
) -> dict[str, object]:
    names: tuple[str, ...] = (
        "position",
        "size",
        "base_offset",
        "last_offset",
        "record_count",
        "leader_epoch",
    )
    names += ("producer_id", "producer_epoch", "base_sequence", "codec", "is_transactional")
    names += ("is_control", "base_timestamp_ms", "max_timestamp_ms", "crc", "flaw")
    told: dict[str, object] = {"file": str(file)}
    told |= {name: getattr(batch, name) for name in names}
    if records:
        told["records"] = [_record(record, decodes) for record in batch.records]
    return told


def _record(record: log_files.LogRecord, decodes: bool) -> dict[str, object]:
    decoded = {"decoded": log_files.group_record(record)} if decodes else {}
    headers = [{"name": name, **text_or_base64("value", v)} for name, v in record.headers]
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **text_or_base64("key", record.key),
        **text_or_base64("value", record.value),
        "headers": headers,
        **decoded,
    }


def _time(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "no time"
    seconds, ms = divmod(timestamp_ms, 1000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ms:03}Z"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


def _short(value: bytes | None, most: int = 120) -> str:
    if value is None:
        return "null"
    text = value[:most].decode(errors="backslashreplace")
    text = printable(text)
    return f"{text}... ({len(value)} bytes)" if len(value) > most else text


@command.command(
    "verify",
    epilog=examples(
        "kafkalite log verify kafkalite-data",
    ),
)
@click.argument("paths", type=_PLACE, nargs=-1, required=True)
@json_option
def verify(paths: tuple[Path, ...], as_json: bool) -> int:
    """Check every batch, checksum and index entry in data directories or partitions.

    This works beside a running broker, but may see its newest batch incomplete. The exit code is 4
    if something is damaged.
    """
    places = [place for path in paths for place in log_files.partitions(path)]
    work = [(place, log_files.segments(place)) for place in places]
    total = sum(segment.bytes for _, segments in work for segment in segments)
    with progress("verify", total) as advance:
        rows = [_verify(place, segments, advance) for place, segments in work]
    answer_table(
        rows, ["partition", "segments", "batches", "records", "bytes", "sound"], as_json=as_json
    )
    damaged = [row for row in rows if not row["sound"]]
    if not damaged:
        return ExitCode.DONE
    problems = [f"{row['partition']}: {problem}" for row in damaged for problem in _problems(row)]
    raise CommandError(
        f"{len(damaged)} of {len(rows)} partitions are damaged",
        why=problems,
        hint="`kafkalite log dump` shows what is there; a broker that starts after a crash cuts "
        "the log at its first bad batch.",
        exit_code=ExitCode.PARTLY,
    )


def _verify(
    place: Path, segments: list[log_files.Segment], advance: Callable[[int], None]
) -> dict[str, object]:
    problems: list[str] = []
    batches = records = size = unused = entries = 0
    before: int | None = None
    for at, segment in enumerate(segments):
        found = log_files.check(segment, newest=at + 1 == len(segments), progress=advance)
        name = segment.path.name
        problems += [f"{name}: {problem}" for problem in found.problems]
        if before is not None and segment.base_offset < before:
            problems.append(f"{name}: begins before the end of the segment before it, {before}")
        batches, records = batches + found.batches, records + found.records
        size, unused = size + found.bytes, unused + found.unused_bytes
        entries, before = entries + found.index_entries, found.next_offset
    if place.is_dir() and (problem := log_files.check_epochs(place)):
        problems.append(problem)
    return {
        "partition": place.name,
        "path": str(place),
        "segments": len(segments),
        "batches": batches,
        "records": records,
        "bytes": size,
        "unused_bytes": unused,
        "index_entries": entries,
        "log_end_offset": before,
        "sound": not problems,
        "problems": problems,
    }


def _problems(row: dict[str, object]) -> list[str]:
    problems = row["problems"]
    return problems if isinstance(problems, list) else []


@command.command(
    "adopt",
    epilog=examples("kafkalite log adopt /tmp/kafka-logs/orders-0 --topic orders --partition 0"),
)
@click.argument("source", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--topic", required=True, help="Existing topic on the new broker.")
@click.option("--partition", type=PARTITION, required=True, help="Empty partition of that topic.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    default=Path("kafkalite-data"),
    show_default=True,
    help="Data directory of the stopped broker.",
)
@json_option
def adopt(source: Path, topic: str, partition: int, data_dir: Path, as_json: bool) -> None:
    """Adopt a partition that Apache Kafka wrote, while the broker is stopped.

    Copies the segments in DIR to the empty partition, and checks every batch. Offsets and records
    are kept; leader epochs and producer ids are not.
    """
    if not topic or "/" in topic:
        raise click.BadParameter("not a topic's name", param_hint="--topic")
    done = log_files.adopt(source, topic=topic, partition=partition, data_dir=data_dir)
    if as_json:
        return answer_json({"partition": f"{topic}-{partition}", **done._asdict()})
    return click.echo(
        f"{topic}-{partition}: {done.records} records in {done.batches} batches, "
        f"offsets {done.log_start_offset} to {done.log_end_offset}"
    )
