"""Produce (0): which batches are appended, which are refused, and how."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.harness.patience import eventually
from tests.harness.requests import batch, changed, producer, zstd_batch
from tests.harness.session import Session
from tests.harness.wire import frames
from tests.harness.wire.batches import Batch, Record, simple
from tests.harness.wire.versions import edges

GOOD = simple(b"one", b"two")


def end(s: Session, topic: str) -> Any:
    """The log end offset of partition 0."""
    return s.list_offset(topic, -1)["Offset"]


@pytest.mark.parametrize("version", edges("Produce"))
def test_a_batch_is_appended_in_version(s: Session, version: int) -> None:
    topic = s.topic()
    answers = [s.produce(topic, GOOD, version=version) for _ in range(2)]
    assert [(one["ErrorCode"], one["BaseOffset"]) for one in answers] == [(0, 0), (0, 2)]
    assert end(s, topic) == 4


@pytest.mark.parametrize("version", [5, 8, 13])
def test_the_answer_tells_the_log_start_offset_in_version(s: Session, version: int) -> None:
    topic = s.topic()
    s.fill(topic)
    parts = [{"PartitionIndex": 0, "Offset": 5}]
    s.call("DeleteRecords", 2, Topics=[{"Name": topic, "Partitions": parts}], TimeoutMs=1000)
    assert s.produce(topic, GOOD, version=version)["LogStartOffset"] == 5


@pytest.mark.parametrize(
    ("acks", "error"), [(-1, 0), (1, 0), (2, 21), (-2, 21), (127, 21), (-32768, 21)]
)
def test_acks_are_known_or_refused(s: Session, acks: int, error: int) -> None:
    topic = s.topic()
    assert s.produce(topic, GOOD, acks=acks)["ErrorCode"] == error
    assert end(s, topic) == (0 if error else 2)


@pytest.mark.parametrize("version", edges("Produce"))
def test_acks_zero_appends_and_says_nothing_in_version(s: Session, version: int) -> None:
    topic = s.topic()
    topic_id = s.topic_id(topic)
    named = {"TopicId": topic_id} if version >= 13 else {"Name": topic}
    data = [{**named, "PartitionData": [{"Index": 0, "Records": GOOD}]}]
    s.open.send("Produce", version, {"Acks": 0, "TimeoutMs": 1000, "TopicData": data})
    # The next answer on the connection is that of the next request. A new replica is read when
    # its directory is committed; acks=0 does not wait for that.
    eventually(lambda: end(s, topic) == 2)


def test_acks_zero_closes_the_connection_on_an_error(s: Session) -> None:
    data = [{"Name": s.name(), "PartitionData": [{"Index": 0, "Records": GOOD}]}]
    s.open.send("Produce", 9, {"Acks": 0, "TimeoutMs": 1000, "TopicData": data})
    assert frames.is_closed(s.open)


#: Records of one partition, and the error for it.
REFUSED: dict[str, tuple[bytes, int]] = {
    "a wrong CRC": (changed(crc=12345), 2),
    "magic 0": (changed(magic=0), 87),
    "no batch at all": (b"", 87),
    "two batches": (GOOD + GOOD, 87),
    "half a batch": (GOOD[:40], 87),
    "a length too small": (changed(length=20), 2),
    "a length beyond the end": (changed(length=10_000), 87),
    "a count too high": (changed(count=3), 87),
    "a count of 2^31-1": (changed(count=2**31 - 1, last_offset_delta=2**31 - 2), 87),
    "a negative count": (changed(count=-1), 87),
    "no records": (Batch(()).encode(), 87),
    "a last offset delta too high": (changed(last_offset_delta=5), 87),
    "a base offset": (changed(base_offset=5), 87),
    "a control batch": (changed(attributes=0x20), 87),
    "bytes after the records": (changed(trailer=b"more"), 87),
    "a producer id without a sequence": (changed(producer_id=5, producer_epoch=0), 87),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_batch_is_refused_for(s: Session, what: str) -> None:
    records, error = REFUSED[what]
    topic = s.topic()
    assert s.produce(topic, records)["ErrorCode"] == error
    assert end(s, topic) == 0


@pytest.mark.parametrize("what", REFUSED)
def test_the_partition_beside_is_appended_to_despite(s: Session, what: str) -> None:
    topic = s.topic(2)
    parts = [{"Index": 0, "Records": REFUSED[what][0]}, {"Index": 1, "Records": GOOD}]
    data = [{"Name": topic, "PartitionData": parts}]
    answer = s.call("Produce", 9, Acks=-1, TimeoutMs=1000, TopicData=data)
    found = {one["Index"]: one for one in answer["Responses"][0]["PartitionResponses"]}
    assert found[0]["ErrorCode"] == REFUSED[what][1]
    assert (found[1]["ErrorCode"], found[1]["BaseOffset"]) == (0, 0)


@pytest.mark.parametrize(("version", "error"), [(3, 76), (6, 76), (7, 0), (8, 0), (9, 0), (13, 0)])
def test_zstd_needs_version_seven(s: Session, version: int, error: int) -> None:
    assert s.produce(s.topic(), zstd_batch(), version=version)["ErrorCode"] == error


@pytest.mark.parametrize(("size", "error"), [(100, 0), (2_000, 10)])
def test_max_message_bytes_bounds_a_batch(s: Session, size: int, error: int) -> None:
    topic = s.topic(max_message_bytes="1000")
    assert s.produce(topic, simple(b"x" * size))["ErrorCode"] == error


@pytest.mark.parametrize(("off_ms", "error"), [(0, 0), (-31_536_000_000, 0), (7_200_000, 32)])
def test_a_timestamp_may_not_be_far_ahead(s: Session, off_ms: int, error: int) -> None:
    now_ms = int(time.time() * 1000)
    answer = s.produce(s.topic(), changed(base_timestamp_ms=now_ms + off_ms))
    assert answer["ErrorCode"] == error
    assert [one["BatchIndex"] for one in answer["RecordErrors"]] == ([0, 1] if error else [])


@pytest.mark.parametrize(
    ("policy", "error"), [("delete", 0), ("compact", 87), ("compact,delete", 87)]
)
def test_a_keyless_record_is_refused_where_keys_are_compacted(
    s: Session, policy: str, error: int
) -> None:
    records = (Record(b"a", key=b"k"), Record(b"b"), Record(None, key=b"k"))
    answer = s.produce(s.topic(cleanup_policy=policy), Batch(records).encode())
    assert answer["ErrorCode"] == error
    assert [one["BatchIndex"] for one in answer["RecordErrors"]] == ([1] if error else [])


@pytest.mark.parametrize(
    ("version", "partition", "error"), [(3, 7, 3), (8, 7, 3), (9, -1, 3), (13, 7, 3)]
)
def test_an_unknown_partition_is_refused(
    s: Session, version: int, partition: int, error: int
) -> None:
    answer = s.produce(s.topic(), GOOD, version=version, partition=partition)
    assert (answer["ErrorCode"], answer["BaseOffset"]) == (error, -1)


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_an_unknown_topic_is_refused_in_version(s: Session, version: int) -> None:
    assert s.produce(s.name(), GOOD, version=version)["ErrorCode"] == 3


def test_an_unknown_topic_id_is_refused(s: Session) -> None:
    stranger = s.topic_id(s.topic())
    deleted = s.topic()
    gone = s.topic_id(deleted)
    s.call("DeleteTopics", 5, TopicNames=[deleted], TimeoutMs=1000)
    codes = [s.produce("", GOOD, version=13, topic_id=one)["ErrorCode"] for one in (stranger, gone)]
    assert codes == [0, 100]


TOP = 2**31 - 1
#: (epoch, base sequence, count) of each batch in turn, and (error, base offset) of each answer.
SEQUENCES: dict[str, tuple[list[tuple[int, int, int]], list[tuple[int, int]]]] = {
    "in order": ([(0, 0, 2), (0, 2, 3)], [(0, 0), (0, 2)]),
    "the last again": ([(0, 0, 2), (0, 2, 2), (0, 2, 2)], [(0, 0), (0, 2), (0, 2)]),
    "the first of five again": (
        [*((0, i, 1) for i in range(5)), (0, 0, 1)],
        [*((0, i) for i in range(5)), (0, 0)],
    ),
    "the first of six again": (
        [*((0, i, 1) for i in range(6)), (0, 0, 1)],
        [*((0, i) for i in range(6)), (45, -1)],
    ),
    "a gap": ([(0, 0, 1), (0, 5, 1), (0, 1, 1)], [(0, 0), (45, -1), (0, 1)]),
    "an overlap": ([(0, 0, 4), (0, 2, 4)], [(0, 0), (45, -1)]),
    "an old epoch": ([(1, 0, 1), (0, 1, 1)], [(0, 0), (47, -1)]),
    "a new epoch from zero": ([(0, 0, 1), (1, 0, 1)], [(0, 0), (0, 1)]),
    "a new epoch not from zero": ([(0, 0, 1), (1, 1, 1)], [(0, 0), (45, -1)]),
    "an unknown producer from anywhere": ([(0, 5, 1), (0, 6, 1)], [(0, 0), (0, 1)]),
    "past 2^31-1": ([(0, TOP - 1, 4), (0, 2, 1), (0, 2, 1)], [(0, 0), (0, 4), (0, 4)]),
}


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("what", SEQUENCES)
def test_sequences_are_kept(s: Session, what: str, acks: int) -> None:
    steps, outcomes = SEQUENCES[what]
    topic, (pid, _) = s.topic(), producer(s)
    answers = [s.produce(topic, batch(pid, *step), acks=acks) for step in steps]
    assert [(one["ErrorCode"], one["BaseOffset"]) for one in answers] == outcomes


def test_a_batch_sent_twice_is_in_the_log_once(s: Session) -> None:
    topic, (pid, epoch) = s.topic(), producer(s)
    for _ in range(3):
        s.produce(topic, batch(pid, epoch, 0, 2))
    assert end(s, topic) == 2


def test_log_append_time_is_answered(s: Session) -> None:
    before_ms = int(time.time() * 1000)
    answer = s.produce(s.topic(message_timestamp_type="LogAppendTime"), GOOD)
    assert answer["LogAppendTimeMs"] >= before_ms - 1


def test_the_groups_own_topic_takes_no_records_from_clients(s: Session) -> None:
    s.call("FindCoordinator", 2, Key="any", KeyType=0)
    assert s.produce("__consumer_offsets", GOOD)["ErrorCode"] == 17
