"""DeleteGroups (42): groups without members."""

from __future__ import annotations

import pytest

from tests.harness.requests import commit, member_of
from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("DeleteGroups"))
def test_only_an_empty_group_is_deleted_in_version(s: Session, version: int) -> None:
    busy, idle, unknown = s.name(), s.name(), s.name()
    member_of(s, busy)
    commit(s, idle, s.topic(), 5)
    answer = s.call("DeleteGroups", version, GroupsNames=[busy, idle, unknown])
    codes = {one["GroupId"]: one["ErrorCode"] for one in answer["Results"]}
    assert codes == {busy: 68, idle: 0, unknown: 69}


def test_a_group_that_is_named_twice_is_answered_once(s: Session) -> None:
    name = s.name()
    answer = s.call("DeleteGroups", 2, GroupsNames=[name, name])
    assert [one["ErrorCode"] for one in answer["Results"]] == [69]
