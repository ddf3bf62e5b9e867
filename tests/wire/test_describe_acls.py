"""DescribeAcls (29): there is no authorizer."""

from __future__ import annotations

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("DescribeAcls"))
def test_security_is_disabled_in_version(s: Session, version: int) -> None:
    body = {"ResourceTypeFilter": 1, "PatternTypeFilter": 1, "Operation": 1, "PermissionType": 1}
    answer = s.call("DescribeAcls", version, **body)
    assert (answer["ErrorCode"], answer["Resources"]) == (54, [])
