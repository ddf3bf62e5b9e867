"""What may overlap on one connection, and that answers leave in the order of the requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.requests import join
from tests.harness.session import Session
from tests.harness.wire.batches import batch_heads, simple
from tests.harness.wire.connection import request_frame


def waiting_fetch(topic: str, max_wait_ms: int = 15_000) -> dict[str, Any]:
    """A fetch that waits for a first record."""
    part = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1000}
    asked = [{"Topic": topic, "Partitions": [part]}]
    return {"MaxWaitMs": max_wait_ms, "MinBytes": 1, "Topics": asked}


def produce_body(topic: str, acks: int) -> dict[str, Any]:
    """A produce of one record."""
    data = [{"Name": topic, "PartitionData": [{"Index": 0, "Records": simple(b"v")}]}]
    return {"Acks": acks, "TimeoutMs": 1000, "TopicData": data}


def test_a_produce_passes_a_waiting_fetch_and_its_answer_follows_the_fetchs(s: Session) -> None:
    topic = s.topic()
    fetch = s.open.send("Fetch", 11, waiting_fetch(topic))
    produce = s.open.send("Produce", 9, produce_body(topic, -1))
    first, second = s.open.receive("Fetch", 11), s.open.receive("Produce", 9)
    assert (first["_correlation_id"], second["_correlation_id"]) == (fetch, produce)
    assert batch_heads(first["Responses"][0]["Partitions"][0]["Records"])[0][0] == 0


def test_anything_but_produce_waits_behind_a_waiting_fetch(s: Session) -> None:
    topic, made = s.topic(), s.name()
    s.open.send("Fetch", 11, waiting_fetch(topic))
    new = {"Name": made, "NumPartitions": 1, "ReplicationFactor": 1}
    s.open.send("CreateTopics", 4, {"Topics": [new], "timeoutMs": 1000})
    other = s.another()
    asked = {"Topics": [{"Name": made}], "AllowAutoTopicCreation": False}
    before = other.call("Metadata", 4, asked)["Topics"][0]["ErrorCode"]
    other.call("Produce", 9, produce_body(topic, 1))
    s.open.receive("Fetch", 11)
    created = s.open.receive("CreateTopics", 4)["Topics"][0]["ErrorCode"]
    assert (before, created) == (3, 0)


@pytest.mark.parametrize("acks", [1, -1])
def test_pipelined_produces_are_appended_and_answered_in_order(s: Session, acks: int) -> None:
    topic, count = s.topic(), 200
    body = produce_body(topic, acks)
    s.open.send_raw(b"".join(request_frame("Produce", 9, body, i) for i in range(count)))
    seen = []
    for _ in range(count):
        answer = s.open.receive("Produce", 9)
        part = answer["Responses"][0]["PartitionResponses"][0]
        seen.append((answer["_correlation_id"], part["ErrorCode"], part["BaseOffset"]))
    assert seen == [(i, 0, i) for i in range(count)]


def test_requests_of_many_kinds_are_answered_in_order(s: Session) -> None:
    topic = s.topic()
    sent: list[tuple[str, int, dict[str, Any]]] = [
        ("Fetch", 11, waiting_fetch(topic, 20)),
        ("Produce", 9, produce_body(topic, -1)),
        ("ApiVersions", 0, {}),
        ("Produce", 9, produce_body(topic, 1)),
        ("Metadata", 9, {"Topics": []}),
        ("Fetch", 11, waiting_fetch(topic)),
        ("ListOffsets", 9, {"ReplicaId": -1, "Topics": []}),
        ("FindCoordinator", 2, {"Key": "g", "KeyType": 0}),
    ]
    asked = [s.open.send(*one) for one in sent]
    assert [s.open.receive(api, version)["_correlation_id"] for api, version, _ in sent] == asked


def test_a_produce_with_acks_zero_takes_no_place_in_the_order(s: Session) -> None:
    topic = s.topic()
    s.open.send("Produce", 9, produce_body(topic, 0))
    second = s.open.send("Produce", 9, produce_body(topic, 1))
    s.open.send("Produce", 9, produce_body(topic, 0))
    last = s.open.send("ApiVersions", 0, {})
    got = [s.open.receive("Produce", 9), s.open.receive("ApiVersions", 0)]
    assert [one["_correlation_id"] for one in got] == [second, last]
    assert s.list_offset(topic, -1)["Offset"] == 3


def test_a_heartbeat_is_answered_while_a_fetch_waits_on_another_connection(s: Session) -> None:
    topic, group = s.topic(), s.name()
    joined = join(s, group, version=3)
    s.another().send("Fetch", 11, waiting_fetch(topic))
    who = {"GroupId": group, "GenerationId": joined["GenerationId"], "MemberId": joined["MemberId"]}
    assert s.call("Heartbeat", 3, **who)["ErrorCode"] in (0, 27)


def test_a_connection_that_goes_away_while_its_fetch_waits_harms_no_other(s: Session) -> None:
    topic = s.topic()
    gone = s.another()
    gone.send("Fetch", 11, waiting_fetch(topic))
    gone.close()
    assert s.produce(topic, simple(b"v"))["ErrorCode"] == 0
