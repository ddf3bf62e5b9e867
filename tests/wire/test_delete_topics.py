"""DeleteTopics (20): by name and by id."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


def delete(s: Session, *topics: dict[str, Any]) -> list[int]:
    """The errors of topics given by name or id."""
    answer = s.call("DeleteTopics", 6, Topics=list(topics), TimeoutMs=1000)
    return [one["ErrorCode"] for one in answer["Responses"]]


@pytest.mark.parametrize("version", edges("DeleteTopics"))
def test_a_topic_is_deleted_and_an_unknown_one_refused_in_version(s: Session, version: int) -> None:
    topic, unknown = s.topic(), s.name()
    body: dict[str, Any] = {"TopicNames": [topic, unknown]}
    if version >= 6:
        body = {"Topics": [{"Name": topic}, {"Name": unknown}]}
    answer = s.call("DeleteTopics", version, TimeoutMs=1000, **body)
    codes = {one["Name"]: one["ErrorCode"] for one in answer["Responses"]}
    assert codes == {topic: 0, unknown: 3}
    assert s.metadata(topic)["ErrorCode"] == 3


def test_a_topic_is_deleted_by_its_id(s: Session) -> None:
    assert delete(s, {"Name": None, "TopicId": s.topic_id(s.topic())}) == [0]


def test_an_unknown_id_is_refused(s: Session) -> None:
    assert delete(s, {"Name": None, "TopicId": uuid.UUID(int=99)}) == [100]


def test_a_name_beside_an_id_is_refused(s: Session) -> None:
    topic = s.topic()
    assert delete(s, {"Name": topic, "TopicId": s.topic_id(topic)}) == [42]


def test_neither_name_nor_id_is_refused(s: Session) -> None:
    assert delete(s, {"Name": None, "TopicId": uuid.UUID(int=0)}) == [42]


def test_a_name_twice_is_refused_and_the_topic_stays(s: Session) -> None:
    topic = s.topic()
    assert delete(s, {"Name": topic}, {"Name": topic}) == [42]
    assert s.metadata(topic)["ErrorCode"] == 0


def test_a_topic_created_again_is_another_topic(s: Session) -> None:
    topic = s.topic()
    s.fill(topic)
    before = s.topic_id(topic)
    delete(s, {"Name": topic})
    s.create(topic)
    assert s.topic_id(topic) != before
    assert s.list_offset(topic, -1)["Offset"] == 0
