"""Fetch (1): what is read from where, how long it waits, and what a session leaves out."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.harness.process import Processes
from tests.harness.requests import delete, zstd_batch
from tests.harness.session import Session
from tests.harness.wire.batches import batch_heads, simple
from tests.harness.wire.versions import edges


def only(answer: dict[str, Any]) -> dict[str, Any]:
    """The one partition of an answer."""
    (topic,) = answer["Responses"]
    (part,) = topic["Partitions"]
    assert isinstance(part, dict)
    return part


def base_offsets(part: dict[str, Any]) -> list[int]:
    """The base offsets of the batches that came."""
    return [head[0] for head in batch_heads(part["Records"])]


@pytest.mark.parametrize("version", edges("Fetch"))
def test_records_are_read_in_version(s: Session, version: int) -> None:
    topic = s.topic()
    s.fill(topic)
    part = only(s.fetch(topic, 0, version=version))
    assert (part["ErrorCode"], part["HighWatermark"]) == (0, 9)
    assert base_offsets(part) == [0, 3, 6]


#: Where the log is 5 to 9 (three batches of three, of which five records are deleted).
OFFSETS: dict[str, tuple[int, int, list[int]]] = {
    "below the start": (2, 1, []),
    "at the start, inside a batch": (5, 0, [3, 6]),
    "at a batch": (6, 0, [6]),
    "at the last record": (8, 0, [6]),
    "at the end": (9, 0, []),
    "beyond the end": (10, 1, []),
    "far beyond": (1 << 60, 1, []),
    "negative": (-1, 1, []),
}


@pytest.mark.parametrize("version", [4, 11, 12])
@pytest.mark.parametrize("where", OFFSETS)
def test_an_offset_is_in_range_or_refused(s: Session, where: str, version: int) -> None:
    offset, error, found = OFFSETS[where]
    topic = s.topic()
    s.fill(topic)
    delete(s, topic, 5)
    part = only(s.fetch(topic, offset, version=version))
    assert (part["ErrorCode"], base_offsets(part)) == (error, found)


@pytest.mark.parametrize("version", [4, 11, 12])
def test_an_unknown_topic_is_refused_in_version(s: Session, version: int) -> None:
    assert only(s.fetch(s.name(), 0, version=version))["ErrorCode"] == 3


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_an_unknown_partition_is_refused_in_version(s: Session, version: int) -> None:
    assert only(s.fetch(s.topic(), 0, version=version, partition=9))["ErrorCode"] == 3


@pytest.mark.parametrize("version", [13, 18])
def test_an_unknown_topic_id_is_refused_in_version(s: Session, version: int) -> None:
    part = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1000}
    asked = [{"TopicId": uuid.UUID(int=77), "Partitions": [part]}]
    answer = s.call("Fetch", version, MaxWaitMs=0, MinBytes=0, Topics=asked)
    assert only(answer)["ErrorCode"] == 100


@pytest.mark.parametrize(("epoch", "error"), [(-1, 0), (0, 0), (99, 75)])
def test_the_leader_epoch_is_checked(s: Session, epoch: int, error: int) -> None:
    topic = s.topic()
    part = {"CurrentLeaderEpoch": epoch}
    assert only(s.fetch(topic, 0, part=part))["ErrorCode"] == error


@pytest.mark.parametrize(
    ("epoch", "offset", "diverges"), [(0, 3, False), (-1, 3, False), (0, 20, True)]
)
def test_a_last_fetched_epoch_that_is_not_ours_tells_where_ours_ends(
    s: Session, epoch: int, offset: int, diverges: bool
) -> None:
    topic = s.topic()
    s.fill(topic)
    part = only(s.fetch(topic, offset, version=12, part={"LastFetchedEpoch": epoch}))
    assert ("EndOffset" in part["DivergingEpoch"]) == diverges


@pytest.mark.parametrize("version", [4, 9, 10, 18])
def test_a_zstd_batch_of_a_producers_choice_is_read_in_version(s: Session, version: int) -> None:
    topic = s.topic()
    s.produce(topic, zstd_batch())
    assert base_offsets(only(s.fetch(topic, 0, version=version))) == [0]


@pytest.mark.parametrize("limit", [0, 1, 60])
def test_a_limit_below_one_batch_gives_the_whole_batch(s: Session, limit: int) -> None:
    topic = s.topic()
    s.fill(topic)
    part = only(s.fetch(topic, 0, MaxBytes=limit, part={"PartitionMaxBytes": limit}))
    assert base_offsets(part) == [0]


def test_the_second_partition_waits_when_the_first_used_up_the_limit(s: Session) -> None:
    topic = s.topic(2)
    for index in range(2):
        s.fill(topic, partition=index)
    parts = [{"Partition": i, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20} for i in range(2)]
    asked = [{"Topic": topic, "Partitions": parts}]
    answer = s.call("Fetch", 11, MaxWaitMs=0, MinBytes=0, MaxBytes=10, Topics=asked)
    found = answer["Responses"][0]["Partitions"]
    assert [base_offsets(part) for part in found] == [[0], []]


def test_a_waiting_fetch_is_answered_by_what_another_connection_appends(s: Session) -> None:
    topic = s.topic()
    part = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1000}
    asked = [{"Topic": topic, "Partitions": [part]}]
    waiting = s.another()
    waiting.send("Fetch", 11, {"MaxWaitMs": 15_000, "MinBytes": 1, "Topics": asked})
    s.produce(topic, simple(b"late"))
    assert base_offsets(only(waiting.receive("Fetch", 11))) == [0]


def test_a_waiting_fetch_is_answered_when_its_topic_is_deleted(s: Session) -> None:
    topic = s.topic()
    part = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1000}
    asked = [{"Topic": topic, "Partitions": [part]}]
    waiting = s.another()
    waiting.send("Fetch", 11, {"MaxWaitMs": 15_000, "MinBytes": 1, "Topics": asked})
    s.call("DeleteTopics", 5, TopicNames=[topic], TimeoutMs=1000)
    assert only(waiting.receive("Fetch", 11))["ErrorCode"] in (3, 6)


def test_a_fetch_that_nothing_answers_ends_after_its_wait(s: Session) -> None:
    part = only(s.fetch(s.topic(), 0, MinBytes=1, MaxWaitMs=50))
    assert (part["ErrorCode"], base_offsets(part)) == (0, [])


# Sessions


class Talk:
    """A fetch session of two partitions, opened by its first request."""

    def __init__(self, s: Session, version: int = 11) -> None:
        self.s, self.version, self.topic = s, version, s.topic(2)
        s.fill(self.topic)
        self.named: dict[str, Any] = {"Topic": self.topic}
        if version >= 13:
            self.named = {"TopicId": s.topic_id(self.topic)}
        first = self.ask(0, {0: 0, 1: 0}, session=0)
        self.id = first["SessionId"]
        self.first = first

    def ask(self, epoch: int, offsets: dict[int, int], **more: Any) -> dict[str, Any]:
        """One fetch of the session, which names these partitions only."""
        parts = [
            {"Partition": i, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
            for i, offset in offsets.items()
        ]
        topics = [{**self.named, "Partitions": parts}] if parts else []
        session = more.pop("session", None)
        return self.s.call(
            "Fetch", self.version, MaxWaitMs=0, MinBytes=0, Topics=topics, SessionEpoch=epoch,
            SessionId=self.id if session is None else session, **more,
        )  # fmt: skip

    def told(self, epoch: int, offsets: dict[int, int], **more: Any) -> list[int]:
        """The partitions that an answer without error speaks of."""
        answer = self.ask(epoch, offsets, **more)
        assert answer["ErrorCode"] == 0, answer
        return [part["PartitionIndex"] for one in answer["Responses"] for part in one["Partitions"]]


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
def test_a_session_tells_only_what_is_new_in_version(s: Session, version: int) -> None:
    talk = Talk(s, version)
    assert talk.id > 0
    assert talk.told(1, {0: 9}) == []
    assert talk.told(2, {}) == []
    s.fill(talk.topic, 1, partition=1)
    assert talk.told(3, {}) == [1]
    # An answer that the client did not move past is sent again.
    assert talk.told(4, {}) == [1]
    assert talk.told(5, {1: 3}) == []


def test_a_session_forgets_a_partition(s: Session) -> None:
    talk = Talk(s)
    gone = [{"Topic": talk.topic, "Partitions": [0]}]
    assert talk.told(1, {}, ForgottenTopicsData=gone) == []


def test_a_session_with_a_wrong_epoch_is_refused_and_goes_on(s: Session) -> None:
    talk = Talk(s)
    assert talk.ask(9, {})["ErrorCode"] == 71
    assert talk.told(1, {0: 9}) == []


def test_a_session_that_was_closed_is_not_found(s: Session) -> None:
    talk = Talk(s)
    assert talk.ask(-1, {})["ErrorCode"] == 0
    assert talk.ask(1, {})["ErrorCode"] == 70


@pytest.mark.parametrize(("session", "epoch"), [(12345, 1), (0, 1), (-5, 3)])
def test_a_session_that_was_not_opened_is_not_found(s: Session, session: int, epoch: int) -> None:
    answer = s.fetch(s.topic(), 0, SessionId=session, SessionEpoch=epoch)
    assert (answer["ErrorCode"], answer["Responses"]) == (70, [])


def test_a_session_opened_by_name_may_not_go_on_by_id(s: Session) -> None:
    topic = s.topic()
    first = s.fetch(topic, 0, version=12, SessionId=0, SessionEpoch=0)
    body = {"SessionId": first["SessionId"], "SessionEpoch": 1}
    assert s.fetch(topic, 0, version=13, **body)["ErrorCode"] == 106


def test_a_session_whose_last_partition_is_forgotten_is_closed(s: Session) -> None:
    talk = Talk(s)
    gone = [{"Topic": talk.topic, "Partitions": [0, 1]}]
    answer = talk.ask(1, {}, ForgottenTopicsData=gone)
    assert (answer["SessionId"], answer["Responses"]) == (0, [])
    assert talk.ask(2, {})["ErrorCode"] == 70


def test_a_waiting_session_is_woken_by_any_of_its_partitions(s: Session) -> None:
    talk = Talk(s)
    assert talk.told(1, {0: 9, 1: 0}) == []
    waiting = s.another()
    body = {"MaxWaitMs": 15_000, "MinBytes": 1, "SessionId": talk.id, "SessionEpoch": 2}
    waiting.send("Fetch", 11, body)
    s.produce(talk.topic, simple(b"late"), partition=1)
    assert base_offsets(only(waiting.receive("Fetch", 11))) == [0]


def test_a_waiting_session_gets_an_error_for_a_deleted_topic(s: Session) -> None:
    talk = Talk(s)
    assert talk.told(1, {0: 9, 1: 0}) == []
    waiting = s.another()
    body = {"MaxWaitMs": 15_000, "MinBytes": 1, "SessionId": talk.id, "SessionEpoch": 2}
    waiting.send("Fetch", 11, body)
    s.call("DeleteTopics", 5, TopicNames=[talk.topic], TimeoutMs=1000)
    (topic,) = waiting.receive("Fetch", 11)["Responses"]
    assert {part["ErrorCode"] for part in topic["Partitions"]} <= {3, 6}


def test_a_session_tells_that_the_log_starts_later(s: Session) -> None:
    talk = Talk(s)
    assert talk.told(1, {0: 9, 1: 0}) == []
    delete(s, talk.topic, 5)
    part = only(talk.ask(2, {}))
    assert (part["PartitionIndex"], part["LogStartOffset"]) == (0, 5)
    assert talk.told(3, {}) == []


# The cache of sessions


def cramped(processes: Processes, slots: int) -> Session:
    """A connection to a broker that remembers so many sessions."""
    words = ("--set", f"max.incremental.fetch.session.cache.slots={slots}")
    return Session(processes.serve("--profile", "dev", *words).ready, "cramped")


def opened(s: Session, topic: str, **more: Any) -> int:
    """The session that a full fetch opens; 0 is none."""
    answer = s.fetch(topic, 0, SessionId=0, SessionEpoch=0, **more)
    found: int = answer["SessionId"]
    return found


def go_on(s: Session, session: int, epoch: int) -> int:
    """The error of an incremental fetch."""
    answer = s.call(
        "Fetch", 11, MaxWaitMs=0, MinBytes=0, Topics=[], SessionId=session, SessionEpoch=epoch
    )
    error: int = answer["ErrorCode"]
    return error


def test_a_full_cache_opens_no_session_until_one_is_closed(processes: Processes) -> None:
    s = cramped(processes, 2)
    topic = s.topic()
    first, second = opened(s, topic), opened(s, topic)
    assert min(first, second) > 0
    assert first != second
    assert opened(s, topic) == 0
    assert [go_on(s, first, 1), go_on(s, second, 1)] == [0, 0]
    assert s.fetch(topic, 0, SessionId=first, SessionEpoch=-1)["ErrorCode"] == 0
    assert opened(s, topic) > 0
    assert [go_on(s, first, 2), go_on(s, second, 2)] == [70, 0]
    s.close()


def test_a_session_that_starts_again_keeps_its_slot(processes: Processes) -> None:
    s = cramped(processes, 1)
    topic = s.topic()
    first = opened(s, topic)
    again = s.fetch(topic, 0, SessionId=first, SessionEpoch=0)["SessionId"]
    assert again > 0
    assert go_on(s, again, 1) == 0
    s.close()


def test_a_follower_takes_the_slot_of_a_consumers_session(processes: Processes) -> None:
    s = cramped(processes, 1)
    topic = s.topic()
    consumers = opened(s, topic)
    followers = opened(s, topic, ReplicaId=7)
    assert followers > 0
    assert [go_on(s, consumers, 1), opened(s, topic)] == [70, 0]
    s.close()


def test_a_cache_of_no_slots_opens_no_session(processes: Processes) -> None:
    s = cramped(processes, 0)
    assert opened(s, s.topic()) == 0
    s.close()


@pytest.mark.parametrize("version", [7, 11, 12])
def test_a_session_lists_a_topic_that_was_deleted_in_version(s: Session, version: int) -> None:
    talk = Talk(s, version)
    assert talk.told(1, {0: 9}) == []
    s.call("DeleteTopics", 5, TopicNames=[talk.topic], TimeoutMs=1000)
    answer = talk.ask(2, {})
    codes = {part["ErrorCode"] for one in answer["Responses"] for part in one["Partitions"]}
    assert codes == {3}
