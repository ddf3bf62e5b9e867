"""Metadata (3): brokers, topics, partitions; and topics that come to be by being asked for."""

from __future__ import annotations

import uuid

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("Metadata"))
def test_a_topic_is_described_in_version(s: Session, version: int) -> None:
    topic = s.topic(3)
    (one,) = s.call("Metadata", version, Topics=[{"Name": topic}])["Topics"]
    parts = sorted((part["PartitionIndex"], part["ErrorCode"]) for part in one["Partitions"])
    assert (one["ErrorCode"], parts) == (0, [(0, 0), (1, 0), (2, 0)])


@pytest.mark.parametrize("version", edges("Metadata"))
def test_the_one_broker_is_where_it_was_reached_in_version(s: Session, version: int) -> None:
    (one,) = s.call("Metadata", version, Topics=[{"Name": s.topic()}])["Brokers"]
    assert f"{one['Host']}:{one['Port']}" == s.address


@pytest.mark.parametrize(
    ("name", "error"), [("no-such-topic", 3), ("a b", 17), ("", 17), ("x" * 250, 17), ("..", 17)]
)
def test_a_name_is_unknown_or_invalid(s: Session, name: str, error: int) -> None:
    assert s.metadata(name, 9)["ErrorCode"] == error


@pytest.mark.parametrize("version", [0, 3, 4, 9, 13])
def test_a_topic_is_created_by_asking_in_version(s: Session, version: int) -> None:
    name = s.name()
    more = {"AllowAutoTopicCreation": True} if version >= 4 else {}
    s.call("Metadata", version, Topics=[{"Name": name}], **more)
    assert len(s.metadata(name)["Partitions"]) == 4


def test_a_topic_is_not_created_when_the_client_forbids_it(s: Session) -> None:
    name = s.name()
    assert [s.metadata(name)["ErrorCode"] for _ in range(2)] == [3, 3]


@pytest.mark.parametrize("version", [0, 1, 8, 9, 13])
def test_all_topics_are_listed_in_version(s: Session, version: int) -> None:
    topic = s.topic()
    everything = s.call("Metadata", version, Topics=None if version else [])
    assert topic in {one["Name"] for one in everything["Topics"]}


@pytest.mark.parametrize("version", [1, 8, 9, 13])
def test_no_topics_are_listed_when_none_are_asked_for_in_version(s: Session, version: int) -> None:
    assert s.call("Metadata", version, Topics=[])["Topics"] == []


def test_a_topic_is_found_by_its_id(s: Session) -> None:
    topic = s.topic()
    asked = [{"Name": None, "TopicId": s.topic_id(topic)}]
    (one,) = s.call("Metadata", 12, Topics=asked, AllowAutoTopicCreation=False)["Topics"]
    assert (one["ErrorCode"], one["Name"]) == (0, topic)


def test_an_unknown_topic_id_is_refused(s: Session) -> None:
    asked = [{"Name": None, "TopicId": uuid.UUID(int=99)}]
    (one,) = s.call("Metadata", 12, Topics=asked, AllowAutoTopicCreation=False)["Topics"]
    assert (one["ErrorCode"], one["Name"]) == (100, None)


@pytest.mark.parametrize(("asked", "operations"), [(False, -(2**31)), (True, 3576)])
def test_authorized_operations_are_listed_on_request(
    s: Session, asked: bool, operations: int
) -> None:
    topics = [{"Name": s.topic()}]
    answer = s.call("Metadata", 10, Topics=topics, IncludeTopicAuthorizedOperations=asked)
    assert answer["Topics"][0]["TopicAuthorizedOperations"] == operations
