"""What a stream answers when Spark plans: without a session, on a log that grows at every look."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite_spark.cluster import Cluster
from kafkalite_spark.errors import MissingError, OptionError, ReadError
from kafkalite_spark.notes import notes_of
from kafkalite_spark.offsets import Offsets, Partition, from_json, to_json
from kafkalite_spark.options import parse_read
from kafkalite_spark.reader import KafkaliteReader
from kafkalite_spark.stream_reader import KafkaliteStreamReader


class Growing(Cluster):
    """``count`` partitions, and ten records more in each at each look."""

    def __init__(self, options: Any) -> None:
        self._options = options
        self.start = 0
        self.end = 70
        self.grows_by = 10
        self.count = 1
        self.id: str | None = "first"
        self.refuses = False
        self.committed: list[tuple[str, Offsets]] = []

    def partitions(self) -> list[Partition]:
        return [("a", number) for number in range(self.count)]

    def topic_ids(self, topics: Any) -> dict[str, str | None]:
        return dict.fromkeys(topics, self.id)

    def committed_to(self, group: str, offsets: Offsets) -> None:
        if self.refuses:
            raise ReadError("COORDINATOR_NOT_AVAILABLE")
        self.committed.append((group, offsets))

    def record_bytes(self, topics: Any) -> dict[Partition, float]:
        return {}

    def ends(self, partitions: Any, at: str) -> Offsets:
        if at == "earliest":
            return dict.fromkeys(partitions, self.start)
        self.end += self.grows_by
        return dict.fromkeys(partitions, self.end)


def stream(**given: str) -> tuple[KafkaliteStreamReader, Growing]:
    """Return the reader of a new query, and its cluster."""
    needed = {"kafka.bootstrap.servers": "x:1", "subscribe": "a"}
    options = parse_read({**needed, **given}, stream=True)
    cluster = Growing(options)
    return KafkaliteStreamReader(options, ["value"], cluster=cluster), cluster


def plain(told: dict[str, Any]) -> dict[str, Any]:
    """Return offsets without notes."""
    return to_json(from_json(told))


def read(reader: KafkaliteStreamReader, start: Any, end: Any) -> list[tuple[int, int, int]]:
    """Return partition, first and end offset of what a micro-batch reads."""
    tasks = reader.partitions(start, end)
    return [(one.partition, one.start, one.end) for task in tasks for one in task.ranges]


def test_where_a_stream_begins_does_not_move_while_records_come() -> None:
    reader, _ = stream()
    first = reader.initialOffset()
    assert first == reader.initialOffset() == {"a": {"0": 80}}


def test_the_end_of_the_first_micro_batch_records_where_the_query_begins() -> None:
    reader, _ = stream(startingOffsets="earliest")
    first = reader.initialOffset()
    end = reader.latestOffset(first)
    assert (plain(end), notes_of(end).began) == ({"a": {"0": 80}}, {("a", 0): 0})
    assert read(reader, first, end) == [(0, 0, 80)]
    second = reader.latestOffset(end)
    assert plain(second) == {"a": {"0": 90}}
    assert notes_of(second) == ({"a": "first"}, None)
    assert read(reader, end, second) == [(0, 80, 90)]


def test_tasks_know_the_ids_of_the_topics_that_were_planned() -> None:
    # The records of a topic that was created again meanwhile were read, and later once more.
    reader, cluster = stream(startingOffsets="earliest")
    first = reader.initialOffset()
    end = reader.latestOffset(first)
    cluster.id = "second"
    tasks = reader.partitions(first, end)
    assert [task.topic_ids for task in tasks] == [{"a": "first"}]


def test_a_stream_that_has_nothing_new_after_its_first_micro_batch_tells_the_same_text() -> None:
    reader, cluster = stream(startingOffsets="earliest")
    end = reader.latestOffset(reader.initialOffset())
    cluster.end -= 10
    assert json.dumps(reader.latestOffset(end)) == json.dumps(end)


@pytest.mark.parametrize("starts", ["earliest", "latest", '{"a": {"0": -2}}', '{"a": {"0": -1}}'])
def test_a_first_micro_batch_that_is_replayed_begins_where_it_began(starts: str) -> None:
    # It began at the place of the options after the restart. Lost records were skipped without an
    # error, and so were new records of a partition that begins at its end.
    reader, _ = stream(startingOffsets=starts)
    first = reader.initialOffset()
    planned = reader.latestOffset(first)
    ranges = read(reader, first, planned)
    assert ranges[0][2] > ranges[0][1]
    # Another process, later: both ends of the log are others.
    again, cluster = stream(startingOffsets=starts)
    cluster.start, cluster.end = 50, 500
    assert read(again, again.initialOffset(), planned) == ranges
    after = again.latestOffset(planned)
    assert read(again, planned, after) == [(0, ranges[0][2], cluster.end)]


def test_a_first_micro_batch_is_replayed_though_its_topic_has_a_partition_more_by_then() -> None:
    # The options name the partitions that there were: the restart was refused.
    reader, _ = stream(startingOffsets='{"a": {"0": 5}}')
    first = reader.initialOffset()
    planned = reader.latestOffset(first)
    again, cluster = stream(startingOffsets='{"a": {"0": 5}}')
    cluster.count, cluster.end = 2, 500
    assert read(again, again.initialOffset(), planned) == read(reader, first, planned)
    after = again.latestOffset(planned)
    assert plain(after) == {"a": {"0": cluster.end, "1": 0}}


def test_a_new_query_whose_options_leave_a_partition_out_is_refused() -> None:
    reader, cluster = stream(startingOffsets='{"a": {"0": 5}}')
    cluster.count = 2
    with pytest.raises(OptionError, match="leaves out a-1"):
        reader.latestOffset(reader.initialOffset())


def checkpoint_of_sparks_own(place: Path, **starts: str) -> str:
    """Write what Spark's own connector keeps of the start of each source."""
    for source, told in starts.items():
        path = place / "sources" / source.removeprefix("source_") / "0"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"\0v1\n" + told.encode())
    return str(place)


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_a_first_micro_batch_of_sparks_own_connector_is_replayed_from_where_it_began(
    tmp_path: Path, form: str
) -> None:
    # The checkpoint was taken over in the middle of its first micro-batch, whose rows were lost.
    place = checkpoint_of_sparks_own(
        tmp_path, source_0='{"b":{"0":7}}', source_1='{"a":{"0":12,"1":3}}'
    )
    reader, _ = stream(checkpointLocation=form.format(place))
    planned = {"a": {"0": 80, "1": 20}}
    assert read(reader, reader.initialOffset(), planned) == [(0, 12, 80), (1, 3, 20)]


