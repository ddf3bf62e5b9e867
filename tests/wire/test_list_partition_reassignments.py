"""ListPartitionReassignments (46): on one node nothing moves."""

from __future__ import annotations

from tests.harness.session import Session


def test_no_partition_is_being_reassigned(s: Session) -> None:
    answer = s.call("ListPartitionReassignments", 0, TimeoutMs=1000, Topics=None)
    assert (answer["ErrorCode"], answer["Topics"]) == (0, [])
