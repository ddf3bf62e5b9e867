"""ElectLeaders (43): on one node the leader leads already."""

from __future__ import annotations

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("ElectLeaders"))
def test_no_election_is_needed_in_version(s: Session, version: int) -> None:
    asked = [{"Topic": s.topic(), "Partitions": [0, 5]}]
    answer = s.call("ElectLeaders", version, TopicPartitions=asked, TimeoutMs=1000)
    (one,) = answer["ReplicaElectionResults"]
    assert [part["ErrorCode"] for part in one["PartitionResult"]] == [84, 3]


def test_an_unknown_type_of_election_is_refused(s: Session) -> None:
    answer = s.call("ElectLeaders", 2, ElectionType=9, TopicPartitions=None, TimeoutMs=1000)
    assert answer["ErrorCode"] == 42
