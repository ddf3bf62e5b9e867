"""Kafka's message schemas as data.

They are read at run time out of the kafka-clients jar. Without the jar they come out of the
kafka-python wheel, which has those that a client needs. Nothing of them is copied here.
Source: ``common/message/*.json``; the syntax is in the ``README.md`` beside them in Kafka.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness import places
from tests.harness.wire.telemetry_schemas import TELEMETRY


@dataclass(frozen=True)
class Versions:
    """A closed range of versions; empty if ``low > high``."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        """``3``, ``2-5``, ``4+`` or ``none``."""
        if text is None or text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), 32767)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high


@dataclass(frozen=True)
class Field:
    """One field of a message or of a struct inside it."""

    name: str
    type: str
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    default: object
    has_default: bool
    flexible: Versions | None
    fields: tuple[Field, ...] = ()

    @property
    def is_array(self) -> bool:
        """Whether the type starts with ``[]``."""
        return self.type.startswith("[]")


@dataclass(frozen=True)
class Message:
    """A request, a response, or what stands inside of one (key -1): its versions and fields."""

    name: str
    api_key: int
    valid: Versions
    flexible: Versions
    fields: tuple[Field, ...] = field(default=())


def _sources() -> Iterator[tuple[str, str]]:
    """(file name, text) of every schema there is."""
    jar = places.clients_jar()
    if jar.exists():
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.startswith("common/message/") and name.endswith(".json"):
                    yield name.rsplit("/", 1)[1], archive.read(name).decode()
        return
    spec = importlib.util.find_spec("kafka")
    if spec is None or spec.origin is None:
        raise LookupError("no schemas: neither Kafka's jar nor the kafka-python wheel is here")
    for path in Path(spec.origin).parent.rglob("*.json"):
        yield path.name, path.read_text()
    for message in TELEMETRY:
        yield message["name"], json.dumps(message)


def _parse_field(raw: dict[str, Any], structs: dict[str, tuple[Field, ...]]) -> Field:
    kind = raw["type"]
    inner = tuple(_parse_field(one, structs) for one in raw.get("fields", ()))
    element = kind.removeprefix("[]")
    if not inner and element in structs:
        inner = structs[element]
    return Field(
        name=raw["name"],
        type=kind,
        versions=Versions.parse(raw.get("versions")),
        nullable=Versions.parse(raw.get("nullableVersions")),
        tagged=Versions.parse(raw.get("taggedVersions")),
        tag=raw.get("tag"),
        default=raw.get("default"),
        has_default="default" in raw,
        flexible=Versions.parse(raw["flexibleVersions"]) if "flexibleVersions" in raw else None,
        fields=inner,
    )


def _parse(text: str) -> Message | None:
    raw = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    if raw.get("type") not in ("request", "response", "data"):
        return None
    structs: dict[str, tuple[Field, ...]] = {}
    shared = raw.get("commonStructs", ())
    # A shared struct may hold one that stands below it: as many passes as there are structs.
    for struct in shared * len(shared):
        structs[struct["name"]] = tuple(_parse_field(one, structs) for one in struct["fields"])
    return Message(
        name=raw["name"],
        api_key=raw.get("apiKey", -1),
        valid=Versions.parse(raw["validVersions"]),
        flexible=Versions.parse(raw.get("flexibleVersions")),
        fields=tuple(_parse_field(one, structs) for one in raw.get("fields", ())),
    )


@functools.cache
def definitions() -> dict[str, Message]:
    """Everything by name: requests, responses, and such as ``ConsumerProtocolAssignment``."""
    parsed = (_parse(text) for _, text in _sources())
    return {message.name: message for message in parsed if message is not None}


@functools.cache
def messages() -> dict[str, Message]:
    """Every request and response by name, such as ``FetchRequest``."""
    return {name: message for name, message in definitions().items() if message.api_key >= 0}


def request(name: str) -> Message:
    """The request schema of an API, such as ``Fetch``."""
    return messages()[f"{name}Request"]


def response(name: str) -> Message:
    """The response schema of an API, such as ``Fetch``."""
    return messages()[f"{name}Response"]
