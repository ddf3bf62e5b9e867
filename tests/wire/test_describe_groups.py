"""DescribeGroups (15): states and members."""

from __future__ import annotations

import pytest

from tests.harness.requests import META, commit, member_of
from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("DescribeGroups"))
def test_a_stable_group_names_its_members_in_version(s: Session, version: int) -> None:
    group = s.name()
    member, _ = member_of(s, group)
    (one,) = s.call("DescribeGroups", version, Groups=[group])["Groups"]
    assert (one["ErrorCode"], one["GroupState"], one["ProtocolData"]) == (0, "Stable", "range")
    (found,) = one["Members"]
    assert (found["MemberId"], found["MemberAssignment"]) == (member, b"share")
    assert found["MemberMetadata"] == META


@pytest.mark.parametrize(("version", "error"), [(0, 0), (5, 0), (6, 69)])
def test_an_unknown_group_is_dead_in_version(s: Session, version: int, error: int) -> None:
    (one,) = s.call("DescribeGroups", version, Groups=[s.name()])["Groups"]
    assert (one["ErrorCode"], one["GroupState"]) == (error, "Dead")


def test_a_group_of_offsets_only_is_empty(s: Session) -> None:
    group = s.name()
    commit(s, group, s.topic(), 5)
    (one,) = s.call("DescribeGroups", 5, Groups=[group])["Groups"]
    assert (one["GroupState"], one["Members"]) == ("Empty", [])