def test_a_checkpoint_whose_sources_do_not_say_where_the_query_began_is_refused(
    tmp_path: Path,
) -> None:
    two = checkpoint_of_sparks_own(
        tmp_path / "two", source_0='{"a":{"0":7}}', source_1='{"a":{"0":12}}'
    )
    new = checkpoint_of_sparks_own(tmp_path / "new", source_0='{"a":{"0":7}}')
    (tmp_path / "new/sources/0/0").write_bytes(b"\0v2\nsomething else")
    for place, says in [
        (two, "several sources"),
        (new, "version v2"),
        ("hdfs://there/checkpoint", "no folder"),
        (str(tmp_path / "nowhere"), "no folder"),
    ]:
        reader, _ = stream(checkpointLocation=place)
        with pytest.raises(ReadError, match=says):
            reader.partitions(reader.initialOffset(), {"a": {"0": 80}})


@pytest.mark.parametrize(
    ("starts", "log_start", "ranges"),
    [
        ("earliest", 0, [(0, 0, 80)]),
        ('{"a": {"0": 12}}', 50, [(0, 12, 80)]),
        ("earliest", 50, None),
        ("latest", 0, None),
    ],
)
def test_a_first_micro_batch_without_a_recorded_start_is_replayed_only_where_it_is_known(
    starts: str, log_start: int, ranges: list[tuple[int, int, int]] | None
) -> None:
    reader, cluster = stream(startingOffsets=starts)
    cluster.start = log_start
    first = reader.initialOffset()
    if ranges is None:
        with pytest.raises(ReadError, match=r"where a-0 began is not known.*checkpointLocation"):
            reader.partitions(first, {"a": {"0": 80}})
    else:
        assert read(reader, first, {"a": {"0": 80}}) == ranges


