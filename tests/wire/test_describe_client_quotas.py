"""DescribeClientQuotas (48): there are none."""

from __future__ import annotations

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("DescribeClientQuotas"))
def test_no_quota_is_set_in_version(s: Session, version: int) -> None:
    asked = [{"EntityType": "user", "MatchType": 2, "Match": None}]
    answer = s.call("DescribeClientQuotas", version, Components=asked, Strict=False)
    assert (answer["ErrorCode"], answer["Entries"]) == (0, [])


@pytest.mark.parametrize(("kinds", "error"), [(["user", "user"], 42), ([""], 42), (["cat"], 35)])
def test_an_odd_entity_is_refused(s: Session, kinds: list[str], error: int) -> None:
    asked = [{"EntityType": kind, "MatchType": 2, "Match": None} for kind in kinds]
    answer = s.call("DescribeClientQuotas", 1, Components=asked, Strict=False)
    assert (answer["ErrorCode"], answer["Entries"]) == (error, None)
