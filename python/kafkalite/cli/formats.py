r"""The line that ``kafkalite consume`` writes for a record: braces, or the letters of kcat.

::

    {topic} {partition} {offset} {timestamp} {key} {value} {headers}
    %t      %p          %o       %T          %k    %v      %h

Bytes take ``hex`` or ``base64`` (``{value:hex}``, ``%v{hex}``), a time ``iso`` or what
``strftime`` takes (``{timestamp:%H:%M:%S}``, ``%T{iso}``), in UTC. ``%s`` is ``%v``, and ``%K`` and
``%S`` are the sizes of key and value, -1 for null, as in kcat.
"""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from .escapes import unescaped

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..records import Record as AnyRecord

    Record = AnyRecord[bytes, bytes]
    Piece = Callable[[Record], bytes]


def _size(value: bytes | None) -> bytes:
    return b"%d" % (-1 if value is None else len(value))


#: What a format may name, as bytes.
_FIELDS: dict[str, Piece] = {
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
#: The letters of kcat, and %v for the value.
_LETTERS = {
    "t": "topic",
    "p": "partition",
    "o": "offset",
    "T": "timestamp",
    "k": "key",
    "v": "value",
    "s": "value",
    "h": "headers",
}
_SIZES: dict[str, Piece] = {
    "K": lambda record: _size(record.key),
    "S": lambda record: _size(record.value),
}
_BYTES: dict[str, Callable[[bytes], bytes]] = {
    "hex": lambda value: value.hex().encode(),
    "base64": base64.b64encode,
}

_KINDS = {
    "key": "hex or base64",
    "value": "hex or base64",
    "timestamp": "iso, or what strftime takes",
}

#: What stands in braces behind a letter belongs to it if it says how to write it; else it is text,
#: or the next field.
_TOKEN = re.compile(
    r"%(?:(?P<letter>[a-zA-Z])(?:\{(?P<how>hex|base64|iso|[^{}]*%[^{}]*)\})?|(?P<percent>%)?)"
    r"|(?P<literal>\{\{|\}\})"
    r"|\{(?P<name>\w+)(?::(?P<spec>[^{}]*))?\}"
    r"|(?P<brace>[{}])"
)

_HELP = (
    "give {topic} {partition} {offset} {timestamp} {key} {value} {headers}, or %t %p %o %T %k %v %h"
)


class Format(click.ParamType["Callable[[Record], bytes]"]):
    r"""A line with ``{key}`` or ``%k`` and so on in it; ``\t`` and ``\n`` are meant."""

    name = "FORMAT"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Callable[[Record], bytes]:
        """Read a format."""
        try:
            text = unescaped(str(value)).decode(errors="surrogateescape")
            pieces = _pieces(text)
        except ValueError as error:
            self.fail(f"{error}: {_HELP}", param, ctx)
        return lambda record: b"".join(
            piece if isinstance(piece, bytes) else piece(record) for piece in pieces
        )


def _pieces(text: str) -> list[bytes | Piece]:
    pieces: list[bytes | Piece] = []
    at = 0
    for token in _TOKEN.finditer(text):
        pieces.append(text[at : token.start()].encode(errors="surrogateescape"))
        pieces.append(_piece(token))
        at = token.end()
    pieces.append(text[at:].encode(errors="surrogateescape"))
    return [piece for piece in pieces if piece != b""]


def _piece(token: re.Match[str]) -> bytes | Piece:
    found = token.groupdict()
    if found["percent"]:
        return b"%"
    if literal := found["literal"]:
        return bytes(literal[:1], "ascii")
    if letter := found["letter"]:
        if letter in _SIZES:
            return _SIZES[letter]
        if letter not in _LETTERS:
            raise ValueError(f"%{letter} is not a field")
        return _field(_LETTERS[letter], found["how"])
    if name := found["name"]:
        if name not in _FIELDS:
            raise ValueError(f"{{{name}}} is not a field")
        return _field(name, found["spec"])
    sign = found["brace"] or "%"
    raise ValueError(f"{sign} alone: write {sign}{sign} for the sign itself")


def _field(name: str, how: str | None) -> Piece:
    read = _FIELDS[name]
    if not how:
        return read
    if name == "timestamp" and (how == "iso" or "%" in how):
        return lambda record: _time(record.timestamp_ms, how)
    if name not in ("key", "value") or how not in _BYTES:
        raise ValueError(f"{name} is written as {_KINDS.get(name, 'it is')}, not {how!r}")
    write = _BYTES[how]
    return lambda record: write(read(record))


def _time(timestamp_ms: int, how: str) -> bytes:
    """Write a time in UTC; one that no calendar has stays a number."""
    if timestamp_ms < 0:
        # The record has no time.
        return b"%d" % timestamp_ms
    seconds, ms = divmod(timestamp_ms, 1000)
    try:
        when = datetime.fromtimestamp(seconds, UTC).replace(microsecond=ms * 1000)
        if how == "iso":
            return f"{when:%Y-%m-%dT%H:%M:%S}.{ms:03}Z".encode()
        return when.strftime(how).encode(errors="surrogateescape")
    except (ValueError, OverflowError, OSError):
        return b"%d" % timestamp_ms
