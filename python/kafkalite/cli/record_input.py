"""Lines, JSON lines or one JSON document as columns of records, for ``kafkalite produce``."""

from __future__ import annotations

import base64
import binascii
import json
import os
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from .failures import CommandError, ExitCode
from .json_texts import ConstantError, Repeated, elements, members, parsed, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: What ``--input`` takes.
FORMS = ("lines", "jsonl", "json")

#: Bytes read at once; a slow pipe gives fewer, and they are sent as they come.
_READ_BYTES = 1 << 18
#: A JSON document is held in memory as a whole.
_MOST_DOCUMENT_BYTES = 256 << 20
#: Records of a JSON document that are sent at once.
_DOCUMENT_BATCH = 10_000

#: What ``consume --json`` writes. Topic, partition and offset of a record that is read are ignored.
_MEMBERS = {"topic", "partition", "offset", "timestamp_ms", "headers"}
_MEMBERS |= {"key", "key_base64", "value", "value_base64"}

_HINT = (
    'a record is written as {"key": "k", "value": "v", "headers": {"h": "x"}}; '
    "--input lines sends each line as a value."
)

Headers = list[tuple[str, bytes | None]]


class _NotARecordError(Exception):
    """What is wrong with one JSON value, in our own words."""


@dataclass
class Columns:
    """Records in columns, as ``send_batch`` takes them."""

    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    partitions: list[int | None] = field(default_factory=list)
    timestamps: list[int | None] = field(default_factory=list)


@dataclass(frozen=True)
class Shape:
    """How input becomes records."""

    #: One of ``FORMS``.
    form: str
    #: Where a line is split into key and value.
    key_separator: bytes | None
    #: Key of a record that has none of its own.
    key: bytes | None
    #: Headers of every record, before its own.
    headers: Headers
    partition: int | None

    def read(self, descriptor: int, most_line_bytes: int) -> Iterator[tuple[Columns, int]]:
        """Read records as they come.

        Args:
            descriptor: Of the input, open for reading.
            most_line_bytes: A longer line is refused.

        Yields:
            Records, and how many bytes of input they took.

        Raises:
            CommandError: The input has something that is no record.
        """
        if self.form == "json":
            yield from self._read_document(descriptor)
            return
        count = 0
        for lines, size in _lines(descriptor, most_line_bytes):
            into = Columns()
            for number, line in enumerate(lines, count + 1):
                if self.form == "jsonl":
                    given, text = _parsed(line, f"line {number}")
                    self._add_json(given, text, f"line {number}", into)
                else:
                    self._add_line(line, into)
            count += len(lines)
            yield into, size

    def _read_document(self, descriptor: int) -> Iterator[tuple[Columns, int]]:
        document = _whole(descriptor)
        given, text = _parsed(document, "the input") if document.strip() else ([], "[]")
        records = given if isinstance(given, list) else [given]
        texts = elements(text) if isinstance(given, list) else [text]
        numbered = enumerate(zip(records, texts, strict=True), 1)
        size = len(document)
        while batch := list(islice(numbered, _DOCUMENT_BATCH)):
            into = Columns()
            for number, (record, written) in batch:
                self._add_json(record, written, f"record {number}", into)
            yield into, size
            size = 0

    def _add_line(self, line: bytes, into: Columns) -> None:
        key, value = self.key, line
        if self.key_separator is not None:
            key, separator, value = line.partition(self.key_separator)
            if not separator:
                key, value = self.key, line
        self._add(into, key, value, [], None)

    def _add_json(self, given: Any, text: str, where: str, into: Columns) -> None:
        try:
            _check_members(given)
            has_key = "key" in given or "key_base64" in given
            key = _bytes(given, "key", text) if has_key else self.key
            value = _bytes(given, "value", text)
            headers = _headers(given.get("headers"), text)
            self._add(into, key, value, headers, _timestamp(given))
        except _NotARecordError as error:
            raise _refused(f"{where} is not a record: {error}") from None

    def _add(
        self,
        into: Columns,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int | None,
    ) -> None:
        into.values.append(value)
        into.keys.append(key)
        into.headers.append(self.headers + headers)
        into.partitions.append(self.partition)
        into.timestamps.append(timestamp_ms)


def _refused(what: str, hint: str = _HINT) -> CommandError:
    return CommandError(what, hint=hint, exit_code=ExitCode.USAGE)


def _parsed(document: bytes, where: str) -> tuple[Any, str]:
    """Return JSON as Python has it, and its text.

    Raises:
        CommandError: It is not JSON.
    """
    try:
        text = text_of(document)
        return parsed(text), text
    except json.JSONDecodeError as error:
        place = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}"
        why = f"not JSON, {error.msg.lower().removesuffix(' at')} at {place}"
    except UnicodeDecodeError:
        why = "not UTF-8"
    except ConstantError as error:
        why = f"not JSON, {error} is none of its numbers"
    except RecursionError:
        why = "nested too deeply"
    except ValueError:
        # Python reads no number of more than 4,300 digits.
        why = "a number has too many digits"
    raise _refused(f"{where} is not a record: {why}")


