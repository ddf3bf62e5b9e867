"""Frames by hand, where the codec would refuse to write them, and what becomes of a connection."""

from __future__ import annotations

import struct

from tests.harness.wire.connection import Closed, Connection


def sized(payload: bytes, size: int | None = None) -> bytes:
    """A payload behind its size, or behind a size that is a lie."""
    return struct.pack(">i", len(payload) if size is None else size) + payload


def header(key: int, version: int, correlation_id: int = 7) -> bytes:
    """A request header of version 1 without a client id."""
    return struct.pack(">hhih", key, version, correlation_id, -1)


def is_closed(connection: Connection) -> bool:
    """Whether the next thing that the broker says is the end of the connection."""
    try:
        connection.receive_frame()
    except Closed:
        return True
    return False