@pytest.mark.parametrize("how", ["losing", "checkpoint"])
def test_a_first_micro_batch_that_recorded_no_start_goes_on_where_the_options_say(
    tmp_path: Path, how: str
) -> None:
    # As an earlier version of this connector left it: it kept no start anywhere.
    given = {"failOnDataLoss": "false"} if how == "losing" else {}
    given |= {"checkpointLocation": str(tmp_path)} if how == "checkpoint" else {}
    reader, cluster = stream(startingOffsets="earliest", **given)
    cluster.start = 50
    assert read(reader, reader.initialOffset(), {"a": {"0": 80}}) == [(0, 50, 80)]


def test_what_comes_after_the_ends_were_pinned_fails_no_query_from_the_latest() -> None:
    reader, cluster = stream()
    reader.prepareForTriggerAvailableNow()
    cluster.count = 2
    first = reader.initialOffset()
    assert first == {"a": {"0": 80}}
    end = reader.latestOffset(first)
    assert from_json(end) == from_json(first)
    assert reader.latestOffset(end) == end


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
    assert from_json(begun) == {("a", 0): 80, ("a", 1): 80}
    cluster.count = left
    assert plain(reader.latestOffset(begun)) == ({"a": {"0": 80}} if left else {})


@pytest.mark.parametrize("may_lose", [False, True])
@pytest.mark.parametrize("end", [40, 80, 500])
def test_a_topic_created_again_while_its_query_does_not_run_is_noticed_however_long_it_is(
    end: int, may_lose: bool
) -> None:
    # A checkpoint had names alone: a longer topic of another life was read from the middle.
    given = {"failOnDataLoss": str(not may_lose).lower()}
    reader, _ = stream(startingOffsets="earliest", **given)
    finished = reader.latestOffset(reader.initialOffset())
    unfinished = reader.latestOffset(finished)
    for begun, replayed in ((finished, None), (finished, unfinished)):
        again, cluster = stream(startingOffsets="earliest", **given)
        cluster.id, cluster.end = "second", end - 10
        if not may_lose:
            with pytest.raises(ReadError, match="a was deleted and created again"):
                again.partitions(begun, replayed) if replayed else again.latestOffset(begun)
            continue
        if replayed:
            assert read(again, begun, replayed) == []
            begun = replayed
        after = again.latestOffset(begun)
        assert read(again, begun, after) == []
        assert read(again, after, again.latestOffset(after)) == [(0, 0, cluster.end)]
        assert notes_of(after).ids == {"a": "second"}


def test_the_first_micro_batch_of_a_topic_created_again_is_not_replayed() -> None:
    reader, _ = stream(startingOffsets="earliest")
    planned = reader.latestOffset(reader.initialOffset())
    again, cluster = stream(startingOffsets="earliest")
    cluster.id = "second"
    with pytest.raises(ReadError, match="a was deleted and created again"):
        again.partitions(again.initialOffset(), planned)


def test_a_topic_created_again_that_grew_past_what_was_read_fails_the_query() -> None:
    reader, cluster = stream()
    begun = reader.latestOffset(reader.initialOffset())
    begun = reader.latestOffset(begun)
    cluster.id = "second"
    with pytest.raises(ReadError, match=r"a was deleted and created again.*failOnDataLoss"):
        reader.latestOffset(begun)


