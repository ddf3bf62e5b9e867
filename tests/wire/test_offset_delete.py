"""OffsetDelete (47): committed offsets are forgotten."""

from __future__ import annotations

import pytest

from tests.harness.requests import commit, committed
from tests.harness.session import Session


def drop(s: Session, group: str, topic: str, partition: int = 0) -> tuple[int, list[int]]:
    """The error for all, and those of the partitions."""
    topics = [{"Name": topic, "Partitions": [{"PartitionIndex": partition}]}]
    answer = s.call("OffsetDelete", 0, GroupId=group, Topics=topics)
    found = [part["ErrorCode"] for one in answer["Topics"] for part in one["Partitions"]]
    return answer["ErrorCode"], found


def test_a_deleted_offset_is_gone(s: Session) -> None:
    topic, group = s.topic(), s.name()
    commit(s, group, topic, 5)
    assert drop(s, group, topic) == (0, [0])
    (part,) = committed(s, group, topic)["Topics"][0]["Partitions"]
    assert part["CommittedOffset"] == -1


def test_an_unknown_group_is_refused(s: Session) -> None:
    assert drop(s, s.name(), s.topic())[0] == 69


@pytest.mark.parametrize("partition", [-1, 4])
def test_an_unknown_partition_is_refused(s: Session, partition: int) -> None:
    topic, group = s.topic(), s.name()
    commit(s, group, topic, 5)
    assert drop(s, group, topic, partition) == (0, [3])
