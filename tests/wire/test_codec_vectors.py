"""A second voice on the wire: a codec driven by Kafka's definitions, as kafka-python ships them.

It shares no line with the Rust codec. Both read ``tests/golden/messages.txt`` and must write the
same bytes again (the Rust side does so in ``messages/tests/vectors.rs``), so a field at the wrong
place or version fails here.
"""

from __future__ import annotations

import json
import re
import struct
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kafka.protocol.schemas.resources", reason="needs kafka-python 3")

GOLDEN = Path(__file__).parents[1] / "golden" / "messages.txt"
NUMBERS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}
#: Messages that kafka-python 3.0 does not define, and why. It has every version of the others.
LACKING = {
    "GroupMetadataKey": "the coordinator keeps it; no client reads it",
    "GroupMetadataValue": "the coordinator keeps it; no client reads it",
    "OffsetCommitKey": "the coordinator keeps it; no client reads it",
    "OffsetCommitValue": "the coordinator keeps it; no client reads it",
    "UnregisterBrokerRequest": "its admin client has no such call",
    "UnregisterBrokerResponse": "its admin client has no such call",
}

Versions = tuple[int, int]
Field = dict[str, Any]


def versions(text: str | None) -> Versions:
    """``3``, ``0-7``, ``8+`` or ``none`` as an inclusive range."""
    if not text or text == "none":
        return (1, 0)
    if text.endswith("+"):
        return (int(text[:-1]), 32_767)
    first, _, last = text.partition("-")
    return (int(first), int(last or first))


def within(version: int, text: str | None) -> bool:
    first, last = versions(text)
    return first <= version <= last


@cache
def definition(name: str) -> dict[str, Any] | None:
    """Kafka's definition of a message; ``None`` if kafka-python has none."""
    try:
        text = (resources.files("kafka.protocol.schemas.resources") / f"{name}.json").read_text()
    except FileNotFoundError:
        return None
    message: dict[str, Any] = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    message["structs"] = {one["name"]: one["fields"] for one in message.get("commonStructs", [])}
    return message


class Codec:
    """One message in one version: reads bytes to dictionaries and writes them back."""

    def __init__(self, message: dict[str, Any], version: int) -> None:
        self.structs = message["structs"]
        self.version = version
        self.flexible = within(version, message["flexibleVersions"])
        self.data = b""
        self.at = 0

    def take(self, count: int) -> bytes:
        assert 0 <= count <= len(self.data) - self.at, f"{count} bytes wanted at {self.at}"
        self.at += count
        return self.data[self.at - count : self.at]

    def read_varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def read_number(self, kind: str) -> Any:
        spelling = NUMBERS[kind]
        return struct.unpack(spelling, self.take(struct.calcsize(spelling)))[0]

    def read_length(self, kind: str) -> int:
        if self.flexible:
            return self.read_varint() - 1
        return int(self.read_number("int16" if kind == "string" else "int32"))

    def fields_of(self, field: Field, kind: str) -> list[Field]:
        own: list[Field] | None = field.get("fields")
        return own or self.structs[kind]

    def may_be_null(self, field: Field) -> bool:
        """Whether a byte before the struct says if there is one; elements of arrays have none."""
        nullable = within(self.version, field.get("nullableVersions"))
        return nullable and not field["type"].startswith("[]")

    def read_value(self, field: Field, kind: str) -> Any:
        if kind in NUMBERS:
            return self.read_number(kind)
        if kind == "uuid":
            return self.take(16)
        if kind in ("string", "bytes", "records") or kind.startswith("[]"):
            length = self.read_length(kind)
            if length < 0:
                assert within(self.version, field.get("nullableVersions")), field["name"]
                return None
            if not kind.startswith("[]"):
                return self.take(length)
            return [self.read_value(field, kind[2:]) for _ in range(length)]
        if self.may_be_null(field) and self.read_number("int8") < 0:
            return None
        return self.read_struct(self.fields_of(field, kind))

    def read_struct(self, fields: list[Field]) -> dict[str, Any]:
        present = [field for field in fields if within(self.version, field["versions"])]
        tagged = {f["tag"]: f for f in present if within(self.version, f.get("taggedVersions"))}
        plain = [field for field in present if field not in tagged.values()]
        value = {field["name"]: self.read_value(field, field["type"]) for field in plain}
        if self.flexible:
            for _ in range(self.read_varint()):
                field = tagged[self.read_varint()]
                size = self.read_varint()
                end = self.at + size
                value[field["name"]] = self.read_value(field, field["type"])
                assert self.at == end, f"{field['name']}: {size} bytes"
        return value

    def write_varint(self, value: int) -> bytes:
        out = bytearray()
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
        return bytes(out)

    def write_length(self, kind: str, length: int) -> bytes:
        if self.flexible:
            return self.write_varint(length + 1)
        return struct.pack(NUMBERS["int16" if kind == "string" else "int32"], length)

    def write_value(self, field: Field, kind: str, value: Any) -> bytes:
        if kind in NUMBERS:
            return struct.pack(NUMBERS[kind], value)
        if kind == "uuid":
            return bytes(value)
        if kind in ("string", "bytes", "records") or kind.startswith("[]"):
            if value is None:
                return self.write_length(kind, -1)
            head = self.write_length(kind, len(value))
            if kind.startswith("[]"):
                return head + b"".join(self.write_value(field, kind[2:], one) for one in value)
            return head + bytes(value)
        if value is None:
            return b"\xff"
        head = b"\x01" if self.may_be_null(field) else b""
        return head + self.write_struct(self.fields_of(field, kind), value)

    def write_struct(self, fields: list[Field], value: dict[str, Any]) -> bytes:
        out, tags = b"", {}
        for field in fields:
            if not within(self.version, field["versions"]):
                continue
            if not within(self.version, field.get("taggedVersions")):
                out += self.write_value(field, field["type"], value[field["name"]])
            elif field["name"] in value:
                tags[field["tag"]] = self.write_value(field, field["type"], value[field["name"]])
        if self.flexible:
            out += self.write_varint(len(tags))
            for tag, spelled in sorted(tags.items()):
                out += self.write_varint(tag) + self.write_varint(len(spelled)) + spelled
        return out


def golden() -> dict[tuple[str, int], list[bytes]]:
    """Messages by name (``FetchRequest``) and version."""
    found: dict[tuple[str, int], list[bytes]] = {}
    for line in GOLDEN.read_text().splitlines():
        name, _, version, kind, body = line.split(" ")
        name += "" if kind == "record" else kind.capitalize()
        found.setdefault((name, int(version)), []).append(bytes.fromhex(body))
    return found


def lacks(name: str, version: int) -> bool:
    message = definition(name)
    return message is None or not within(version, message["validVersions"])


def test_kafkas_definitions_read_every_golden_message_and_write_the_same_bytes() -> None:
    compared = 0
    for (name, version), bodies in golden().items():
        message = definition(name)
        if message is None or lacks(name, version):
            continue
        for body in bodies:
            codec = Codec(message, version)
            codec.data = body
            value = codec.read_struct(message["fields"])
            assert codec.at == len(body), f"{name} v{version}: bytes left over"
            assert codec.write_struct(message["fields"], value) == body, f"{name} v{version}"
            compared += 1
    assert compared > 1_000


def test_only_known_messages_are_without_a_definition() -> None:
    assert {name for name, version in golden() if lacks(name, version)} == set(LACKING)
