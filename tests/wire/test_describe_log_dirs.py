"""DescribeLogDirs (35): what lies in the one log directory."""

from __future__ import annotations

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("DescribeLogDirs"))
def test_a_partition_has_a_size_in_version(s: Session, version: int) -> None:
    topic = s.topic()
    s.fill(topic)
    asked = [{"Topic": topic, "Partitions": [0]}]
    (place,) = s.call("DescribeLogDirs", version, Topics=asked)["Results"]
    (part,) = place["Topics"][0]["Partitions"]
    assert place["ErrorCode"] == 0
    assert part["PartitionSize"] > 0


def test_every_topic_is_described_to_who_names_none(s: Session) -> None:
    topic = s.topic()
    (place,) = s.call("DescribeLogDirs", 4, Topics=None)["Results"]
    assert topic in {one["Name"] for one in place["Topics"]}


def test_an_unknown_topic_is_left_out(s: Session) -> None:
    asked = [{"Topic": s.name(), "Partitions": [0]}]
    (place,) = s.call("DescribeLogDirs", 4, Topics=asked)["Results"]
    assert place["Topics"] == []
