"""ListConfigResources (74): what has configs."""

from __future__ import annotations

import pytest

from tests.conformance.differential.cases_telemetry import subscription
from tests.harness.session import Session


@pytest.mark.parametrize(
    ("kinds", "error", "listed"),
    [([2], 0, True), ([4], 0, False), ([16], 0, False), ([99], 35, False)],
)
def test_the_resources_of_a_type_are_listed(
    s: Session, kinds: list[int], error: int, listed: bool
) -> None:
    topic = s.topic()
    answer = s.call("ListConfigResources", 1, ResourceTypes=kinds)
    found = {one["ResourceName"] for one in answer["ConfigResources"]}
    assert (answer["ErrorCode"], topic in found) == (error, listed)


def test_version_zero_lists_client_metrics_only(s: Session) -> None:
    assert s.call("ListConfigResources", 0)["ConfigResources"] == []
    with subscription(s, metrics="m") as name:
        listed = s.call("ListConfigResources", 0)["ConfigResources"]
    assert [one["ResourceName"] for one in listed] == [name]
