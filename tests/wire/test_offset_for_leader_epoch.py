"""OffsetForLeaderEpoch (23): where an epoch ends; clients read a wrong end as lost records."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.requests import epoch_end
from tests.harness.session import Session
from tests.harness.wire.versions import edges


def outcome(answer: dict[str, Any]) -> tuple[int, int, int]:
    """Error, epoch and end offset of the one partition."""
    (part,) = answer["Topics"][0]["Partitions"]
    return part["ErrorCode"], part["LeaderEpoch"], part["EndOffset"]


@pytest.mark.parametrize("version", edges("OffsetForLeaderEpoch"))
def test_the_current_epoch_ends_at_the_log_end_in_version(s: Session, version: int) -> None:
    topic = s.topic()
    s.fill(topic)
    assert outcome(epoch_end(s, topic, 0, version=version)) == (0, 0, 9)


@pytest.mark.parametrize("epoch", [-1, 1, 5])
def test_an_epoch_that_never_was_has_no_end(s: Session, epoch: int) -> None:
    topic = s.topic()
    s.fill(topic)
    assert outcome(epoch_end(s, topic, epoch)) == (0, -1, -1)


def test_the_epoch_of_an_empty_log_ends_at_zero(s: Session) -> None:
    assert outcome(epoch_end(s, s.topic(), 0)) == (0, 0, 0)


@pytest.mark.parametrize(("current", "error"), [(-1, 0), (0, 0), (99, 75)])
def test_the_current_leader_epoch_is_checked(s: Session, current: int, error: int) -> None:
    assert outcome(epoch_end(s, s.topic(), 0, current=current))[0] == error


@pytest.mark.parametrize("version", edges("OffsetForLeaderEpoch"))
def test_an_unknown_topic_is_refused_in_version(s: Session, version: int) -> None:
    assert outcome(epoch_end(s, s.name(), 0, version=version)) == (3, -1, -1)
