"""ApiVersions (18): what is served, told in every form a client may ask for."""

from __future__ import annotations

import pytest

from tests.harness.session import Session
from tests.harness.wire import frames
from tests.harness.wire.versions import SERVED, edges


@pytest.mark.parametrize("version", edges("ApiVersions"))
def test_every_served_range_is_listed_and_no_other_in_version(s: Session, version: int) -> None:
    names = {"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"} if version >= 3 else {}
    answer = s.call("ApiVersions", version, **names)
    told = {one["ApiKey"]: (one["MinVersion"], one["MaxVersion"]) for one in answer["ApiKeys"]}
    expected = {key: (low, high) for key, low, high in SERVED.values()}
    # librdkafka compresses only if Produce is listed from version 0 on.
    expected[0] = (0, 13)
    assert (answer["ErrorCode"], told) == (0, expected)


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_an_unknown_version_is_answered_in_version_zero(s: Session, version: int) -> None:
    s.open.send_raw(frames.sized(frames.header(18, version) + b"\x00\x02a\x021\x00"))
    answer = s.open.receive("ApiVersions", 0)
    (own,) = answer["ApiKeys"]
    assert (answer["ErrorCode"], answer["_correlation_id"]) == (35, 7)
    assert (own["ApiKey"], own["MinVersion"], own["MaxVersion"]) == (18, 0, 4)


def test_a_connection_serves_on_after_an_unknown_version(s: Session) -> None:
    s.open.send_raw(frames.sized(frames.header(18, 99)))
    s.open.receive("ApiVersions", 0)
    assert s.call("ApiVersions", 0)["ErrorCode"] == 0


@pytest.mark.parametrize(
    ("name", "version", "error"),
    [("a", "1", 0), ("a-b.c", "1.0-x", 0), ("", "", 42), ("a b", "1", 42), ("-a", "1", 42)],
)
def test_the_clients_name_is_checked(s: Session, name: str, version: str, error: int) -> None:
    body = {"ClientSoftwareName": name, "ClientSoftwareVersion": version}
    assert s.call("ApiVersions", 3, **body)["ErrorCode"] == error
