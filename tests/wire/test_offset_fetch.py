"""OffsetFetch (9): committed offsets of one group, or from version 8 on of several."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.requests import commit, committed
from tests.harness.session import Session
from tests.harness.wire.versions import edges


def offsets(answer: dict[str, Any]) -> list[int]:
    """The committed offsets of all topics in an answer."""
    return [part["CommittedOffset"] for one in answer["Topics"] for part in one["Partitions"]]


@pytest.mark.parametrize("version", [1, 2, 5, 6, 7])
def test_an_offset_is_found_in_version(s: Session, version: int) -> None:
    topic, group = s.topic(), s.name()
    commit(s, group, topic, 5)
    assert offsets(committed(s, group, topic, version)) == [5]


@pytest.mark.parametrize("version", [v for v in edges("OffsetFetch") if v < 8])
def test_a_group_that_never_committed_has_no_offset_in_version(s: Session, version: int) -> None:
    assert offsets(committed(s, s.name(), s.topic(), version)) == [-1]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_several_groups_are_asked_at_once_in_version(s: Session, version: int) -> None:
    topic, groups = s.topic(), [s.name(), s.name()]
    commit(s, groups[0], topic, 5)
    named = {"TopicId": s.topic_id(topic)} if version >= 10 else {"Name": topic}
    topics = [{**named, "PartitionIndexes": [0]}]
    asked = [{"GroupId": group, "Topics": topics} for group in groups]
    answer = s.call("OffsetFetch", version, Groups=asked)
    assert {one["GroupId"]: offsets(one) for one in answer["Groups"]} == {
        groups[0]: [5],
        groups[1]: [-1],
    }


@pytest.mark.parametrize("version", [2, 7])
def test_all_topics_of_a_group_are_found_in_version(s: Session, version: int) -> None:
    group = s.name()
    for _ in range(2):
        commit(s, group, s.topic(), 5)
    assert offsets(committed(s, group, None, version)) == [5, 5]