def test_a_topic_created_again_is_read_from_its_first_record_if_records_may_be_lost() -> None:
    reader, cluster = stream(failOnDataLoss="false")
    begun = reader.latestOffset(reader.initialOffset())
    begun = reader.latestOffset(begun)
    cluster.id = "second"
    again = reader.latestOffset(begun)
    assert read(reader, begun, again) == []
    assert read(reader, again, reader.latestOffset(again)) == [(0, 0, 120)]


def test_a_topic_created_again_after_the_ends_were_pinned_is_read_to_its_own_end() -> None:
    reader, cluster = stream(failOnDataLoss="false", startingOffsets='{"a": {"0": 0}}')
    first, some = reader.initialOffset(), SimpleNamespace(max_rows=30)
    reader.prepareForTriggerAvailableNow()
    begun = reader.latestOffset(first, some)
    cluster.id = "second"
    cluster.end = 10
    again = reader.latestOffset(begun, some)
    assert read(reader, begun, again) == []
    assert read(reader, again, reader.latestOffset(again)) == [(0, 0, 20)]


def test_a_topic_created_again_with_fewer_partitions_than_were_pinned_is_read() -> None:
    """Its ends were asked for partitions that are gone, and the query failed."""

    class Smaller(Growing):
        def ends(self, partitions: Any, at: str) -> Offsets:
            if len(partitions) > self.count:
                raise MissingError("UNKNOWN_TOPIC_OR_PARTITION")
            return super().ends(partitions, at)

    needed = {"kafka.bootstrap.servers": "x:1", "subscribe": "a", "failOnDataLoss": "false"}
    start = {"startingOffsets": '{"a": {"0": 0, "1": 0}}'}
    options = parse_read({**needed, **start}, stream=True)
    cluster = Smaller(options)
    cluster.count = 2
    reader = KafkaliteStreamReader(options, ["value"], cluster=cluster)
    first, some = reader.initialOffset(), SimpleNamespace(max_rows=30)
    reader.prepareForTriggerAvailableNow()
    begun = reader.latestOffset(first, some)
    cluster.id = "second"
    cluster.count = 1
    cluster.end = 10
    again = reader.latestOffset(begun, some)
    assert read(reader, begun, again) == []
    last = reader.latestOffset(again)
    assert read(reader, again, last) == [(0, 0, 20)]
    assert plain(reader.latestOffset(last)) == {"a": {"0": 20}}


@pytest.mark.parametrize("ids", [(None, None), (None, "first"), ("first", None)])
def test_a_topic_without_an_id_is_taken_for_the_same(ids: tuple[Any, Any]) -> None:
    reader, cluster = stream()
    cluster.id = ids[0]
    begun = reader.latestOffset(reader.initialOffset())
    begun = reader.latestOffset(begun)
    cluster.id = ids[1]
    assert plain(reader.latestOffset(begun)) == {"a": {"0": 110}}


def test_topics_are_asked_for_their_ids_only_when_an_end_moved() -> None:
    reader, cluster = stream()
    begun = reader.latestOffset(reader.initialOffset())
    begun = reader.latestOffset(begun)
    cluster.id = "second"
    cluster.end -= 10
    assert reader.latestOffset(begun) == begun


def test_a_finished_micro_batch_is_committed_when_the_next_is_asked_for() -> None:
    # It was committed when the next one began: a query that has caught up always showed lag.
    reader, cluster = stream(commitOffsetsToGroup="true", **{"kafka.group.id": "g"})
    first = reader.latestOffset(reader.initialOffset())
    assert cluster.committed == []
    cluster.end -= 10
    assert reader.latestOffset(first) == first
    cluster.end -= 10
    assert reader.latestOffset(first) == first
    assert cluster.committed == [("g", {("a", 0): 90})]
    second = reader.latestOffset(first)
    reader.commit(first)
    assert len(cluster.committed) == 1
    reader.latestOffset(second)
    assert cluster.committed[1:] == [("g", {("a", 0): 100})]


