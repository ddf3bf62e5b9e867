"""CreateAcls (30): there is no authorizer."""

from __future__ import annotations

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("CreateAcls"))
def test_each_entry_is_refused_in_version(s: Session, version: int) -> None:
    acl = {"ResourceType": 2, "ResourceName": "t", "ResourcePatternType": 3,
           "Principal": "User:u", "Host": "*", "Operation": 3, "PermissionType": 3}  # fmt: skip
    answer = s.call("CreateAcls", version, Creations=[acl, acl])
    assert [one["ErrorCode"] for one in answer["Results"]] == [54, 54]
