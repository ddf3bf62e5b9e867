"""ListGroups (16): all groups, or those in a state or of a type."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.requests import member_of
from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("ListGroups"))
def test_a_group_is_listed_in_version(s: Session, version: int) -> None:
    group = s.name()
    member_of(s, group)
    groups = {one["GroupId"]: one for one in s.call("ListGroups", version)["Groups"]}
    assert groups[group]["ProtocolType"] == "consumer"


@pytest.mark.parametrize(
    ("body", "listed"),
    [({"StatesFilter": ["Stable"]}, True), ({"StatesFilter": ["Empty"]}, False),
     ({"TypesFilter": ["classic"]}, True), ({"TypesFilter": ["consumer"]}, False)],
)  # fmt: skip
def test_a_filter_picks(s: Session, body: dict[str, Any], listed: bool) -> None:
    group = s.name()
    member_of(s, group)
    groups = {one["GroupId"] for one in s.call("ListGroups", 5, **body)["Groups"]}
    assert (group in groups) == listed
