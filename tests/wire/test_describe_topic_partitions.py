"""DescribeTopicPartitions (75): topics in pages."""

from __future__ import annotations

import pytest

from tests.harness.session import Session


def test_a_page_ends_at_its_limit_and_says_where_the_next_begins(s: Session) -> None:
    topic = s.topic(5)
    asked = [{"Name": topic}]
    first = s.call("DescribeTopicPartitions", 0, Topics=asked, ResponsePartitionLimit=2)
    second = s.call("DescribeTopicPartitions", 0, Topics=asked, Cursor=first["NextCursor"])
    pages = [
        [part["PartitionIndex"] for part in one["Topics"][0]["Partitions"]]
        for one in (first, second)
    ]
    assert (pages, second["NextCursor"]) == ([[0, 1], [2, 3, 4]], None)


@pytest.mark.parametrize("name", ["no-such-topic"])
def test_an_unknown_topic_is_refused(s: Session, name: str) -> None:
    answer = s.call("DescribeTopicPartitions", 0, Topics=[{"Name": name}])
    assert [one["ErrorCode"] for one in answer["Topics"]] == [3]
