"""Recordings: the requests of a test run, each with its outcome."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

import kafkalite
from kafkalite.errors import IllegalStateError, InvalidArgumentError
from kafkalite.recording import RecordedRequest, Recording
from tests.harness.kafka_python import DEPRECATED, KafkaProducer
from tests.harness.openapi import flaws
from tests.harness.process import PATIENCE_S
from tests.unit.test_admin_api import FILE

pytestmark = pytest.mark.filterwarnings(DEPRECATED)


@pytest.fixture(scope="module")
def broker() -> Iterator[kafkalite.Broker]:
    """One broker for all tests; each has a client id and a topic of its own."""
    config = {"group.initial.rebalance.delay.ms": 0}
    with kafkalite.Broker(admin_port=0, config=config) as broker:
        yield broker


@pytest.fixture
def name(broker: kafkalite.Broker, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the test, of its topic, its client and its group; its faults end with it."""
    name = str(request.node.name)
    with kafkalite.AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(name, partitions=2)
    yield name
    broker.faults.clear()


def send(broker: kafkalite.Broker, name: str, count: int, **keys: Any) -> None:
    """Write records to partition 1 with a client of this name, each in a request of its own."""
    usual = {"bootstrap.servers": broker.bootstrap_servers, "client.id": name, "linger.ms": 0}
    producer = Producer(usual | keys)
    for value in range(count):
        producer.produce(name, str(value).encode(), partition=1)
        assert producer.flush(PATIENCE_S) == 0


