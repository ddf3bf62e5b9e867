"""Fetch, fetch sessions, ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

import uuid
from typing import Any

from tests.conformance.differential.registry import case, each
from tests.harness.patience import eventually
from tests.harness.requests import delete, epoch_end, zstd_batch
from tests.harness.session import BASE_MS, Session
from tests.harness.wire.batches import batch_heads, simple


def seen(answer: dict[str, Any]) -> Any:
    """A fetch answer with the heads of its batches instead of their bytes."""
    session = answer.pop("SessionId", 0)
    for topic in answer["Responses"]:
        topic.pop("Topic", None)
        for part in topic["Partitions"]:
            part["Records"] = batch_heads(part["Records"])
            # A null list and an empty one say the same to every client.
            part["AbortedTransactions"] = part["AbortedTransactions"] or []
    return {"session": session != 0, **answer}


@each(range(4, 19))
def fetch_is_served_in_every_version(s: Session, version: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    return seen(s.fetch(topic, 0, version=version))


OFFSETS = {
    "at the start": 0,
    "inside a batch": 4,
    "at a batch": 6,
    "at the last record": 8,
    "at the end": 9,
    "beyond the end": 10,
    "far beyond": 1 << 40,
    "negative": -1,
    "very negative": -(1 << 40),
}


@each(OFFSETS)
def fetch_at_an_offset(s: Session, offset: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    return seen(s.fetch(topic, offset))


@each({"below the start": 2, "at the start": 5, "inside": 7})
def fetch_after_records_were_deleted(s: Session, offset: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    delete(s, topic, 5)
    return seen(s.fetch(topic, offset))


@case
def fetch_of_an_unknown_topic(s: Session) -> Any:
    return seen(s.fetch(s.name(), 0))


@case
def fetch_of_an_unknown_partition(s: Session) -> Any:
    return seen(s.fetch(s.topic(), 0, partition=9))


@each({"random": uuid.UUID(int=77), "zero": uuid.UUID(int=0)})
def fetch_of_an_unknown_topic_id(s: Session, topic_id: uuid.UUID) -> Any:
    part = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1000}
    asked = [{"TopicId": topic_id, "Partitions": [part]}]
    return seen(s.call("Fetch", 13, MaxWaitMs=0, MinBytes=0, Topics=asked))


@case
def fetch_of_a_deleted_topic_by_its_id(s: Session) -> Any:
    topic = s.topic()
    topic_id = s.topic_id(topic)
    s.call("DeleteTopics", 5, TopicNames=[topic], TimeoutMs=5000)
    eventually(lambda: s.metadata(topic)["ErrorCode"] == 3)
    s.settle()
    part = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1000}
    asked = [{"TopicId": topic_id, "Partitions": [part]}]
    return seen(s.call("Fetch", 13, MaxWaitMs=0, MinBytes=0, Topics=asked))


@each({"none": -1, "current": 0, "newer": 99, "odd": -5})
def fetch_with_a_leader_epoch(s: Session, epoch: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    return seen(s.fetch(topic, 0, part={"CurrentLeaderEpoch": epoch}))


@each({"same": (0, 3), "newer epoch": (4, 3), "beyond the end": (0, 20), "none": (-1, 3)})
def fetch_with_a_last_fetched_epoch(s: Session, where: tuple[int, int]) -> Any:
    topic = s.topic()
    s.fill(topic)
    return seen(s.fetch(topic, where[1], version=12, part={"LastFetchedEpoch": where[0]}))


@each({"zero": 0, "one": 1, "one batch": 90, "two batches": 200, "negative": -1})
def fetch_limited_by_its_max_bytes(s: Session, limit: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    answer = s.fetch(topic, 0, MaxBytes=limit)
    return seen(answer)


@each({"zero": 0, "one": 1, "one batch": 90, "two batches": 200, "negative": -1})
def fetch_limited_by_the_partitions_max_bytes(s: Session, limit: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    answer = s.fetch(topic, 0, part={"PartitionMaxBytes": limit})
    return seen(answer)


@case
def a_second_partition_gets_nothing_once_the_limit_is_used_up(s: Session) -> Any:
    topic = s.topic(2)
    s.fill(topic, partition=0)
    s.fill(topic, partition=1)
    parts = [{"Partition": i, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20} for i in range(2)]
    asked = [{"Topic": topic, "Partitions": parts}]
    return seen(s.call("Fetch", 11, MaxWaitMs=0, MinBytes=0, MaxBytes=10, Topics=asked))


@each({"enough": 1, "too much": 1 << 20})
def fetch_waits_for_its_min_bytes_and_then_answers(s: Session, minimum: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    return seen(s.fetch(topic, 3, MinBytes=minimum, MaxWaitMs=200))


@each([0, 1])
def fetch_under_both_isolation_levels(s: Session, level: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    return seen(s.fetch(topic, 0, IsolationLevel=level))


@each([4, 9, 10, 11])
def fetch_of_zstd_needs_version_ten(s: Session, version: int) -> Any:
    topic = s.topic()
    s.produce(topic, zstd_batch())
    return seen(s.fetch(topic, 0, version=version))


@each([5, 2_000_000])
def fetch_as_a_replica_that_does_not_exist(s: Session, replica: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    return seen(s.fetch(topic, 0, ReplicaId=replica))


@case
def a_fetch_session_tells_only_what_is_new(s: Session) -> Any:
    topic = s.topic(2)
    s.fill(topic)
    both = [{"Partition": i, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20} for i in range(2)]
    base = {"MaxWaitMs": 0, "MinBytes": 0}
    asked = [{"Topic": topic, "Partitions": both}]
    first = s.call("Fetch", 11, SessionId=0, SessionEpoch=0, Topics=asked, **base)
    session = first["SessionId"]
    steps = [seen(first)]
    moved = {"Partition": 0, "FetchOffset": 9, "PartitionMaxBytes": 1 << 20}
    moving = [{"Topic": topic, "Partitions": [moved]}]

    def step(epoch: int, **body: Any) -> None:
        answer = s.call("Fetch", 11, SessionId=session, SessionEpoch=epoch, **base, **body)
        steps.append({"same session": answer["SessionId"] == session, **seen(answer)})

    step(1, Topics=moving)
    step(2, Topics=[])
    s.fill(topic, 1, partition=1)
    step(3, Topics=[])
    step(4, Topics=[], ForgottenTopicsData=[{"Topic": topic, "Partitions": [1]}])
    s.fill(topic, 1, partition=1)
    step(5, Topics=[])
    step(9, Topics=[])
    step(6, Topics=[])
    step(-1, Topics=[])
    step(7, Topics=[])
    return steps


@each({"unknown": (12345, 1), "unknown at its start": (12345, 0), "zero at one": (0, 1),
       "unknown at its end": (12345, -1), "negative": (-5, 3)})  # fmt: skip
def a_fetch_session_that_was_not_opened(s: Session, ids: tuple[int, int]) -> Any:
    topic = s.topic()
    return seen(s.fetch(topic, 0, SessionId=ids[0], SessionEpoch=ids[1]))


@case
def a_session_by_name_may_not_go_on_by_id(s: Session) -> Any:
    topic = s.topic()
    first = s.fetch(topic, 0, version=12, SessionId=0, SessionEpoch=0)
    body = {"SessionId": first["SessionId"], "SessionEpoch": 1}
    return seen(s.fetch(topic, 0, version=13, **body))


# ListOffsets

FORMS = {
    "latest": -1,
    "earliest": -2,
    "max timestamp": -3,
    "earliest local": -4,
    "latest tiered": -5,
    "earliest pending upload": -6,
    "unknown form": -7,
    "zero": 0,
    "before all": BASE_MS - 1,
    "the first": BASE_MS,
    "inside a batch": BASE_MS + 4_000,
    "between two": BASE_MS + 4_001,
    "the last": BASE_MS + 8_000,
    "after all": BASE_MS + 8_001,
}


@each(FORMS)
def list_offsets_of_a_log(s: Session, timestamp: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    return s.list_offset(topic, timestamp, version=11)


@each(FORMS)
def list_offsets_of_an_empty_log(s: Session, timestamp: int) -> Any:
    return s.list_offset(s.topic(), timestamp, version=11)


@each(FORMS)
def list_offsets_after_records_were_deleted(s: Session, timestamp: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    delete(s, topic, 5)
    return s.list_offset(topic, timestamp, version=11)


@each(range(1, 12))
def list_offsets_is_served_in_every_version(s: Session, version: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    return [s.list_offset(topic, when, version=version) for when in (-1, -2, BASE_MS + 4_000)]


@each({"-3 in v6": (-3, 6), "-4 in v7": (-4, 7), "-5 in v8": (-5, 8), "-6 in v10": (-6, 10)})
def list_offsets_of_a_form_its_version_does_not_have(s: Session, ask: tuple[int, int]) -> Any:
    topic = s.topic()
    s.fill(topic)
    return s.list_offset(topic, ask[0], version=ask[1])


@case
def list_offsets_of_an_unknown_topic(s: Session) -> Any:
    return s.list_offset(s.name(), -1)


@case
def list_offsets_of_an_unknown_partition(s: Session) -> Any:
    return s.list_offset(s.topic(), -1, part={"PartitionIndex": 4})


@each({"current": 0, "newer": 99})
def list_offsets_with_a_leader_epoch(s: Session, epoch: int) -> Any:
    return s.list_offset(s.topic(), -1, part={"CurrentLeaderEpoch": epoch})


@case
def list_offsets_of_the_same_partition_twice(s: Session) -> Any:
    topic = s.topic()
    parts = [{"PartitionIndex": 0, "Timestamp": -1}, {"PartitionIndex": 0, "Timestamp": -2}]
    asked = [{"Name": topic, "Partitions": parts}]
    return s.call("ListOffsets", 9, ReplicaId=-1, Topics=asked)


@case
def list_offsets_finds_a_max_timestamp_that_is_not_last(s: Session) -> Any:
    topic = s.topic()
    for at in (5_000, 9_000, 1_000):
        s.produce(topic, simple(b"v", base_timestamp_ms=BASE_MS + at))
    return [s.list_offset(topic, -3), s.list_offset(topic, BASE_MS + 6_000)]


# OffsetForLeaderEpoch


@each([2, 3, 4])
def offset_for_leader_epoch_is_served_in_every_version(s: Session, version: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    return epoch_end(s, topic, 0, version=version)


@each([0, 1, 5, -1])
def offset_for_leader_epoch_of(s: Session, epoch: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    return epoch_end(s, topic, epoch)


@each({"current": 0, "newer": 99})
def offset_for_leader_epoch_with_a_current_epoch(s: Session, epoch: int) -> Any:
    return epoch_end(s, s.topic(), 0, current=epoch)


@case
def offset_for_leader_epoch_of_an_unknown_topic(s: Session) -> Any:
    return epoch_end(s, s.name(), 0)


@case
def offset_for_leader_epoch_of_an_empty_log(s: Session) -> Any:
    return epoch_end(s, s.topic(), 0)


# DeleteRecords


@each({"zero": 0, "inside a batch": 4, "the end": 9, "high watermark": -1, "beyond": 10,
       "negative": -2})  # fmt: skip
def delete_records_below(s: Session, offset: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    answer = delete(s, topic, offset)
    return answer, s.list_offset(topic, -2)


@case
def delete_records_never_moves_the_start_back(s: Session) -> Any:
    topic = s.topic()
    s.fill(topic)
    return delete(s, topic, 6), delete(s, topic, 2), s.list_offset(topic, -2)


@each(["compact", "compact,delete"])
def delete_records_of_a_compacted_topic(s: Session, policy: str) -> Any:
    topic = s.topic(cleanup_policy=policy)
    s.fill(topic)
    return delete(s, topic, 3)


@case
def delete_records_of_an_unknown_topic(s: Session) -> Any:
    return delete(s, s.name(), 0)


@case
def delete_records_of_an_unknown_partition(s: Session) -> Any:
    return delete(s, s.topic(), 0, partition=5)
