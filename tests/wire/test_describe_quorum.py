"""DescribeQuorum (55): a quorum of one."""

from __future__ import annotations

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("DescribeQuorum"))
def test_this_broker_leads_and_is_the_one_voter_in_version(s: Session, version: int) -> None:
    asked = [{"TopicName": "__cluster_metadata", "Partitions": [{"PartitionIndex": 0}]}]
    answer = s.call("DescribeQuorum", version, Topics=asked)
    (part,) = answer["Topics"][0]["Partitions"]
    assert (answer["ErrorCode"], part["ErrorCode"]) == (0, 0)
    assert [one["ReplicaId"] for one in part["CurrentVoters"]] == [part["LeaderId"]]
    assert part["LeaderId"] == s.broker_id()