def test_a_group_that_refuses_a_commit_is_left_alone_for_a_while() -> None:
    now = 0.0
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "a", "kafka.group.id": "g"}
    options = parse_read({**given, "commitOffsetsToGroup": "true"}, stream=True)
    cluster = Growing(options)
    reader = KafkaliteStreamReader(
        options, ["value"], cluster=cluster, clock=lambda: now, sleep=lambda seconds: None
    )
    end = reader.latestOffset(reader.initialOffset())
    cluster.refuses = True
    reader.latestOffset(end)
    cluster.refuses = False
    now = 9.0
    reader.latestOffset(end)
    assert cluster.committed == []
    now = 11.0
    reader.latestOffset(end)
    assert cluster.committed == [("g", from_json(end))]


def test_spark_4_1_reads_partitions_that_came_meanwhile_in_its_first_micro_batch() -> None:
    # It may run one micro-batch only, and tells where the checkpoint ends by an empty range.
    reader, cluster = stream()
    cluster.count = 2
    checkpoint = {"a": {"0": 30}}
    assert reader.partitions(checkpoint, checkpoint) == []
    end = reader.latestOffset()
    assert read(reader, checkpoint, end) == [(0, 30, 80), (1, 0, 80)]
    cluster.end -= 10
    assert plain(reader.latestOffset()) == end


def test_a_topic_that_is_made_again_and_ends_where_it_did_is_noticed_without_a_new_record() -> None:
    """Its records were not read before one more came: ids were asked for when an end moved."""
    needed = {"kafka.bootstrap.servers": "x:1", "subscribe": "a", "startingOffsets": "earliest"}
    seconds = [0.0]
    for fails in ("true", "false"):
        options = parse_read({**needed, "failOnDataLoss": fails}, stream=True)
        cluster, seconds[0] = Growing(options), 0.0
        reader = KafkaliteStreamReader(
            options, ["value"], clock=lambda: seconds[0], cluster=cluster, sleep=lambda _: None
        )
        cluster.grows_by = 0
        end = reader.latestOffset(reader.initialOffset())
        assert plain(end) == {"a": {"0": 70}}
        cluster.id = "second"
        assert reader.latestOffset(end) == end
        seconds[0] = 2.0
        if fails == "true":
            with pytest.raises(ReadError, match="a was deleted and created again"):
                reader.latestOffset(end)
            continue
        again = reader.latestOffset(end)
        assert plain(again) == {"a": {"0": 0}}
        assert read(reader, again, reader.latestOffset(again)) == [(0, 0, 70)]


def batch(monkeypatch: pytest.MonkeyPatch, cluster_of: type[Growing]) -> KafkaliteReader:
    """Return the reader of a batch, which plans with such a cluster."""
    monkeypatch.setattr("kafkalite_spark.reader.Cluster", cluster_of)
    options = parse_read({"kafka.bootstrap.servers": "x:1", "subscribe": "a"}, stream=False)
    return KafkaliteReader(options, ["value"])


def test_a_batch_reads_the_topic_that_it_was_planned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tasks read whatever topic had the name when they ran."""
    monkeypatch.setattr(Growing, "close", lambda _: None)
    (task,) = batch(monkeypatch, Growing).partitions()
    assert task.topic_ids == {"a": "first"}


def test_a_topic_that_is_made_again_while_a_batch_is_planned_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Renewed(Growing):
        """A topic that is made again after each question for its id."""

        def topic_ids(self, topics: Any) -> dict[str, str | None]:
            self.id = f"after {self.id}"
            return super().topic_ids(topics)

        def close(self) -> None:
            """Have nothing to close."""

    with pytest.raises(ReadError, match="a was deleted and created again"):
        batch(monkeypatch, Renewed).partitions()