def _check_members(given: Any) -> None:
    if not isinstance(given, dict):
        raise _NotARecordError(f"{_kind(given)} instead of an object")
    if isinstance(given, Repeated):
        raise _NotARecordError("it has a member twice")
    for name in given:
        if name not in _MEMBERS:
            raise _NotARecordError(f'unknown member "{name}"')
    if "value" not in given and "value_base64" not in given:
        raise _NotARecordError('"value" is missing; null makes a tombstone')
    for name in ("key", "value"):
        if name in given and f"{name}_base64" in given:
            raise _NotARecordError(f'both "{name}" and "{name}_base64"')


def _kind(given: Any) -> str:
    kinds = {list: "a list", dict: "an object", str: "a text", bool: "a truth value"}
    kinds[Repeated] = kinds[dict]
    return "null" if given is None else kinds.get(type(given), "a number")


def _bytes(given: dict[str, Any], name: str, text: str) -> bytes | None:
    """Return a member as bytes; what is no text is sent as it is written in ``text``."""
    if f"{name}_base64" in given:
        return _decoded(given[f"{name}_base64"], f"{name}_base64")
    return _encoded(given[name], name, lambda: members(text)[name])


def _decoded(coded: Any, name: str) -> bytes | None:
    if coded is None:
        return None
    try:
        return base64.b64decode(coded, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise _NotARecordError(f'"{name}" is not base64') from None


def _encoded(value: Any, name: str, written: Callable[[], str]) -> bytes | None:
    """Return text as bytes; ``written`` finds how anything else was written."""
    if value is None:
        return None
    try:
        return (value if isinstance(value, str) else written()).encode()
    except UnicodeEncodeError:
        # JSON may escape half of a surrogate pair.
        raise _NotARecordError(f'"{name}" is not UTF-8') from None


def _timestamp(given: dict[str, Any]) -> int | None:
    """Return the time of a record; -1 is what ``consume`` writes where there is none."""
    when = given.get("timestamp_ms")
    if when is None or when == -1:
        return None
    if not isinstance(when, int) or isinstance(when, bool) or not 0 <= when < 1 << 63:
        raise _NotARecordError('"timestamp_ms" is not in milliseconds since 1970')
    return when


def _headers(given: Any, record: str) -> Headers:
    """Read an object, a list of pairs, or a list of objects with ``name`` and ``value``."""
    match given:
        case None:
            return []
        case Repeated():
            raise _NotARecordError('"headers" has a name twice: a list of pairs may have it')
        case dict():
            return [(_name(name), _of_object(given, name, record)) for name in given]
        case list():
            return [_header(header, at, record) for at, header in enumerate(given)]
    raise _NotARecordError(f'"headers" is {_kind(given)}, not an object or a list of pairs')


def _of_object(headers: dict[str, Any], name: str, record: str) -> bytes | None:
    return _encoded(headers[name], "headers", lambda: members(members(record)["headers"])[name])


def _header(given: Any, at: int, record: str) -> tuple[str, bytes | None]:
    def written() -> str:
        return elements(members(record)["headers"])[at]

    match given:
        case [name, value]:
            return _name(name), _encoded(value, "headers", lambda: elements(written())[1])
        case {"name": name, "value_base64": coded}:
            return _name(name), _decoded(coded, "value_base64")
        case {"name": name, "value": value}:
            return _name(name), _encoded(value, "headers", lambda: members(written())["value"])
    raise _NotARecordError('a header is neither ["name", "value"] nor {"name": ..., "value": ...}')


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise _NotARecordError(f"the name of a header is {_kind(name)}, not a text")
    _encoded(name, "headers", lambda: name)
    return name


def _whole(descriptor: int) -> bytes:
    """Read all of the input.

    Raises:
        CommandError: It is longer than a document may be.
    """
    parts, size = [], 0
    while data := os.read(descriptor, _READ_BYTES):
        parts.append(data)
        size += len(data)
        if size > _MOST_DOCUMENT_BYTES:
            raise _refused(
                f"the input has more than {_MOST_DOCUMENT_BYTES} bytes",
                "--input jsonl takes any number of records, one a line.",
            )
    return b"".join(parts)


def _lines(descriptor: int, most: int) -> Iterator[tuple[list[bytes], int]]:
    """Read lines as they come: the lines, and how many bytes were read for them.

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
            raise _refused(
                f"line {count + 1} has more than {most} bytes",
                "a record must fit into max.request.size: split it, or raise that with -X.",
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


def column(numbers: Iterable[int | None]) -> list[int | None] | None:
    """Return a column, or ``None`` if it says nothing."""
    found = list(numbers)
    return found if any(number is not None for number in found) else None
