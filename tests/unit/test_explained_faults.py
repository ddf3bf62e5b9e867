"""What explanations say of faults that meet on one request, and of faults that strike no more."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import kafkalite
from kafkalite.explaining import Reason
from tests.harness.process import PATIENCE_S
from tests.harness.wire.batches import simple
from tests.harness.wire.connection import Connection, request_frame

#: As long as a client lets a request wait: longer than any test.
LONG_MS = 120_000
#: How long a fault holds a request, in ms.
HELD_MS = 50


class Asking(Connection):
    """A connection of a client with a name."""

    def __init__(self, broker: kafkalite.Broker, client_id: str) -> None:
        super().__init__(broker.bootstrap_servers, PATIENCE_S)
        self.broker = broker
        self.client_id = client_id

    def ask(self, api: str, version: int, body: dict[str, object]) -> None:
        """Send a request under the name of the client."""
        self.correlation_id += 1
        self.send_raw(request_frame(api, version, body, self.correlation_id, self.client_id))

    def produce(self, *topics: str) -> dict[str, int]:
        """Write a record to partition 0 of each topic; their errors."""
        data = [{"Index": 0, "Records": simple(b"v")}]
        rows = [{"Name": topic, "PartitionData": data} for topic in topics]
        self.ask("Produce", 9, {"Acks": -1, "TimeoutMs": 5_000, "TopicData": rows})
        told = self.receive("Produce", 9)["Responses"]
        return {one["Name"]: one["PartitionResponses"][0]["ErrorCode"] for one in told}

    def explained(self, kind: str) -> list[Reason]:
        """The reasons of a kind, once there are any."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            explanation = self.broker.explain(self.client_id)
            if found := list(explanation.of(kind)):
                return found
            assert time.monotonic() < deadline, f"no {kind}: {explanation}"
            time.sleep(0.01)


@pytest.fixture(scope="module")
def broker() -> Iterator[kafkalite.Broker]:
    """One broker for all tests."""
    config = {"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": 0}
    with kafkalite.Broker(topics={"t": 1, "u": 1}, config=config) as broker:
        yield broker


@pytest.fixture
def wire(broker: kafkalite.Broker, request: pytest.FixtureRequest) -> Iterator[Asking]:
    """A client with the name of the test; its faults end with it."""
    with Asking(broker, str(request.node.name)) as wire:
        yield wire
    broker.faults.clear()


@pytest.mark.parametrize("other", ["delay", "throttle"])
def test_an_error_of_a_fault_is_the_faults_whatever_else_struck(
    broker: kafkalite.Broker, wire: Asking, other: str
) -> None:
    """Only the last fault of a request was looked at: it said that the producer is fenced."""
    fault = broker.faults.error("Produce", "INVALID_PRODUCER_EPOCH", topic="t")
    broker.faults.add(other, api="Produce", ms=HELD_MS)
    assert wire.produce("t") == {"t": 47}
    [reason] = wire.explained("error_by_fault")
    assert reason.facts["fault"] == fault.id
    assert reason.todo == f"remove fault {fault.id}"
    assert "fenced" not in broker.explain(wire.client_id).kinds


def test_an_error_of_the_broker_is_not_the_faults(broker: kafkalite.Broker, wire: Asking) -> None:
    fault = broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic="t")
    for _ in range(2):
        assert wire.produce("t", "nix") == {"t": 6, "nix": 3}
    [reason] = wire.explained("error_by_fault")
    assert reason.facts["fault"] == fault.id
    assert [one["topic"] for one in reason.facts["partitions"]] == ["t"]
    [reason] = wire.explained("unknown_topic")
    assert [one["topic"] for one in reason.facts["partitions"]] == ["nix"]


def test_each_error_is_put_to_its_own_fault(broker: kafkalite.Broker, wire: Asking) -> None:
    faults = {
        topic: broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic)
        for topic in ("t", "u")
    }
    assert wire.produce("t", "u") == {"t": 6, "u": 6}
    reasons = wire.explained("error_by_fault")
    told = {one.facts["partitions"][0]["topic"]: one.facts["fault"] for one in reasons}
    assert told == {topic: fault.id for topic, fault in faults.items()}


def test_a_delay_that_is_over_holds_nothing(broker: kafkalite.Broker, wire: Asking) -> None:
    broker.faults.delay(HELD_MS, api="Fetch", side="before")
    parts = [{"Partition": 0, "FetchOffset": end_of_u(broker), "PartitionMaxBytes": 1_000}]
    topics = [{"Topic": "u", "Partitions": parts}]
    wire.ask("Fetch", 11, {"MaxWaitMs": LONG_MS, "MinBytes": 1, "Topics": topics})
    [reason] = wire.explained("waiting_for_bytes")
    assert reason.facts["left_ms"] > LONG_MS - PATIENCE_S * 1e3


def end_of_u(broker: kafkalite.Broker) -> int:
    """The end of ``u``-0."""
    with Connection(broker.bootstrap_servers, PATIENCE_S) as wire:
        parts = [{"PartitionIndex": 0, "Timestamp": -1}]
        topics = [{"Name": "u", "Partitions": parts}]
        answer = wire.call("ListOffsets", 5, {"ReplicaId": -1, "Topics": topics})
        return int(answer["Topics"][0]["Partitions"][0]["Offset"])


def test_a_spent_fault_is_not_to_be_removed(broker: kafkalite.Broker, wire: Asking) -> None:
    fault = broker.faults.error("Produce", "KAFKA_STORAGE_ERROR", topic="t", times=1)
    assert wire.produce("t") == {"t": 56}
    [reason] = wire.explained("error_by_fault")
    assert reason.facts["fault"] == fault.id
    assert reason.todo == "wait for the client to try again: the fault strikes no more"


def test_a_client_whose_throttled_answer_was_late_is_throttled(
    broker: kafkalite.Broker, wire: Asking
) -> None:
    fault = broker.faults.throttle(LONG_MS, api="Produce")
    broker.faults.delay(HELD_MS, api="Produce")
    assert wire.produce("t") == {"t": 0}
    [reason] = wire.explained("throttled")
    assert (reason.facts["fault"], reason.facts["ms"]) == (fault.id, LONG_MS)


def test_a_commit_from_outside_of_a_group_is_not_fenced(
    broker: kafkalite.Broker, wire: Asking
) -> None:
    """The advice for an admin client that may not move offsets was to join the group again."""
    with kafkalite.Consumer(
        "t", group_id="g", bootstrap_servers=broker.bootstrap_servers
    ) as member:
        deadline = time.monotonic() + PATIENCE_S
        while not member.assignment():
            member.poll(0.05)
            assert time.monotonic() < deadline
        parts = [{"PartitionIndex": 0, "CommittedOffset": 0}]
        body: dict[str, object] = {
            "GroupId": "g",
            "GenerationIdOrMemberEpoch": -1,
            "MemberId": "",
            "Topics": [{"Name": "t", "Partitions": parts}],
        }
        wire.ask("OffsetCommit", 8, body)
        [topic] = wire.receive("OffsetCommit", 8)["Topics"]
        assert topic["Partitions"][0]["ErrorCode"] == 25
        [reason] = wire.explained("refused")
        assert reason.facts["group"] == "g"
        assert reason.todo == "stop the members of group g, or commit as one of them"
        assert "fenced" not in broker.explain(wire.client_id).kinds
