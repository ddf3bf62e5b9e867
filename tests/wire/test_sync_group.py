"""SyncGroup (14): the leader's assignment reaches the members of its generation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.requests import join, member_of, sync
from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("SyncGroup"))
def test_a_member_gets_its_whole_share_in_version(s: Session, version: int) -> None:
    group, share = s.name(), b"share" * 1000
    joined = join(s, group, version=3)
    member, generation = joined["MemberId"], joined["GenerationId"]
    # Version 5 names the protocol.
    named = {"ProtocolType": "consumer", "ProtocolName": "range"} if version >= 5 else {}
    answer = sync(s, group, member, generation, assign={member: share}, version=version, **named)
    assert (answer["ErrorCode"], answer["Assignment"]) == (0, share)


@pytest.mark.parametrize(
    ("off", "stranger", "error"), [(0, False, 0), (-1, False, 22), (1, False, 22), (0, True, 25)]
)
def test_the_generation_and_the_member_are_checked(
    s: Session, off: int, stranger: bool, error: int
) -> None:
    group = s.name()
    member, generation = member_of(s, group)
    who = "nobody" if stranger else member
    assert sync(s, group, who, generation + off)["ErrorCode"] == error


@pytest.mark.parametrize(("group", "error"), [("no such group", 25), ("", 24)])
def test_a_group_that_is_not_there_is_refused(s: Session, group: str, error: int) -> None:
    assert sync(s, group, "m", 1)["ErrorCode"] == error


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        ("consumer", "range", 0),
        ("connect", "range", 23),
        ("consumer", "other", 23),
        (None, None, 23),
    ],
)
def test_the_protocol_that_is_named_must_be_the_groups(
    s: Session, kind: str | None, name: str | None, error: int
) -> None:
    group = s.name()
    member, generation = member_of(s, group)
    more: dict[str, Any] = {"ProtocolType": kind, "ProtocolName": name}
    assert sync(s, group, member, generation, version=5, **more)["ErrorCode"] == error
