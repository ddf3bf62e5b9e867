"""AlterPartitionReassignments (45): on one node nothing can move."""

from __future__ import annotations

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


def move(s: Session, topic: str, replicas: list[int] | None, version: int = 1) -> int:
    """The error of moving partition 0 to these brokers."""
    parts = [{"PartitionIndex": 0, "Replicas": replicas}]
    asked = [{"Name": topic, "Partitions": parts}]
    answer = s.call("AlterPartitionReassignments", version, TimeoutMs=1000, Topics=asked)
    return int(answer["Responses"][0]["Partitions"][0]["ErrorCode"])


@pytest.mark.parametrize("version", edges("AlterPartitionReassignments"))
def test_a_partition_may_stay_where_it_is_in_version(s: Session, version: int) -> None:
    assert move(s, s.topic(), [s.broker_id()], version) == 0


@pytest.mark.parametrize(("replicas", "error"), [([99], 39), ([], 39), (None, 85)])
def test_a_move_that_cannot_be_is_refused(
    s: Session, replicas: list[int] | None, error: int
) -> None:
    assert move(s, s.topic(), replicas) == error


def test_an_unknown_topic_is_refused(s: Session) -> None:
    assert move(s, s.name(), [s.broker_id()]) == 3
