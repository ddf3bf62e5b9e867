"""OffsetCommit (8): offsets are kept for groups, with members and without."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.harness.requests import commit, committed, member_of
from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", [one for one in edges("OffsetCommit") if one < 10])
def test_an_offset_and_its_metadata_come_back_in_version(s: Session, version: int) -> None:
    topic, group = s.topic(), s.name()
    assert commit(s, group, topic, 5, version=version, metadata="né") == 0
    (part,) = committed(s, group, topic)["Topics"][0]["Partitions"]
    assert (part["CommittedOffset"], part["Metadata"]) == (5, "né")


@pytest.mark.parametrize(("known", "error"), [(True, 0), (False, 100)])
def test_version_ten_names_topics_by_id(s: Session, known: bool, error: int) -> None:
    topic_id = s.topic_id(s.topic()) if known else uuid.UUID(int=77)
    part = {"PartitionIndex": 0, "CommittedOffset": 7, "CommittedMetadata": ""}
    asked = [{"TopicId": topic_id, "Partitions": [part]}]
    answer = s.call("OffsetCommit", 10, GroupId=s.name(), Topics=asked)
    assert answer["Topics"][0]["Partitions"][0]["ErrorCode"] == error


#: What differs from a right commit of a member, and the error.
REFUSED: dict[str, tuple[dict[str, Any], int]] = {
    "nothing": ({}, 0),
    "an old generation": ({"off": -1}, 22),
    "an unknown member": ({"member": "nobody"}, 25),
    "no member where there are some": ({"member": "", "off": -2}, 25),
    "an unknown topic": ({"topic": "no-such-topic"}, 3),
    "an unknown partition": ({"partition": 9}, 3),
    "too much metadata": ({"metadata": "x" * 5000}, 12),
    "null metadata": ({"metadata": None}, 0),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_members_commit_is_judged_by(s: Session, what: str) -> None:
    odd, error = REFUSED[what]
    odd = dict(odd)
    topic, group = s.topic(), s.name()
    member, generation = member_of(s, group)
    who = {
        "GenerationIdOrMemberEpoch": generation + odd.pop("off", 0),
        "MemberId": odd.pop("member", member),
    }
    assert commit(s, group, odd.pop("topic", topic), 3, **who, **odd) == error


def test_a_member_of_no_group_is_refused(s: Session) -> None:
    who = {"GenerationIdOrMemberEpoch": 4, "MemberId": "nobody"}
    assert commit(s, s.name(), s.topic(), 3, **who) == 22
