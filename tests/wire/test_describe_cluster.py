"""DescribeCluster (60): the one broker, which controls as well."""

from __future__ import annotations

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("DescribeCluster"))
def test_the_one_broker_is_named_in_version(s: Session, version: int) -> None:
    answer = s.call("DescribeCluster", version)
    (one,) = answer["Brokers"]
    assert (answer["ErrorCode"], answer["ControllerId"]) == (0, one["BrokerId"])
    assert f"{one['Host']}:{one['Port']}" == s.address


@pytest.mark.parametrize(("kind", "error"), [(1, 0), (2, 114), (9, 115)])
def test_the_kind_of_endpoint_is_checked(s: Session, kind: int, error: int) -> None:
    assert s.call("DescribeCluster", 1, EndpointType=kind)["ErrorCode"] == error
