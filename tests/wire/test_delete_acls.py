"""DeleteAcls (31): there is no authorizer."""

from __future__ import annotations

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("DeleteAcls"))
def test_each_filter_is_refused_in_version(s: Session, version: int) -> None:
    which = {"ResourceTypeFilter": 1, "PatternTypeFilter": 1, "Operation": 1, "PermissionType": 1}
    answer = s.call("DeleteAcls", version, Filters=[which])
    (one,) = answer["FilterResults"]
    assert (one["ErrorCode"], one["MatchingAcls"]) == (54, [])
