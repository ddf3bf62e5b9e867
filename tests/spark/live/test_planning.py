"""What a stream answers when Spark plans: without a session, on a log that grows at every look."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite_spark.cluster import Cluster
from kafkalite_spark.errors import MissingError, ReadError
from kafkalite_spark.offsets import Offsets, Partition
from kafkalite_spark.options import parse_read
from kafkalite_spark.stream_reader import KafkaliteStreamReader


class Growing(Cluster):
    """One partition more than ``partitions`` at each look, and ten records more in each."""

    def __init__(self, options: Any) -> None:
        self._options = options
        self.end = 70
        self.count = 1
        self.id: str | None = "first"

    def partitions(self) -> list[Partition]:
        return [("a", number) for number in range(self.count)]

    def topic_ids(self, topics: Any) -> dict[str, str | None]:
        return dict.fromkeys(topics, self.id)

    def ends(self, partitions: Any, at: str) -> Offsets:
        if at == "earliest":
            return dict.fromkeys(partitions, 0)
        self.end += 10
        return dict.fromkeys(partitions, self.end)


def stream(**given: str) -> tuple[KafkaliteStreamReader, Growing]:
    """Return the reader of a new query, and its cluster."""
    needed = {"kafka.bootstrap.servers": "x:1", "subscribe": "a"}
    options = parse_read({**needed, **given}, stream=True)
    cluster = Growing(options)
    return KafkaliteStreamReader(options, ["value"], cluster=cluster), cluster


def read(reader: KafkaliteStreamReader, start: Any, end: Any) -> list[tuple[int, int, int]]:
    """Return partition, first and end offset of what a micro-batch reads."""
    tasks = reader.partitions(start, end)
    return [(one.partition, one.start, one.end) for task in tasks for one in task.ranges]


def test_where_a_stream_begins_does_not_move_while_records_come() -> None:
    reader, _ = stream()
    first = reader.initialOffset()
    assert first == reader.initialOffset() == {"a": {"0": 80}}


def test_the_first_micro_batch_from_the_latest_writes_down_where_the_query_begins() -> None:
    reader, _ = stream()
    first = reader.initialOffset()
    end = reader.latestOffset(first)
    assert end == first
    assert read(reader, first, end) == []
    assert read(reader, end, reader.latestOffset(end)) == [(0, 80, 100)]


def test_a_first_micro_batch_that_was_not_finished_loses_nothing_after_a_restart() -> None:
    reader, _ = stream()
    planned = reader.latestOffset(reader.initialOffset())
    # Another process, later: the end of the log is another.
    again, cluster = stream()
    cluster.end = 500
    assert read(again, again.initialOffset(), planned) == []
    assert read(again, planned, again.latestOffset(planned)) == [(0, 80, 520)]


def test_only_partitions_that_begin_at_their_ends_wait_for_the_second_micro_batch() -> None:
    reader, cluster = stream(startingOffsets='{"a": {"0": 5, "1": -1}}')
    cluster.count = 2
    first = reader.initialOffset()
    assert first == {"a": {"0": 5, "1": 80}}
    assert read(reader, first, reader.latestOffset(first)) == [(0, 5, 90)]


def test_what_comes_after_the_ends_were_pinned_fails_no_query_from_the_latest() -> None:
    reader, cluster = stream()
    reader.prepareForTriggerAvailableNow()
    cluster.count = 2
    first = reader.initialOffset()
    assert first == {"a": {"0": 80}}
    assert reader.latestOffset(first) == first
    assert reader.latestOffset(first) == first


class Shrinking(Growing):
    """Its last partition goes between two looks at what there is."""

    def ends(self, partitions: Any, at: str) -> Offsets:
        if len(partitions) > self.count:
            raise MissingError("UNKNOWN_TOPIC_OR_PARTITION")
        return dict.fromkeys(partitions, 80)


@pytest.mark.parametrize("left", [1, 0])
def test_a_topic_that_a_pattern_loses_between_two_looks_is_left_out_at_once(left: int) -> None:
    given = {"kafka.bootstrap.servers": "x:1", "subscribePattern": "a", "failOnDataLoss": "false"}
    options = parse_read(given, stream=True)
    cluster = Shrinking(options)
    reader = KafkaliteStreamReader(options, ["value"], cluster=cluster)
    cluster.count = 2
    begun = reader.latestOffset(reader.initialOffset())
    assert begun == {"a": {"0": 80, "1": 80}}
    cluster.count = left
    assert reader.latestOffset(begun) == ({"a": {"0": 80}} if left else {})


def test_a_topic_made_anew_that_grew_past_what_was_read_fails_the_query() -> None:
    reader, cluster = stream()
    begun = reader.latestOffset(reader.initialOffset())
    begun = reader.latestOffset(begun)
    cluster.id = "second"
    with pytest.raises(ReadError, match=r"a was deleted and made anew.*failOnDataLoss"):
        reader.latestOffset(begun)


def test_a_topic_made_anew_is_read_from_its_first_record_where_records_may_be_lost() -> None:
    reader, cluster = stream(failOnDataLoss="false")
    begun = reader.latestOffset(reader.initialOffset())
    begun = reader.latestOffset(begun)
    cluster.id = "second"
    again = reader.latestOffset(begun)
    assert read(reader, begun, again) == []
    assert read(reader, again, reader.latestOffset(again)) == [(0, 0, 120)]


def test_a_topic_made_anew_after_the_ends_were_pinned_is_read_to_its_own_end() -> None:
    reader, cluster = stream(failOnDataLoss="false", startingOffsets='{"a": {"0": 0}}')
    first, some = reader.initialOffset(), SimpleNamespace(max_rows=30)
    reader.prepareForTriggerAvailableNow()
    begun = reader.latestOffset(first, some)
    cluster.id = "second"
    cluster.end = 10
    again = reader.latestOffset(begun, some)
    assert read(reader, begun, again) == []
    assert read(reader, again, reader.latestOffset(again)) == [(0, 0, 20)]


@pytest.mark.parametrize("ids", [(None, None), (None, "first"), ("first", None)])
def test_a_topic_whose_id_nobody_tells_is_taken_for_the_same(ids: tuple[Any, Any]) -> None:
    reader, cluster = stream()
    cluster.id = ids[0]
    begun = reader.latestOffset(reader.initialOffset())
    begun = reader.latestOffset(begun)
    cluster.id = ids[1]
    assert reader.latestOffset(begun) == {"a": {"0": 110}}


def test_topics_are_asked_for_their_ids_only_when_an_end_moved() -> None:
    reader, cluster = stream()
    begun = reader.latestOffset(reader.initialOffset())
    begun = reader.latestOffset(begun)
    cluster.id = "second"
    cluster.end -= 10
    assert reader.latestOffset(begun) == begun
