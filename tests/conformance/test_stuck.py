"""Clients of others get stuck, each in one of the ways of the docs, and the broker says why."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import kafkalite
from kafkalite.explaining import Explanation, Reason
from tests.conformance.driven import (
    PATIENCE_S,
    Clients,
    Driver,
    broker_of,
    clients_of,
    cluster_of,
    driver_on,
)
from tests.harness.requests import batch
from tests.harness.session import Session

#: As long as a client lets a request wait: longer than any test.
LONG_MS = 120_000
FENCED = "INVALID_PRODUCER_EPOCH"


@pytest.fixture(scope="module")
def ours(broker_kind: str) -> Iterator[kafkalite.Broker]:
    """One broker for all tests."""
    with broker_of(broker_kind) as broker:
        yield broker


@pytest.fixture(scope="module")
def three(broker_kind: str) -> Iterator[kafkalite.Cluster]:
    """Three brokers, which give a follower up after two minutes only."""
    with cluster_of(broker_kind, config={"replica.lag.time.max.ms": LONG_MS}) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["confluent-kafka", "Java"])
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    """Clients of librdkafka and of Java."""
    with clients_of(request.param) as clients:
        yield clients


@pytest.fixture
def driver(
    ours: kafkalite.Broker, clients: Clients, unique: Callable[[str], str]
) -> Iterator[Driver]:
    """Clients with a topic of one partition."""
    with driver_on(ours, clients, unique("stuck"), 1) as driver:
        yield driver


def explained(
    brokers: list[kafkalite.Broker],
    client_id: str,
    kind: str,
    is_meant: Callable[[Reason], bool] = lambda _: True,
) -> Reason:
    """The first reason of a kind that a broker gives, once one does."""
    deadline = time.monotonic() + PATIENCE_S
    explanations: list[Explanation] = []
    while time.monotonic() < deadline:
        explanations = [broker.explain(client_id) for broker in brokers]
        for explanation in explanations:
            if found := [reason for reason in explanation.of(kind) if is_meant(reason)]:
                return found[0]
        time.sleep(0.01)
    raise AssertionError(f"no {kind}: {[str(one) for one in explanations]}")


def test_a_reader_waits_for_bytes(ours: kafkalite.Broker, driver: Driver, clients: Clients) -> None:
    assert driver.produce("x" * 1_000) == 0
    is_java = type(clients).__name__ == "Program"
    wait, request = (
        ("fetch.max.wait.ms", "request.timeout.ms")
        if is_java
        else ("fetch.wait.max.ms", "socket.timeout.ms")
    )
    keys = {"fetch.min.bytes": 500_000, wait: LONG_MS, request: LONG_MS * 2}
    found = driver.start("read", "reader", partition=0, count=1, keys=keys)
    reason = explained([ours], driver.id("reader"), "waiting_for_bytes")
    assert reason.facts["min_bytes"] == 500_000
    assert f"waits for 500000 bytes of {driver.topic}-0" in reason.says
    assert driver.produce("x" * 600_000) == 1
    assert len(found.result(PATIENCE_S)["values"]) >= 1


def test_a_member_waits_for_another_one(ours: kafkalite.Broker, driver: Driver) -> None:
    assert driver.produce("1") == 0
    assert driver.join(1, role="quiet") == ["1"]
    # Its program polls no more. Its heartbeats go on, so the rebalance waits for it.
    joins = driver.start("join", "second", group=driver.topic, count=1)
    reason = explained([ours], driver.id("second"), "rebalancing")
    (member,) = reason.facts["missing"]
    assert member["client_id"] == driver.id("quiet")
    assert f"(client {driver.id('quiet')} at 127.0.0.1) has not joined" in reason.says
    assert "poll()" in reason.todo
    told = explained([ours], driver.id("quiet"), "rebalancing")
    assert told.facts["member_id"] == member["member_id"]
    # The quiet one leaves. What it read is not committed, so the other one reads it.
    driver.clients.start("close", driver.id("quiet")).result(PATIENCE_S)
    assert joins.result(PATIENCE_S)["values"] == ["1"]


def test_a_member_is_fenced_by_its_twin(ours: kafkalite.Broker, driver: Driver) -> None:
    twins = {"keys": {"group.instance.id": "one", "heartbeat.interval.ms": 200}}
    assert driver.produce("1") == 0
    assert driver.join(1, role="first", **twins) == ["1"]
    assert driver.join(1, role="second", **twins) == ["1"]
    reason = explained([ours], driver.id("first"), "fenced")
    assert reason.facts["fenced"] == "group_instance_id"
    assert "another member has its group.instance.id" in reason.says
    assert "give each member a group.instance.id of its own" in reason.todo


def test_a_producer_with_a_stale_epoch(ours: kafkalite.Broker, driver: Driver) -> None:
    assert driver.produce("1") == 0
    session = Session(ours.bootstrap_servers, "epochs")
    asked = [{"Name": driver.topic, "PartitionIndexes": [0]}]
    described = session.call("DescribeProducers", 0, Topics=asked)
    (active,) = described["Topics"][0]["Partitions"][0]["ActiveProducers"]
    pid, epoch = active["ProducerId"], active["ProducerEpoch"]
    # Another process goes on with this producer id, in the next epoch.
    session.produce(driver.topic, batch(pid, epoch + 1, 0))
    session.close()
    sent = driver.start("produce", "writer", partition=0, value="2")
    reason = explained([ours], driver.id("writer"), "fenced")
    assert reason.facts["fenced"] == "producer_epoch"
    assert (reason.facts["api"], reason.facts["error"]) == ("Produce", FENCED)
    assert reason.facts["partitions"] == [{"topic": driver.topic, "partition": 0}]
    assert "another producer goes on under its producer id in a newer epoch" in reason.says
    assert "close this producer and make a new one" in reason.todo
    with pytest.raises(Exception, match=r"(?i)epoch"):
        sent.result(PATIENCE_S)


def test_a_writer_asks_for_a_topic_that_does_not_exist(
    ours: kafkalite.Broker, driver: Driver
) -> None:
    name = f"no-{driver.topic}"
    sent = driver.start("produce", "writer", topic=name, partition=0, value="v")
    reason = explained([ours], driver.id("writer"), "unknown_topic")
    assert reason.facts["partitions"] == [{"topic": name, "partition": None}]
    assert "the topic does not exist on this broker" in reason.says
    assert "create the topic" in reason.todo
    with kafkalite.AdminClient(bootstrap_servers=ours.bootstrap_servers) as admin:
        admin.create_topic(name)
    assert sent.result(PATIENCE_S)["offset"] == 0


def test_a_writer_meets_a_fault(ours: kafkalite.Broker, driver: Driver) -> None:
    with ours.faults.blackhole(driver.id("writer"), api="Produce") as fault:
        sent = driver.start("produce", "writer", partition=0, value="v")
        reason = explained([ours], driver.id("writer"), "held_by_fault")
        assert (reason.facts["fault"], reason.facts["api"]) == (fault.id, "Produce")
        assert reason.todo == f"remove fault {fault.id}"
    assert sent.result(PATIENCE_S)["offset"] == 0


def lacks_one(reason: Reason) -> bool:
    """Whether one follower alone lacks the record."""
    return len(reason.facts["batches"][0]["followers"]) == 1


def test_a_writer_waits_for_followers(
    three: kafkalite.Cluster, clients: Clients, unique: Callable[[str], str]
) -> None:
    topic = unique("replicated")
    with kafkalite.AdminClient(bootstrap_servers=three.bootstrap_servers) as admin:
        admin.create_topic(topic)
    driver = Driver(clients, three.bootstrap_servers, topic)
    assert driver.produce("1") == 0
    leader = three.leader_of(topic, 0)
    slow = next(broker for broker in three.brokers if broker is not leader)
    three.isolate([slow])
    try:
        sent = driver.start("produce", "writer", partition=0, value="2")
        # The other follower has the record a moment later.
        reason = explained([leader], driver.id("writer"), "waiting_for_followers", lacks_one)
        assert f"to store its records of {topic}-0" in reason.says
        (lacking,) = reason.facts["batches"][0]["followers"]
        assert three.brokers[lacking["broker"]] is slow
    finally:
        three.heal()
    assert sent.result(PATIENCE_S)["offset"] == 1
    driver.close()


def test_a_writer_has_no_leader(
    three: kafkalite.Cluster, clients: Clients, unique: Callable[[str], str]
) -> None:
    topic = unique("single")
    with kafkalite.AdminClient(bootstrap_servers=three.bootstrap_servers) as admin:
        admin.create_topic(topic, replication_factor=1)
    driver = Driver(clients, three.bootstrap_servers, topic)
    assert driver.produce("1") == 0
    dead = three.leader_of(topic, 0)
    others = [broker for broker in three.brokers if broker is not dead]
    dead.kill()
    try:
        sent = driver.start("produce", "writer", partition=0, value="2")
        reason = explained(others, driver.id("writer"), "no_leader")
        gone = three.brokers.index(dead)
        assert f"{topic}-0 has no leader" in reason.says
        assert reason.todo == f"start broker {gone}"
    finally:
        dead.start()
    assert sent.result(PATIENCE_S)["offset"] == 1
    driver.close()
