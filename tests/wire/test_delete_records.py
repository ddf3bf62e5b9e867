"""DeleteRecords (21): the log start offset moves up, and never down."""

from __future__ import annotations

import pytest

from tests.harness.requests import delete
from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("DeleteRecords"))
def test_records_below_an_offset_are_gone_in_version(s: Session, version: int) -> None:
    topic = s.topic()
    s.fill(topic)
    assert delete(s, topic, 4, version)["LowWatermark"] == 4
    assert s.list_offset(topic, -2)["Offset"] == 4


@pytest.mark.parametrize(
    ("offset", "error", "low"), [(0, 0, 0), (9, 0, 9), (-1, 0, 9), (10, 1, -1), (-2, 1, -1)]
)
def test_an_offset_is_in_range_or_refused(s: Session, offset: int, error: int, low: int) -> None:
    topic = s.topic()
    s.fill(topic)
    answer = delete(s, topic, offset)
    assert (answer["ErrorCode"], answer["LowWatermark"]) == (error, low)


def test_the_start_never_moves_back(s: Session) -> None:
    topic = s.topic()
    s.fill(topic)
    assert [delete(s, topic, offset)["LowWatermark"] for offset in (6, 2)] == [6, 6]


@pytest.mark.parametrize(
    ("policy", "error"), [("delete", 0), ("compact", 44), ("compact,delete", 0)]
)
def test_a_topic_that_only_compacts_is_refused(s: Session, policy: str, error: int) -> None:
    topic = s.topic(cleanup_policy=policy)
    s.fill(topic)
    assert delete(s, topic, 3)["ErrorCode"] == error


def test_an_unknown_topic_is_refused(s: Session) -> None:
    assert delete(s, s.name(), 0)["ErrorCode"] == 3


def test_an_unknown_partition_is_refused(s: Session) -> None:
    assert delete(s, s.topic(), 0, partition=5)["ErrorCode"] == 3
