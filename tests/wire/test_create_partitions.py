"""CreatePartitions (37): topics grow and never shrink."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


def grow(
    s: Session, *topics: dict[str, Any], version: int = 3, validate: bool = False
) -> list[int]:
    """The errors of topics that are to grow."""
    body = {"Topics": list(topics), "TimeoutMs": 1000, "ValidateOnly": validate}
    return [one["ErrorCode"] for one in s.call("CreatePartitions", version, **body)["Results"]]


def count(s: Session, topic: str) -> int:
    """How many partitions a topic has."""
    return len(s.metadata(topic)["Partitions"])


@pytest.mark.parametrize("version", edges("CreatePartitions"))
def test_a_topic_grows_in_version(s: Session, version: int) -> None:
    topic = s.topic(2)
    asked = {"Name": topic, "Count": 5, "Assignments": None}
    assert (grow(s, asked, version=version), count(s, topic)) == ([0], 5)


@pytest.mark.parametrize("to", [2, 1, 0, -1])
def test_a_topic_does_not_shrink(s: Session, to: int) -> None:
    topic = s.topic(2)
    asked = {"Name": topic, "Count": to, "Assignments": None}
    assert (grow(s, asked), count(s, topic)) == ([37], 2)


def test_an_unknown_topic_is_refused(s: Session) -> None:
    assert grow(s, {"Name": s.name(), "Count": 3}) == [3]


def test_a_topic_named_twice_is_refused(s: Session) -> None:
    topic = s.topic()
    assert grow(s, {"Name": topic, "Count": 3}, {"Name": topic, "Count": 4}) == [42]


@pytest.mark.parametrize(
    ("to", "assignments", "error"), [(3, [[1]], 0), (4, [[1]], 39), (3, [[99]], 39), (3, [[]], 39)]
)
def test_assignments_are_checked(
    s: Session, to: int, assignments: list[list[int]], error: int
) -> None:
    given = [{"BrokerIds": brokers} for brokers in assignments]
    assert grow(s, {"Name": s.topic(2), "Count": to, "Assignments": given}) == [error]


def test_a_topic_that_is_only_validated_stays_as_it_is(s: Session) -> None:
    topic = s.topic(2)
    asked = {"Name": topic, "Count": 3, "Assignments": None}
    assert (grow(s, asked, validate=True), count(s, topic)) == ([0], 2)
