"""Heartbeat (12): a member of the current generation is alive, others get an error."""

from __future__ import annotations

import time

import pytest

from tests.harness.process import PATIENCE_S
from tests.harness.requests import beat, join, member_of
from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("Heartbeat"))
def test_a_member_is_alive_in_version(s: Session, version: int) -> None:
    group = s.name()
    member, generation = member_of(s, group)
    who = {"GroupId": group, "GenerationId": generation, "MemberId": member}
    assert s.call("Heartbeat", version, **who)["ErrorCode"] == 0


@pytest.mark.parametrize(
    ("off", "stranger", "error"), [(-1, False, 22), (1, False, 22), (0, True, 25)]
)
def test_the_generation_and_the_member_are_checked(
    s: Session, off: int, stranger: bool, error: int
) -> None:
    group = s.name()
    member, generation = member_of(s, group)
    assert beat(s, group, "nobody" if stranger else member, generation + off) == error


@pytest.mark.parametrize(("group", "error"), [("no such group", 25), ("", 24)])
def test_a_group_that_is_not_there_is_refused(s: Session, group: str, error: int) -> None:
    assert beat(s, group, "m", 1) == error


def test_a_member_learns_of_a_rebalance(s: Session) -> None:
    group = s.name()
    member, generation = member_of(s, group)
    second = s.another()
    protocols = [{"Name": "range", "Metadata": b""}]
    second.send("JoinGroup", 1, {
        "GroupId": group, "SessionTimeoutMs": 10_000, "RebalanceTimeoutMs": 10_000,
        "MemberId": "", "ProtocolType": "consumer", "Protocols": protocols,
    })  # fmt: skip
    # The other connection's join may be handled a moment later.
    deadline = time.monotonic() + PATIENCE_S
    while (code := beat(s, group, member, generation)) == 0:
        assert time.monotonic() < deadline
    assert code == 27
    join(s, group, member)
    assert second.receive("JoinGroup", 1)["GenerationId"] == generation + 1


def test_a_fenced_static_member_gets_an_error(s: Session) -> None:
    group = s.name()
    member, generation = member_of(s, group, instance="one")
    join(s, group, instance="one")
    assert beat(s, group, member, generation, GroupInstanceId="one") == 82