def recorded(
    recording: Recording, is_meant: Callable[[RecordedRequest], bool]
) -> list[RecordedRequest]:
    """The requests of a kind, once there is one."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := [one for one in recording.requests if is_meant(one)]):
        assert time.monotonic() < deadline, "the request does not come"
        time.sleep(0.01)
    return found


def test_a_recording_has_each_request_with_its_outcome(broker: kafkalite.Broker, name: str) -> None:
    send(broker, name, 1)
    with broker.record(name) as recording:
        fault = broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", client_id=name, on_call=2)
        before_ms = time.time_ns() // 1_000_000
        send(broker, name, 3)
    # What comes after its end is not in it.
    send(broker, name, 1)
    produced = [one for one in recording.requests if one.api == "Produce"]
    assert len(produced) == 4
    assert [bool(one.errors) for one in produced] == [False, True, False, False]
    failed = produced[1]
    (error,) = failed.errors
    assert (error.topic, error.partition) == (name, 1)
    assert (error.code, error.error) == (6, "NOT_LEADER_OR_FOLLOWER")
    assert [one.faults for one in produced] == [[], [fault.id], [], []]
    for one in produced:
        assert one.client_id == name
        assert one.topics == {name: [1]}
        assert one.outcome == "answered"
        assert before_ms <= one.at_ms <= time.time_ns() // 1_000_000
        assert one.handler_ms is not None
        assert one.waited_ms is not None
        parts = one.queue_ms + one.handler_ms + one.waited_ms
        assert one.total_ms == pytest.approx(parts, abs=0.001)
    assert len({one.connection_id for one in produced}) == 1
    assert len({one.correlation_id for one in produced}) == 4
    numbers = [one.number for one in recording.requests]
    assert numbers == sorted(set(numbers))
    assert {"ApiVersions", "Metadata"} <= {one.api for one in recording.requests}
    assert recording.dropped == 0


def test_a_recording_of_a_group_has_its_members(broker: kafkalite.Broker, name: str) -> None:
    send(broker, name, 1)
    with broker.record(name) as recording:
        keys = {"bootstrap.servers": broker.bootstrap_servers, "client.id": name}
        keys |= {"group.id": name, "auto.offset.reset": "earliest"}
        reader = Consumer({**keys, "enable.auto.commit": False})
        reader.subscribe([name])
        message = reader.poll(PATIENCE_S)
        assert message is not None
        assert message.value() == b"0"
        reader.commit(asynchronous=False)
        reader.close()
    of_group = [one for one in recording.requests if one.group is not None]
    assert {one.group for one in of_group} == {name}
    apis = [one.api for one in of_group]
    assert apis.index("FindCoordinator") < apis.index("JoinGroup") < apis.index("SyncGroup")
    (committed,) = [one for one in of_group if one.api == "OffsetCommit"]
    assert committed.topics == {name: [1]}
    assert committed.member
    fetched = [one for one in recording.requests if one.api == "Fetch"]
    assert any(one.topics.get(name) for one in fetched)
    assert all(not one.errors for one in fetched)


def test_a_request_without_an_answer_is_open(broker: kafkalite.Broker, name: str) -> None:
    with (
        broker.record(name, api="Produce") as recording,
        broker.faults.blackhole(name, api="Produce") as fault,
    ):
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, client_id=name, linger_ms=0
        )
        sent = producer.send(name, b"v", partition=1)
        (swallowed,) = recorded(recording, lambda one: bool(one.faults))
        assert swallowed.outcome == "open"
        assert swallowed.faults == [fault.id]
        assert (swallowed.handler_ms, swallowed.waited_ms, swallowed.total_ms) == (None,) * 3
        fault.remove()
        # The connection closes, and the client sends the records again.
        assert sent.get(timeout=PATIENCE_S).offset == 0
        producer.close()
    (first, *_, last) = recording.requests
    assert (first.outcome, last.outcome) == ("closed", "answered")
    assert {one.api for one in recording.requests} == {"Produce"}


def test_a_produce_without_acks_is_silent(broker: kafkalite.Broker, name: str) -> None:
    with broker.record(name, api="Produce") as recording:
        send(broker, name, 1, acks=0)
        (one,) = recorded(recording, lambda one: one.outcome == "silent")
    assert one.topics == {name: [1]}


def test_a_recording_keeps_the_newest_requests(broker: kafkalite.Broker, name: str) -> None:
    with broker.record(name, api="Produce", limit=3) as recording:
        send(broker, name, 5)
        kept = recording.requests
        assert recording.dropped == 2
    assert len(kept) == 3
    assert [one.number for one in kept] == [one.number for one in recording.requests]
    assert recording.dropped == 2


def test_two_recordings_at_once_have_the_same_requests(broker: kafkalite.Broker, name: str) -> None:
    with broker.record(name) as outer:
        send(broker, name, 1)
        with broker.record(name) as inner:
            send(broker, name, 1)
    numbers = [one.number for one in inner.requests]
    assert numbers
    assert numbers == [one.number for one in outer.requests][-len(numbers) :]
    assert len(outer.requests) > len(numbers)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"api": "Produced"}, "Produced"),
        ({"limit": 0}, "limit is 0"),
        ({"limit": 100_001}, "limit is 100001"),
    ],
)
def test_a_recording_without_meaning_is_refused(
    broker: kafkalite.Broker, wanted: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        broker.record(**wanted)


def test_recordings_end_with_their_broker() -> None:
    with kafkalite.Broker(topics=["t"]) as broker:
        recording = broker.record()
        send(broker, "t", 1) if broker.expect("t", 0) else None
        broker.stop()
        with pytest.raises(IllegalStateError):
            _ = recording.requests


def asked(url: str, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
    """The status and the answer of the admin API."""
    request = urllib.request.Request(f"{url}/api/v1{path}", data=body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def checked(url: str, method: str, path: str, described: str, body: bytes | None = None) -> Any:
    """An answer that is as the file says."""
    status, told = asked(url, method, path, body)
    schema = FILE["paths"][described][method.lower()]["responses"][str(status)]
    assert flaws(told, schema["content"]["application/json"]["schema"], FILE) == []
    return told


def test_clients_of_any_language_record_over_http() -> None:
    with kafkalite.Broker(topics={"t": 2}, in_process=False, admin_port=0) as broker:
        url = broker.admin_url
        assert url is not None
        wanted = json.dumps({"client_id": "t", "api": "Produce"}).encode()
        told = checked(url, "POST", "/recordings", "/recordings", wanted)
        path = f"/recordings/{told['id']}"
        send(broker, "t", 5)
        rows, after = [], 0
        for _ in range(3):
            page = checked(url, "GET", f"{path}?limit=2&after={after}", "/recordings/{id}")
            rows += page["rows"]
            after = page["next"]
        assert after is None
        assert [row["api"] for row in rows] == ["Produce"] * 5
        assert {row["topics"][0]["name"] for row in rows} == {"t"}
        stopped = checked(url, "POST", f"{path}/stop", "/recordings/{id}/stop", b"{}")
        assert (stopped["recording"], stopped["requests"]) == (False, 5)
        send(broker, "t", 1)
        listed = checked(url, "GET", "/recordings", "/recordings")["recordings"]
        assert listed == [stopped]
        assert checked(url, "DELETE", path, "/recordings/{id}") == stopped
        assert asked(url, "GET", path)[0] == 404
        # Python uses the same.
        with broker.record("t") as recording:
            send(broker, "t", 1)
        assert "Produce" in {one.api for one in recording.requests}
