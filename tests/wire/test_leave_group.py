"""LeaveGroup (13): members leave one by one, from version 3 on several at once."""

from __future__ import annotations

import pytest

from tests.harness.requests import beat, member_of
from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("LeaveGroup"))
def test_a_member_that_left_is_unknown_in_version(s: Session, version: int) -> None:
    group = s.name()
    member, generation = member_of(s, group)
    who = {"MemberId": member} if version <= 2 else {"Members": [{"MemberId": member}]}
    left = s.call("LeaveGroup", version, GroupId=group, **who)["ErrorCode"]
    assert (left, beat(s, group, member, generation)) == (0, 25)


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(("group", "error"), [("no such group", 25), ("", 24)])
def test_a_group_that_is_not_there_is_refused_in_version(
    s: Session, group: str, error: int, version: int
) -> None:
    assert s.call("LeaveGroup", version, GroupId=group, MemberId="m")["ErrorCode"] == error


def test_every_member_that_leaves_has_an_error_of_its_own(s: Session) -> None:
    group = s.name()
    member, _ = member_of(s, group)
    members = [{"MemberId": member}, {"MemberId": "nobody"}]
    members.append({"MemberId": "", "GroupInstanceId": "no such instance"})
    answer = s.call("LeaveGroup", 4, GroupId=group, Members=members)
    assert [one["ErrorCode"] for one in answer["Members"]] == [0, 25, 25]
