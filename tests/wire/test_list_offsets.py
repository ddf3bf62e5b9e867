"""ListOffsets (2): the ends of a log, and offsets by time."""

from __future__ import annotations

import pytest

from tests.harness.session import BASE_MS, Session
from tests.harness.wire.batches import simple
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("ListOffsets"))
def test_both_ends_and_a_time_are_found_in_version(s: Session, version: int) -> None:
    topic = s.topic()
    s.fill(topic)
    found = [s.list_offset(topic, when, version=version) for when in (-1, -2, BASE_MS + 4_000)]
    assert [(one["ErrorCode"], one["Offset"]) for one in found] == [(0, 9), (0, 0), (0, 4)]


#: What is asked; offset and timestamp found in a log of nine records, one a second.
FORMS = {
    "latest": (-1, 9, -1),
    "earliest": (-2, 0, -1),
    "max timestamp": (-3, 8, BASE_MS + 8_000),
    "earliest local": (-4, 0, -1),
    "latest tiered": (-5, -1, -1),
    "earliest pending upload": (-6, -1, -1),
    "before all": (BASE_MS - 1, 0, BASE_MS),
    "inside a batch": (BASE_MS + 4_000, 4, BASE_MS + 4_000),
    "between two": (BASE_MS + 4_001, 5, BASE_MS + 5_000),
    "the last": (BASE_MS + 8_000, 8, BASE_MS + 8_000),
    "after all": (BASE_MS + 8_001, -1, -1),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_offset_is_found_for(s: Session, form: str) -> None:
    timestamp, offset, found_ms = FORMS[form]
    topic = s.topic()
    s.fill(topic)
    answer = s.list_offset(topic, timestamp, version=11)
    assert (answer["ErrorCode"], answer["Offset"], answer["Timestamp"]) == (0, offset, found_ms)


@pytest.mark.parametrize("form", ["max timestamp", "before all", "after all"])
def test_an_empty_log_has_no_offset_for(s: Session, form: str) -> None:
    answer = s.list_offset(s.topic(), FORMS[form][0], version=11)
    assert (answer["ErrorCode"], answer["Offset"]) == (0, -1)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
def test_a_form_that_its_version_does_not_have_is_refused(
    s: Session, timestamp: int, version: int
) -> None:
    assert s.list_offset(s.topic(), timestamp, version=version)["ErrorCode"] == 35


def test_the_max_timestamp_need_not_be_the_last_records(s: Session) -> None:
    topic = s.topic()
    for at in (5_000, 9_000, 1_000):
        s.produce(topic, simple(b"v", base_timestamp_ms=BASE_MS + at))
    assert s.list_offset(topic, -3)["Offset"] == 1


@pytest.mark.parametrize("level", [0, 1])
def test_the_latest_offset_is_the_same_under_isolation_level(s: Session, level: int) -> None:
    topic = s.topic()
    s.fill(topic)
    parts = [{"PartitionIndex": 0, "Timestamp": -1}]
    asked = [{"Name": topic, "Partitions": parts}]
    answer = s.call("ListOffsets", 9, ReplicaId=-1, IsolationLevel=level, Topics=asked)
    assert answer["Topics"][0]["Partitions"][0]["Offset"] == 9


@pytest.mark.parametrize(("epoch", "error"), [(-1, 0), (0, 0), (99, 75)])
def test_the_leader_epoch_is_checked(s: Session, epoch: int, error: int) -> None:
    assert s.list_offset(s.topic(), -1, part={"CurrentLeaderEpoch": epoch})["ErrorCode"] == error


@pytest.mark.parametrize("version", edges("ListOffsets"))
def test_an_unknown_topic_is_refused_in_version(s: Session, version: int) -> None:
    assert s.list_offset(s.name(), -1, version=version)["ErrorCode"] == 3


def test_an_unknown_partition_is_refused(s: Session) -> None:
    assert s.list_offset(s.topic(), -1, part={"PartitionIndex": 4})["ErrorCode"] == 3


def test_a_partition_named_twice_is_refused(s: Session) -> None:
    topic = s.topic()
    parts = [{"PartitionIndex": 0, "Timestamp": when} for when in (-1, -2)]
    asked = [{"Name": topic, "Partitions": parts}]
    answer = s.call("ListOffsets", 9, ReplicaId=-1, Topics=asked)
    assert {one["ErrorCode"] for one in answer["Topics"][0]["Partitions"]} == {42}
