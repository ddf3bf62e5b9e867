"""``kafkalite produce``: lines to records."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import suggesting
from .answers import answer_json, json_option, progress, say
from .connecting import Cluster, cluster_options, key_values
from .escapes import unescaped
from .failures import CommandError, ExitCode
from .places import PARTITION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..producer import BatchDelivery, Producer

#: Bytes read at once; a slow pipe gives fewer, and they are sent as they come.
_READ_BYTES = 1 << 18
#: Deliveries that may be under way before the oldest is looked at.
_MOST_DELIVERIES = 64
#: A line may have so many bytes whatever the largest request; JSON may write six for one.
_LEAST_LINE_BYTES = 16 << 20
_JSON_FACTOR = 8


@dataclass
class Lines:
    """Records in columns, as ``send_batch`` takes them."""

    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    headers: list[list[tuple[str, bytes | None]]] = field(default_factory=list)
    partitions: list[int | None] = field(default_factory=list)
    timestamps: list[int | None] = field(default_factory=list)


@dataclass(frozen=True)
class Shape:
    """How a line becomes a record."""

    key_separator: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None
    is_json: bool

    def read(self, lines: list[bytes], first: int) -> Lines:
        """Read lines; ``first`` is the number of the first, for what cannot be read."""
        into = Lines()
        for at, line in enumerate(lines):
            if self.is_json:
                self._read_json(line, first + at, into)
            else:
                self._read_line(line, into)
        return into

    def _read_line(self, line: bytes, into: Lines) -> None:
        key, value = self.key, line
        if self.key_separator is not None:
            key, separator, value = line.partition(self.key_separator)
            if not separator:
                key, value = self.key, line
        into.values.append(value)
        into.keys.append(key)
        into.headers.append(self.headers)
        into.partitions.append(self.partition)
        into.timestamps.append(None)

    def _read_json(self, line: bytes, number: int, into: Lines) -> None:
        try:
            given = json.loads(line)
            if not isinstance(given, dict):
                raise ValueError("not an object")
            if not _has(given, "value"):
                raise ValueError("it has no value; null makes a tombstone")
            key = _bytes(given, "key") if _has(given, "key") else self.key
            value = _bytes(given, "value")
            headers = _headers(given.get("headers") or [])
            timestamp_ms = _timestamp(given)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise CommandError(
                f"line {number} is no record: {error}",
                hint='write {"key": "k", "value": "v"}, as `kafkalite consume --json` does.',
                exit_code=ExitCode.USAGE,
            ) from None
        into.keys.append(key)
        into.values.append(value)
        into.headers.append(self.headers + headers)
        into.partitions.append(self.partition)
        into.timestamps.append(timestamp_ms)


def _has(given: dict[str, Any], name: str) -> bool:
    return name in given or f"{name}_base64" in given


def _bytes(given: dict[str, Any], name: str) -> bytes | None:
    """Return a member of a JSON object as bytes; what is no text is written as JSON."""
    if (coded := given.get(f"{name}_base64")) is not None:
        return base64.b64decode(coded, validate=True)
    value = given.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return json.dumps(value, ensure_ascii=False).encode()


def _timestamp(given: dict[str, Any]) -> int | None:
    """Return the time of a record; -1 is what `consume` writes where there is none."""
    when = given.get("timestamp_ms")
    if when is None or when == -1:
        return None
    if not isinstance(when, int) or isinstance(when, bool) or not 0 <= when < 1 << 63:
        raise ValueError("its timestamp_ms is no number of milliseconds since 1970")
    return when


def _headers(given: Any) -> list[tuple[str, bytes | None]]:
    """Read a mapping, or objects with ``name`` and ``value``."""
    if isinstance(given, dict):
        found = [(name, _bytes(given, name)) for name in given]
    else:
        found = [(header["name"], _bytes(header, "value")) for header in given]
    for name, _ in found:
        if not isinstance(name, str):
            raise ValueError("a header's name is no text")
        # Half a surrogate pair is JSON, and no UTF-8.
        name.encode()
    return found


@click.command("produce")
@click.argument("topic", shell_complete=suggesting.topics)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read lines from a file, not from stdin.",
)
@click.option("-K", "--key-separator", help="Split each line into key and value.")
@click.option("-k", "--key", help="The key of every record that has none.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Of each.")
@click.option("-p", "--partition", type=PARTITION, help="By default the key says.")
@json_option
@cluster_options
def command(
    cluster: Cluster,
    topic: str,
    path: Path | None,
    key_separator: str | None,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    as_json: bool,
) -> None:
    r"""Send each line as a record. With --json each line is an object, as `consume --json` writes.

    A line is all bytes up to a newline; -K '\t' splits it at the first tab.
    """
    from ..producer import Producer

    named = key_values(headers, "--header")
    shape = Shape(
        key_separator=None if key_separator is None else _separator(key_separator),
        key=None if key is None else os.fsencode(key),
        headers=[(name, os.fsencode(value)) for name, value in named.items()],
        partition=partition,
        is_json=as_json,
    )
    started = time.perf_counter()
    with ExitStack() as stack:
        producer = stack.enter_context(Producer(config=cluster.keys()))
        total = None if path is None else path.stat().st_size
        advance = stack.enter_context(progress(f"produce {topic}", total))
        descriptor = sys.stdin.fileno() if path is None else os.open(path, os.O_RDONLY)
        if path is not None:
            stack.callback(os.close, descriptor)
        sender = Sender(producer, topic)
        for lines, size in _chunks(descriptor, _most_line_bytes(cluster)):
            sender.send(shape.read(lines, sender.records + 1))
            advance(size)
        sender.finish()
    seconds = time.perf_counter() - started
    if as_json:
        return answer_json(
            {"topic": topic, "records": sender.records, "seconds": round(seconds, 6)}
        )
    plural = "" if sender.records == 1 else "s"
    return say(f"{sender.records} record{plural} sent to {topic} in {seconds:.2f} s")


@dataclass
class Sender:
    """Sends batches and looks after what became of them."""

    producer: Producer
    topic: str
    records: int = 0
    _under_way: deque[BatchDelivery] = field(default_factory=deque)

    def send(self, lines: Lines) -> None:
        """Add a batch; waits where too many are under way."""
        if not lines.values:
            return
        delivery = self.producer.send_batch(
            self.topic,
            lines.values,
            keys=lines.keys if any(key is not None for key in lines.keys) else None,
            headers=lines.headers if any(lines.headers) else None,
            partitions=_column(lines.partitions),
            timestamps=_column(lines.timestamps),
        )
        self.records += len(lines.values)
        self._under_way.append(delivery)
        if len(self._under_way) > _MOST_DELIVERIES:
            self._under_way.popleft().result()

    def finish(self) -> None:
        """Wait for all of them.

        Raises:
            KafkaliteError: The first that failed.
        """
        self.producer.flush()
        for delivery in self._under_way:
            delivery.result()


def _column(numbers: list[int | None]) -> list[int | None] | None:
    return numbers if any(number is not None for number in numbers) else None


def _most_line_bytes(cluster: Cluster) -> int:
    """Return how long a line may be: what a record takes, and as much as JSON makes of it."""
    try:
        most = int(cluster.config.get("max.request.size", ""))
    except ValueError:
        most = 0
    return max(_LEAST_LINE_BYTES, _JSON_FACTOR * most)


def _chunks(descriptor: int, most: int) -> Iterator[tuple[list[bytes], int]]:
    """Read lines as they come: what there is, and how many bytes it took.

    Raises:
        CommandError: A line has more than ``most`` bytes.
    """
    # The line that has begun, in pieces: to join them at every read would take a time that grows
    # with the square of its length.
    begun: list[bytes] = []
    length = count = 0
    while data := os.read(descriptor, _READ_BYTES):
        first, *lines = data.split(b"\n")
        begun.append(first)
        length += len(first)
        if length > most:
            raise CommandError(
                f"line {count + 1} has more than {most} bytes",
                hint="a record must fit into max.request.size: split it, or raise that with -X.",
                exit_code=ExitCode.USAGE,
            )
        if lines:
            *whole, rest = lines
            whole.insert(0, b"".join(begun))
            count += len(whole)
            begun, length = [rest], len(rest)
            yield whole, len(data)
        else:
            yield [], len(data)
    if length:
        yield [b"".join(begun)], 0


def _separator(text: str) -> bytes:
    r"""Return a separator as written in a shell: ``\t`` is a tab."""
    try:
        separator = unescaped(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint="--key-separator") from None
    if not separator:
        raise click.BadParameter("an empty one splits nothing", param_hint="--key-separator")
    return separator
