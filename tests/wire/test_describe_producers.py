"""DescribeProducers (61): who appends to a partition idempotently."""

from __future__ import annotations

from typing import Any

from tests.harness.requests import batch, producer
from tests.harness.session import Session


def described(s: Session, topic: str, partition: int = 0) -> dict[str, Any]:
    """What is said of one partition."""
    asked = [{"Name": topic, "PartitionIndexes": [partition]}]
    answer = s.call("DescribeProducers", 0, Topics=asked)
    found: dict[str, Any] = answer["Topics"][0]["Partitions"][0]
    return found


def test_an_active_producer_is_named_with_its_last_sequence(s: Session) -> None:
    topic, (pid, epoch) = s.topic(), producer(s)
    s.produce(topic, batch(pid, epoch, 0, 3))
    (one,) = described(s, topic)["ActiveProducers"]
    assert (one["ProducerId"], one["ProducerEpoch"], one["LastSequence"]) == (pid, epoch, 2)


def test_a_partition_without_producers_names_none(s: Session) -> None:
    found = described(s, s.topic())
    assert (found["ErrorCode"], found["ActiveProducers"]) == (0, [])


def test_an_unknown_topic_is_refused(s: Session) -> None:
    assert described(s, s.name())["ErrorCode"] == 3


def test_an_unknown_partition_is_refused(s: Session) -> None:
    assert described(s, s.topic(), 5)["ErrorCode"] == 3
