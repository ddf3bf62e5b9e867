"""Bytes from values and values from bytes, as a schema says.

A message is a plain dict by field name (as in the schema, ``ThrottleTimeMs``). Missing fields
take the schema's default. Unknown tagged fields come back under ``_tags``.
Source: Kafka protocol guide, KIP-482 for flexible versions.
"""

from __future__ import annotations

import struct
import uuid
from typing import Any

from tests.harness.wire.schemas import Field, Message

Value = Any

_FIXED = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
    "bool": ">?",
}


class Unreadable(ValueError):
    """The bytes do not hold what the schema says."""


class Writer:
    """Collects the bytes of one message of one version."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.parts: list[bytes] = []

    def varint(self, number: int) -> None:
        """An unsigned varint."""
        out = bytearray()
        while number >= 0x80:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)
        self.parts.append(bytes(out))

    def length(self, count: int | None, short: bool = False) -> None:
        """A length prefix; None writes the null of its form."""
        if self.flexible:
            self.varint(0 if count is None else count + 1)
        else:
            self.parts.append(struct.pack(">h" if short else ">i", -1 if count is None else count))

    def field(self, schema: Field, value: Value) -> None:
        """One field in its place."""
        if schema.is_array:
            self.length(None if value is None else len(value))
            for item in value or ():
                self.single(schema.type[2:], schema, item)
        else:
            self.single(schema.type, schema, value)

    def single(self, kind: str, schema: Field, value: Value) -> None:
        """One value that is not an array."""
        if kind in _FIXED:
            self.parts.append(struct.pack(_FIXED[kind], value))
        elif kind == "uuid":
            self.parts.append((value or uuid.UUID(int=0)).bytes)
        elif kind == "string":
            raw = None if value is None else str(value).encode()
            self.length(None if raw is None else len(raw), short=True)
            self.parts.append(raw or b"")
        elif kind in ("bytes", "records"):
            self.length(None if value is None else len(value))
            self.parts.append(value or b"")
        elif value is None:
            self.parts.append(b"\xff")
        else:
            if self.version in schema.nullable and not schema.is_array:
                self.parts.append(b"\x01")
            self.struct(schema.fields, value)

    def struct(self, fields: tuple[Field, ...], value: dict[str, Value]) -> None:
        """All fields of a struct, then its tagged fields."""
        names = {one.name for one in fields}
        unknown = set(value) - names - {"_tags"}
        if unknown:
            raise KeyError(f"the schema has no field {sorted(unknown)}; it has {sorted(names)}")
        tagged: dict[int, bytes] = dict(value.get("_tags", {}))
        for one in fields:
            if self.version not in one.versions:
                continue
            if one.tag is not None and self.version in one.tagged:
                # A tagged field that holds its default is left out (KIP-482).
                if value.get(one.name, default := default_of(one, self.version)) != default:
                    inner = Writer(self.version, self.flexible)
                    inner.field(one, value[one.name])
                    tagged[one.tag] = b"".join(inner.parts)
                continue
            self.field(one, value[one.name] if one.name in value else default_of(one, self.version))
        if self.flexible:
            self.varint(len(tagged))
            for tag in sorted(tagged):
                self.varint(tag)
                self.varint(len(tagged[tag]))
                self.parts.append(tagged[tag])


def default_of(schema: Field, version: int) -> Value:
    """The value of a field that was not set."""
    kind, default = schema.type, schema.default
    if schema.has_default and default in ("null", None):
        return None
    if schema.is_array:
        return []
    if kind in ("string",):
        return default or ""
    if kind in ("bytes", "records"):
        return None if version in schema.nullable else b""
    if kind == "bool":
        return str(default).lower() == "true"
    if kind == "float64":
        return float(default or 0)  # type: ignore[arg-type]
    if kind == "uuid":
        return uuid.UUID(int=0)
    if kind in _FIXED:
        return int(str(default), 0) if schema.has_default else 0
    return {}


def encode(message: Message, version: int, value: dict[str, Value]) -> bytes:
    """The body of a request of this version."""
    writer = Writer(version, version in message.flexible)
    writer.struct(message.fields, value)
    return b"".join(writer.parts)


class Reader:
    """Takes values off the bytes of one message of one version."""

    def __init__(self, data: bytes, version: int, flexible: bool) -> None:
        self.data = data
        self.at = 0
        self.version = version
        self.flexible = flexible

    def take(self, count: int) -> bytes:
        """The next bytes; too few are an error."""
        if count < 0 or self.at + count > len(self.data):
            raise Unreadable(f"{count} bytes wanted at {self.at} of {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self) -> int:
        """An unsigned varint."""
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def length(self, short: bool = False) -> int | None:
        """A length prefix; None for null."""
        if self.flexible:
            count = self.varint() - 1
        else:
            form = ">h" if short else ">i"
            (count,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return None if count < 0 else count

    def field(self, schema: Field) -> Value:
        """One field in its place."""
        if not schema.is_array:
            return self.single(schema.type, schema)
        count = self.length()
        if count is None:
            return self.null(schema)
        return [self.single(schema.type[2:], schema) for _ in range(count)]

    def null(self, schema: Field) -> None:
        """Nothing, where the schema allows it."""
        if self.version not in schema.nullable:
            raise Unreadable(f"{schema.name} v{self.version} is null")

    def single(self, kind: str, schema: Field) -> Value:
        """One value that is not an array."""
        if kind in _FIXED:
            form = _FIXED[kind]
            return struct.unpack(form, self.take(struct.calcsize(form)))[0]
        if kind == "uuid":
            return uuid.UUID(bytes=self.take(16))
        if kind == "string":
            count = self.length(short=True)
            return self.null(schema) if count is None else self.take(count).decode()
        if kind in ("bytes", "records"):
            count = self.length()
            return self.null(schema) if count is None else self.take(count)
        # A nullable struct is led by one byte: -1 for null, 1 for present.
        if self.version in schema.nullable and not schema.is_array and self.take(1) == b"\xff":
            return None
        return self.struct(schema.fields)

    def struct(self, fields: tuple[Field, ...]) -> dict[str, Value]:
        """All fields of a struct, then its tagged fields."""
        value: dict[str, Value] = {}
        by_tag: dict[int, Field] = {}
        for one in fields:
            if self.version not in one.versions:
                continue
            if one.tag is not None and self.version in one.tagged:
                by_tag[one.tag] = one
                value[one.name] = default_of(one, self.version)
            else:
                value[one.name] = self.field(one)
        if self.flexible:
            for _ in range(self.varint()):
                tag = self.varint()
                raw = self.take(self.varint())
                if tag in by_tag:
                    value[by_tag[tag].name] = Reader(raw, self.version, True).field(by_tag[tag])
                else:
                    value.setdefault("_tags", {})[tag] = raw
        return value


def decode(message: Message, version: int, data: bytes) -> dict[str, Value]:
    """A response body of this version; bytes left over are an error."""
    reader = Reader(data, version, version in message.flexible)
    value = reader.struct(message.fields)
    if reader.at != len(data):
        raise Unreadable(f"{message.name} v{version}: {len(data) - reader.at} bytes left over")
    return value
