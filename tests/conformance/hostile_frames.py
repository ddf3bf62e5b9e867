"""Hostile frames from a seed: garbage, lies about lengths, and mutations of valid requests.

The valid requests under the mutations cover every API key and version there is a schema for.
They ask for things that are refused (an invalid topic name, ``ValidateOnly``). So the broker's
memory afterwards comes from the attack, and not from a granted request.
"""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Iterator
from typing import Any

from tests.harness.wire import batches, schemas
from tests.harness.wire.codec import default_of
from tests.harness.wire.connection import request_frame
from tests.harness.wire.schemas import Field, Message

#: Numbers that readers of lengths trip over.
NASTY = (-1, -2, 0, 1, 127, 128, 2**15, 2**20, 2**24, 100 * 2**20, 2**30, 2**31 - 1, -(2**31))

#: Keys whose requests are not sent to a broker by any client.
_SKIPPED = {"ControlledShutdown", "StopReplica", "LeaderAndIsr", "UpdateMetadata"}


def _value(schema: Field, version: int) -> Any:
    if schema.is_array:
        return [_single(schema.type[2:], schema, version)]
    return _single(schema.type, schema, version)


def _single(kind: str, schema: Field, version: int) -> Any:
    if kind == "string":
        return "a b"
    if kind == "bytes":
        return b"bytes"
    if kind == "records":
        return batches.simple(b"hostile", b"frames")
    if kind == "bool":
        return schema.name.lower() == "validateonly"
    if kind == "uuid":
        return uuid.UUID(int=77)
    if schema.fields:
        return body(schema.fields, version)
    return default_of(schema, version) if not schema.is_array else 0


def body(fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    """A value for every field that this version has; arrays have one element."""
    present = [one for one in fields if version in one.versions]
    return {one.name: _value(one, version) for one in present}


def requests() -> list[Message]:
    """Every request schema that a client could send."""
    names = schemas.messages()
    found = [names[name] for name in sorted(names) if name.endswith("Request")]
    usable = [one for one in found if one.valid.low <= one.valid.high and one.api_key >= 0]
    return [one for one in usable if one.name.removesuffix("Request") not in _SKIPPED]


def valid_frames() -> list[bytes]:
    """One valid request of every key and version."""
    frames = []
    for message in requests():
        for version in range(message.valid.low, message.valid.high + 1):
            api = message.name.removesuffix("Request")
            frames.append(request_frame(api, version, body(message.fields, version), 7))
    return frames


def _sized(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def _mutated(frame: bytes, dice: random.Random) -> bytes:
    payload = bytearray(frame[4:])
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(payload))
        kind = dice.randrange(6)
        if kind == 0:
            payload[at] = dice.randrange(256)
        elif kind == 1:
            payload[at] ^= 1 << dice.randrange(8)
        elif kind == 2:
            payload[at : at + 4] = struct.pack(">i", dice.choice(NASTY))
        elif kind == 3:
            payload[at : at + 1] = b"\xff\xff\xff\xff\x07"
        elif kind == 4:
            payload[at:at] = dice.randbytes(dice.randint(1, 16))
        elif len(payload) > 12:
            del payload[at:]
        if len(payload) < 2:
            break
    return _sized(bytes(payload))


def frames(seed: int, count: int) -> Iterator[bytes]:
    """``count`` hostile frames; the same seed gives the same ones."""
    dice = random.Random(seed)
    valid = valid_frames()
    for _ in range(count):
        kind = dice.random()
        if kind < 0.6:
            yield _mutated(dice.choice(valid), dice)
        elif kind < 0.7:
            whole = dice.choice(valid)
            yield whole[: dice.randrange(1, len(whole))]
        elif kind < 0.8:
            yield _sized(dice.randbytes(dice.randint(0, 300)))
        elif kind < 0.85:
            yield dice.randbytes(dice.randint(1, 300))
        elif kind < 0.95:
            yield struct.pack(">i", dice.choice(NASTY)) + dice.randbytes(dice.randint(0, 64))
        else:
            # A valid header whose first array claims to have very many elements.
            key, version = dice.choice(((3, 4), (0, 7), (1, 10), (8, 5), (19, 3), (11, 4)))
            claim = struct.pack(">i", dice.choice((2**31 - 1, 2**31 - 2, 10**9, 10**6 + 1)))
            yield _sized(struct.pack(">hhih", key, version, 7, -1) + claim + dice.randbytes(40))
