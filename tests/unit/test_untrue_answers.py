"""Answers that say something else: fewer versions, another leader, another replica to read from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

import kafkalite
from kafkalite.cli.faults import command
from kafkalite.errors import InvalidArgumentError
from tests.harness.openapi import asked, flaws
from tests.harness.patience import eventually
from tests.harness.process import PATIENCE_S
from tests.harness.wire.batches import simple
from tests.harness.wire.connection import Closed, Connection

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
UNSUPPORTED_VERSION = 35


@pytest.fixture(scope="module")
def broker() -> Iterator[kafkalite.Broker]:
    """One broker with a topic of two partitions."""
    with kafkalite.Broker(topics={"t": 2}, admin_port=0) as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_faults_stay(broker: kafkalite.Broker) -> Iterator[None]:
    """Faults end with their test."""
    yield
    broker.faults.clear()


@pytest.fixture
def wire(broker: kafkalite.Broker) -> Iterator[Connection]:
    """A connection of the test; its client id is ``conformance``."""
    with Connection(broker.bootstrap_servers, PATIENCE_S) as connection:
        yield connection


def told(wire: Connection, api: int, version: int = 3) -> tuple[int, int] | None:
    """The versions of an API that ApiVersions tells."""
    software = {"ClientSoftwareName": "test", "ClientSoftwareVersion": "1"}
    answer = wire.call("ApiVersions", version, software)
    assert answer["ErrorCode"] == 0
    found = [one for one in answer["ApiKeys"] if one["ApiKey"] == api]
    return (found[0]["MinVersion"], found[0]["MaxVersion"]) if found else None


def produce(wire: Connection, version: int) -> int:
    """Write a record to ``t``-0; the error of the answer."""
    data = [{"Index": 0, "Records": simple(b"v")}]
    topics = [{"Name": "t", "PartitionData": data}]
    asks = {"Acks": -1, "TimeoutMs": 5_000, "TopicData": topics}
    (topic,) = wire.call("Produce", version, asks)["Responses"]
    return int(topic["PartitionResponses"][0]["ErrorCode"])


@pytest.mark.parametrize("version", [0, 3, 4])
def test_api_versions_tell_what_is_left_of_an_api(
    broker: kafkalite.Broker, wire: Connection, version: int
) -> None:
    of_produce, of_fetch = told(wire, PRODUCE, version), told(wire, FETCH, version)
    with broker.faults.versions("Produce", min_version=5, max_version=8) as fault:
        assert told(wire, PRODUCE, version) == (5, 8)
        assert told(wire, FETCH, version) == of_fetch
        assert (fault.seen, fault.fired) == (2, 2)
    with broker.faults.versions("Produce"):
        assert told(wire, PRODUCE, version) is None
    assert told(wire, PRODUCE, version) == of_produce


def test_a_version_that_is_not_left_is_refused(broker: kafkalite.Broker, wire: Connection) -> None:
    fault = broker.faults.versions("Produce", min_version=5, max_version=8)
    codes = [produce(wire, version) for version in (4, 5, 8, 9)]
    assert codes == [UNSUPPORTED_VERSION, 0, 0, UNSUPPORTED_VERSION]
    assert (fault.seen, fault.fired) == (2, 2)
    fault.remove()
    assert produce(wire, 9) == 0


def test_where_an_answer_has_no_place_for_it_the_connection_closes(
    broker: kafkalite.Broker, wire: Connection
) -> None:
    broker.faults.versions("Metadata", max_version=8)
    assert wire.call("Metadata", 8, {"Topics": [{"Name": "t"}]})["Topics"][0]["ErrorCode"] == 0
    with pytest.raises(Closed):
        wire.call("Metadata", 9, {"Topics": [{"Name": "t"}]})


def test_clients_ask_for_versions_in_an_older_version(broker: kafkalite.Broker) -> None:
    fault = broker.faults.versions("ApiVersions", max_version=2)
    servers = broker.bootstrap_servers
    with broker.record(api="ApiVersions") as recording:
        with kafkalite.Producer(bootstrap_servers=servers, client_id="ours") as ours:
            ours.send("t", b"x", partition=1).result(timeout=PATIENCE_S)
        librdkafka = Producer({"bootstrap.servers": servers, "client.id": "librdkafka"})
        librdkafka.produce("t", b"x", partition=1)
        assert librdkafka.flush(PATIENCE_S) == 0
    for client in ("ours", "librdkafka"):
        asked_in = [one.version for one in recording.requests if one.client_id == client]
        assert asked_in[0] > 2, client
        assert min(asked_in) <= 2, client
    assert fault.fired >= 4


def test_only_the_clients_of_a_fault_learn_of_a_limit(broker: kafkalite.Broker) -> None:
    broker.faults.versions("Produce", max_version=7, client_id="old-*")
    with broker.record(api="Produce") as recording:
        for client in ("old-1", "new-1", "old-2"):
            producer = Producer(
                {"bootstrap.servers": broker.bootstrap_servers, "client.id": client}
            )
            producer.produce("t", b"x", partition=1)
            assert producer.flush(PATIENCE_S) == 0
    used = {one.client_id: one.version for one in recording.requests}
    assert (used["old-1"], used["old-2"]) == (7, 7)
    assert used["new-1"] > 7


@pytest.mark.parametrize(
    ("pattern", "is_hit"),
    [("conformance", True), ("con*ance", True), ("*form*", True), ("form", False), ("a*", False)],
)
def test_a_star_in_a_client_id_stands_for_any_characters(
    broker: kafkalite.Broker, wire: Connection, pattern: str, is_hit: bool
) -> None:
    fault = broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", client_id=pattern)
    assert (produce(wire, 9) != 0) is is_hit
    assert fault.fired == int(is_hit)


def fetch(wire: Connection, version: int, epoch: int = -1, session: int = 0) -> dict[str, Any]:
    """Fetch both partitions of ``t`` by their name, or what is in a session."""
    parts = [
        {"Partition": index, "FetchOffset": 0, "PartitionMaxBytes": 10_000} for index in (0, 1)
    ]
    topics = [{"Topic": "t", "Partitions": parts}] if epoch < 1 else []
    limits = {"MaxWaitMs": 60_000, "MinBytes": 1, "MaxBytes": 100_000}
    asks = {"SessionId": session, "SessionEpoch": epoch, "Topics": topics, **limits}
    return wire.call("Fetch", version, asks)


def pointed(answer: dict[str, Any]) -> dict[int, tuple[int, int, bool]]:
    """The error, the replica to read from, and whether there are records, by partition."""
    return {
        one["PartitionIndex"]: (
            one["ErrorCode"],
            one["PreferredReadReplica"],
            bool(one["Records"]),
        )
        for topic in answer["Responses"]
        for one in topic["Partitions"]
    }


def test_a_fetch_names_another_replica_in_place_of_records(
    broker: kafkalite.Broker, wire: Connection
) -> None:
    assert produce(wire, 9) == 0
    with broker.faults.follower(7, "t", partition=0, times=1) as fault:
        # It is answered at once, as one that has an error.
        assert pointed(fetch(wire, 11))[0] == (0, 7, False)
        assert pointed(fetch(wire, 11))[0] == (0, -1, True)
        assert fault.fired == 1
    with broker.faults.follower(7, "t") as fault:
        assert set(pointed(fetch(wire, 11)).values()) == {(0, 7, False)}
        # Version 10 has no place for it.
        (topic,) = fetch(wire, 10)["Responses"]
        assert topic["Partitions"][0]["Records"]
        assert fault.fired == 1
        # A partition with an error keeps it.
        broker.faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="t", partition=1)
        assert pointed(fetch(wire, 11)) == {0: (0, 7, False), 1: (6, -1, False)}


def test_a_session_names_a_replica_where_there_is_no_news(
    broker: kafkalite.Broker, wire: Connection
) -> None:
    assert produce(wire, 9) == 0
    first = fetch(wire, 11, epoch=0)
    assert first["SessionId"] > 0
    broker.faults.follower(7, "t", partition=1)
    second = pointed(fetch(wire, 11, epoch=1, session=first["SessionId"]))
    assert second[1] == (0, 7, False)


def leaders(wire: Connection) -> list[tuple[int, int, int]]:
    """The leader and its epoch of each partition of ``t``."""
    (topic,) = wire.call("Metadata", 9, {"Topics": [{"Name": "t"}]})["Topics"]
    found = [
        (one["PartitionIndex"], one["LeaderId"], one["LeaderEpoch"]) for one in topic["Partitions"]
    ]
    return sorted(found)


def test_metadata_name_another_leader(broker: kafkalite.Broker, wire: Connection) -> None:
    true_ones = leaders(wire)
    (_, leader, epoch), second = true_ones
    broker.faults.leader(5, "t", partition=0, times=1)
    assert leaders(wire) == [(0, 5, epoch), second]
    broker.faults.leader(leader, "t", partition=0, leader_epoch=9, times=1)
    assert leaders(wire) == [(0, leader, 9), second]
    assert leaders(wire) == true_ones


def test_a_reader_of_our_own_goes_on_when_no_replica_is_there(broker: kafkalite.Broker) -> None:
    """It is sent to a broker that does not exist, and asks the leader again."""
    servers = broker.bootstrap_servers
    with kafkalite.Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"mine", partition=0).result(timeout=PATIENCE_S)
    fault = broker.faults.follower(7, "t", times=1)
    keys = {"bootstrap.servers": servers, "group.id": "r", "enable.auto.commit": False}
    confluent = Consumer(keys)
    confluent.assign([TopicPartition("t", 0, 0)])
    found: list[object] = []

    def is_read() -> bool:
        message = confluent.poll(0.1)
        if message is not None and message.error() is None:
            found.append(message.value())
        return b"mine" in found

    eventually(is_read)
    confluent.close()
    assert fault.fired == 1


def test_over_http_and_by_the_command_line(broker: kafkalite.Broker) -> None:
    url = broker.admin_url or ""
    for fault in (
        {"kind": "versions", "api": "Produce", "min_version": 3, "max_version": 8},
        {"kind": "follower", "broker": 2, "topic": "t", "partition": 0},
        {"kind": "leader", "broker": 2, "leader_epoch": 4, "client_id": "b-*"},
    ):
        status, added = asked(url, "POST", "/faults", fault)
        assert (status, added) == (201, added | fault)
        options = [
            text
            for name, value in fault.items()
            if name != "kind"
            for text in (f"--{name.replace('_', '-')}", str(value))
        ]
        ran = CliRunner().invoke(command, ["add", str(fault["kind"]), *options, "--admin-url", url])
        assert ran.exit_code == 0, ran.output
        _, listed = asked(url, "GET", "/faults")
        assert listed["faults"][-1] == added | {"id": added["id"] + 1}
    for wrong in ({"kind": "versions", "api": "Fetch", "max_version": 40_000}, {"kind": "leader"}):
        assert asked(url, "POST", "/faults", wrong)[0] == 400


def test_what_has_no_meaning_is_refused(broker: kafkalite.Broker) -> None:
    with pytest.raises(InvalidArgumentError, match="min_version is above max_version"):
        broker.faults.versions("Fetch", min_version=9, max_version=8)
    with pytest.raises(InvalidArgumentError, match="takes no api"):
        broker.faults.add("follower", broker=1, api="Fetch")
    with pytest.raises(InvalidArgumentError, match="takes no topic"):
        broker.faults.add("versions", api="Fetch", topic="t")
    with pytest.raises(TypeError, match="broker must be a whole number"):
        broker.faults.follower("b")  # type: ignore[arg-type]


def test_the_checker_of_schemas_sees_numbers_that_are_too_high_and_too_low() -> None:
    schema = {"type": "number", "minimum": 0, "maximum": 1}
    assert flaws(0.5, schema, {}) == []
    assert flaws(1.5, schema, {}) == ["$ is 1.5, which is above 1"]
    assert flaws(-1, schema, {}) == ["$ is -1, which is below 0"]
