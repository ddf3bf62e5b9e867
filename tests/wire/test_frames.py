"""Frames that are no requests close their connection, and nothing else."""

from __future__ import annotations

import struct

import pytest

from tests.harness.session import Session
from tests.harness.wire.connection import request_frame
from tests.harness.wire.frames import header, is_closed, sized
from tests.harness.wire.versions import SERVED

CLOSING: dict[str, bytes] = {
    "a size of -1": sized(b"", -1),
    "a size of 2^31-1": sized(b"x" * 20, 2**31 - 1),
    "a size above socket.request.max.bytes": sized(b"x" * 20, 104_857_601),
    "a size of zero": sized(b""),
    "a header cut short": sized(b"\x00\x03\x00\x09"),
    "an unknown key": sized(header(999, 0)),
    "a negative key": sized(header(-1, 0)),
    "a body cut short": sized(header(3, 9) + b"\x00"),
    "2^31-1 elements": sized(header(3, 4) + struct.pack(">i", 2**31 - 1)),
    "a string beyond the end": sized(header(3, 4) + b"\x00\x00\x00\x01\x7f\xff"),
    "a client id beyond the end": sized(struct.pack(">hhih", 3, 4, 7, 9_999)),
    "a key that only brokers use": sized(header(4, 0) + b"\x00" * 20),
}


@pytest.mark.parametrize("what", CLOSING)
def test_the_connection_is_closed_for(s: Session, what: str) -> None:
    s.open.send_raw(CLOSING[what])
    assert is_closed(s.open)


@pytest.mark.parametrize("what", CLOSING)
def test_other_connections_are_served_despite(s: Session, what: str) -> None:
    other = s.another()
    s.open.send_raw(CLOSING[what])
    assert is_closed(s.open)
    assert other.call("ApiVersions", 0, {})["ErrorCode"] == 0


@pytest.mark.parametrize("api", [name for name in SERVED if name != "ApiVersions"])
def test_a_version_outside_the_range_closes_the_connection_for(s: Session, api: str) -> None:
    key, low, high = SERVED[api]
    for version in (low - 1, high + 1):
        connection = s.another()
        connection.send_raw(sized(header(key, version) + b"\x00" * 64))
        assert is_closed(connection), f"version {version}"


def test_what_was_answered_before_a_bad_frame_arrives(s: Session) -> None:
    s.open.send_raw(request_frame("ApiVersions", 0, {}, 1) + sized(header(999, 0)))
    assert s.open.receive("ApiVersions", 0)["_correlation_id"] == 1
    assert is_closed(s.open)


def test_a_frame_may_arrive_byte_by_byte(s: Session) -> None:
    for byte in request_frame("ApiVersions", 0, {}, 5):
        s.open.send_raw(bytes([byte]))
    assert s.open.receive("ApiVersions", 0)["_correlation_id"] == 5


def test_many_frames_may_arrive_at_once(s: Session) -> None:
    s.open.send_raw(b"".join(request_frame("ApiVersions", 0, {}, i) for i in range(100)))
    got = [s.open.receive("ApiVersions", 0)["_correlation_id"] for _ in range(100)]
    assert got == list(range(100))


def test_unknown_tagged_fields_are_skipped(s: Session) -> None:
    assert s.call("Metadata", 9, Topics=[], _tags={77: b"from the future"})["Topics"] == []


def test_bytes_after_the_body_are_ignored(s: Session) -> None:
    body = {"Topics": [], "AllowAutoTopicCreation": False}
    s.open.send_raw(sized(request_frame("Metadata", 4, body, 1)[4:] + b"more"))
    assert s.open.receive("Metadata", 4)["Topics"] == []


def test_a_client_without_an_id_is_served(s: Session) -> None:
    s.open.send_raw(request_frame("Metadata", 9, {"Topics": []}, 3, client_id=None))
    assert s.open.receive("Metadata", 9)["_correlation_id"] == 3
