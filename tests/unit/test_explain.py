"""Why clients are stuck: real clients get stuck, and the broker says why."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

import kafkalite
from kafkalite.cli.explain import command
from kafkalite.errors import IllegalStateError
from kafkalite.explaining import Explanation, Reason
from tests.harness.kafka_python import DEPRECATED, KafkaConsumer, KafkaProducer
from tests.harness.kafka_python import TopicPartition as Place
from tests.harness.openapi import flaws
from tests.harness.process import PATIENCE_S
from tests.unit.test_admin_api import FILE

pytestmark = pytest.mark.filterwarnings(DEPRECATED)

#: As long as a client lets a request wait: longer than any test.
LONG_MS = 120_000


@pytest.fixture(scope="module")
def broker() -> Iterator[kafkalite.Broker]:
    """One broker for all tests; each has a client id and a topic of its own."""
    config = {"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": 0}
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


@contextlib.contextmanager
def consumer(broker: kafkalite.Broker, name: str, **keys: Any) -> Iterator[Consumer]:
    """A consumer of confluent-kafka."""
    usual = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": name,
        "client.id": name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(usual | keys)
    try:
        yield consumer
    finally:
        consumer.close()


@contextlib.contextmanager
def polled(consumer: Consumer) -> Iterator[None]:
    """Poll a consumer in a thread, as its program would."""
    ended = threading.Event()

    def poll() -> None:
        while not ended.is_set():
            consumer.poll(0.05)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(PATIENCE_S)


def produce(broker: kafkalite.Broker, topic: str, value: bytes = b"v") -> None:
    """Write a record to partition 0."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def explained(
    broker: kafkalite.Broker,
    client_id: str,
    kind: str,
    is_meant: Callable[[Reason], bool] = lambda _: True,
) -> Reason:
    """The first reason of a kind, once there is one."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        explanation = broker.explain(client_id)
        found = [reason for reason in explanation.of(kind) if is_meant(reason)]
        if found:
            return found[0]
        assert time.monotonic() < deadline, f"no {kind}: {explanation}"
        time.sleep(0.01)


def test_a_fetch_that_waits_for_bytes(broker: kafkalite.Broker, name: str) -> None:
    produce(broker, name, b"x" * 1_000)
    keys = {"fetch.min.bytes": 1_000_000, "fetch.wait.max.ms": LONG_MS}
    with consumer(broker, name, **keys, **{"socket.timeout.ms": LONG_MS * 2}) as reader:
        reader.assign([TopicPartition(name, 0, 0)])
        with polled(reader):
            reason = explained(broker, name, "waiting_for_bytes")
            assert reason.facts["min_bytes"] == 1_000_000
            assert 1_000 < reason.facts["bytes"] < 1_200
            assert 0 < reason.facts["left_ms"] <= LONG_MS
            (partition,) = reason.facts["partitions"]
            told = {"topic": name, "partition": 0, "fetch_offset": 0, "readable_end": 1}
            assert partition == told
            assert f"waits for 1000000 bytes of {name}-0" in reason.says
            # More records are counted, and the wait goes on.
            produce(broker, name, b"x" * 1_000)
            again = explained(broker, name, "waiting_for_bytes", lambda one: more(one, reason))
            assert again.facts["partitions"][0]["readable_end"] == 2
            # The answer comes with the bytes: as many as one fetch takes.
            for _ in range(2):
                produce(broker, name, b"x" * 700_000)
            last = explained(broker, name, "waiting_for_bytes", has_read)
            assert last.facts["partitions"][0]["fetch_offset"] == 3
            assert 700_000 < last.facts["bytes"] < 700_200


def has_read(one: Reason) -> bool:
    """Whether the reader has some of the records."""
    return bool(one.facts["partitions"][0]["fetch_offset"] > 0)


def more(one: Reason, other: Reason) -> bool:
    """Whether there are more bytes by now."""
    return bool(one.facts["bytes"] > other.facts["bytes"])


def test_a_consumer_that_has_everything(broker: kafkalite.Broker, name: str) -> None:
    produce(broker, name)
    reader = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, client_id=name, fetch_max_wait_ms=20_000
    )
    reader.assign([Place(name, 0)])
    reader.seek_to_beginning()
    deadline = time.monotonic() + PATIENCE_S
    while not reader.poll(timeout_ms=100):
        assert time.monotonic() < deadline, "the record does not come"
    reader.poll(timeout_ms=100)
    reason = explained(broker, name, "waiting_for_bytes")
    assert reason.facts["bytes"] == 0
    assert reason.facts["partitions"][0]["fetch_offset"] == 1
    assert f"it has every record of {name}-0" in reason.says
    reader.close()


def test_a_topic_that_does_not_exist(broker: kafkalite.Broker, name: str) -> None:
    keys = {"bootstrap.servers": broker.bootstrap_servers, "client.id": name}
    producer = Producer({**keys, "topic.metadata.propagation.max.ms": LONG_MS})
    producer.produce("no-such-topic", b"v")
    reason = explained(broker, name, "unknown_topic", lambda one: one.facts["times"] >= 3)
    assert reason.facts["api"] == "Metadata"
    assert reason.facts["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert reason.facts["partitions"] == [{"topic": "no-such-topic", "partition": None}]
    assert reason.facts["exists"] is False
    assert "create the topic" in reason.todo
    # It is over as soon as the topic is there.
    with kafkalite.AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("no-such-topic")
    assert producer.flush(PATIENCE_S) == 0
    assert "unknown_topic" not in broker.explain(name).kinds


def test_a_rebalance_that_waits_for_a_member(broker: kafkalite.Broker, name: str) -> None:
    quiet = f"quiet {name}"
    with consumer(broker, name, **{"client.id": quiet}) as first:
        first.subscribe([name])
        with polled(first):
            explained(broker, quiet, "waiting_for_bytes")
        # Its program polls no more. Its heartbeats go on, so the rebalance waits for it.
        with consumer(broker, name) as second:
            second.subscribe([name])
            with polled(second):
                reason = explained(broker, name, "rebalancing")
                assert reason.facts["api"] == "JoinGroup"
                assert reason.facts["group"] == name
                assert reason.facts["state"] == "PreparingRebalance"
                (member,) = reason.facts["missing"]
                assert member["client_id"] == quiet
                assert reason.facts["members"] == 2
                assert 0 < reason.facts["left_ms"] <= 300_000
                assert f"(client {quiet} at 127.0.0.1) has not joined" in reason.says
                # The member that is missing gets the same reason.
                told = explained(broker, quiet, "rebalancing")
                assert told.facts["member_id"] == member["member_id"]
                with polled(first):
                    explained(broker, name, "waiting_for_bytes")


def test_a_member_whose_instance_id_another_one_has(broker: kafkalite.Broker, name: str) -> None:
    keys = {"group.instance.id": "one"}
    old = f"old {name}"
    with consumer(broker, name, **keys, **{"client.id": old}) as first:
        first.subscribe([name])
        with polled(first):
            explained(broker, old, "waiting_for_bytes")
            with consumer(broker, name, **keys) as second:
                second.subscribe([name])
                with polled(second):
                    reason = explained(broker, old, "fenced")
    assert reason.facts["fenced"] == "group_instance_id"
    assert reason.facts["group"] == name
    assert reason.facts["error"] == "FENCED_INSTANCE_ID"
    assert "another member has its group.instance.id" in reason.says


def test_a_client_whose_requests_a_fault_swallows(broker: kafkalite.Broker, name: str) -> None:
    with broker.faults.blackhole(name, api="Produce") as fault:
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, client_id=name, linger_ms=0
        )
        sent = producer.send(name, b"v", partition=0)
        reason = explained(broker, name, "held_by_fault")
        assert reason.facts["fault"] == fault.id
        assert reason.facts["fault_kind"] == "blackhole"
        assert reason.facts["api"] == "Produce"
        assert reason.todo == f"remove fault {fault.id}"
    # The connection is closed, and the client sends the record again.
    assert sent.get(timeout=PATIENCE_S).offset == 0
    assert "held_by_fault" not in broker.explain(name).kinds
    producer.close()


def test_a_client_that_is_throttled_by_a_fault(broker: kafkalite.Broker, name: str) -> None:
    fault = broker.faults.throttle(LONG_MS, api="Produce", client_id=name)
    keys = {"bootstrap.servers": broker.bootstrap_servers, "client.id": name, "linger.ms": 0}
    producer = Producer(keys)
    producer.produce(name, b"v", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    reason = explained(broker, name, "throttled")
    assert reason.facts["fault"] == fault.id
    assert reason.facts["ms"] == LONG_MS
    assert 0 < reason.facts["left_ms"] <= LONG_MS


def test_errors_of_a_fault_are_the_faults(broker: kafkalite.Broker, name: str) -> None:
    fault = broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", client_id=name)
    keys = {"bootstrap.servers": broker.bootstrap_servers, "client.id": name, "linger.ms": 0}
    producer = Producer(keys)
    producer.produce(name, b"v", partition=1)
    reason = explained(broker, name, "error_by_fault", lambda one: one.facts["times"] >= 2)
    assert reason.facts["fault"] == fault.id
    assert reason.facts["partitions"] == [{"topic": name, "partition": 1}]
    fault.remove()
    assert producer.flush(PATIENCE_S) == 0
    assert "error_by_fault" not in broker.explain(name).kinds


def test_a_client_that_the_broker_owes_nothing(broker: kafkalite.Broker, name: str) -> None:
    with kafkalite.Producer(
        bootstrap_servers=broker.bootstrap_servers, client_id=name, linger_ms=0
    ) as producer:
        producer.send(name, b"v").result(timeout=PATIENCE_S)
        reason = explained(broker, name, "idle")
        assert reason.facts["requests"] >= 1
        assert "the broker owes it nothing" in reason.todo
        assert broker.explain(name).kinds == {"idle"}


def test_a_client_that_is_not_connected(broker: kafkalite.Broker, name: str) -> None:
    explanation = broker.explain("unknown/?&# ü")
    (reason,) = explanation
    assert reason.kind == "not_connected"
    assert reason.client_id == "unknown/?&# ü"
    assert reason.connection_id is None
    assert explanation.connections == 0
    assert "client.id and bootstrap.servers" in str(explanation)


def test_a_client_id_is_a_text(broker: kafkalite.Broker) -> None:
    with pytest.raises(TypeError, match="client_id must be a text, not int"):
        broker.explain(3)  # type: ignore[arg-type]


def test_the_api_and_the_command_say_the_same(broker: kafkalite.Broker, name: str) -> None:
    with broker.faults.drop_response(api="Produce", client_id=name):
        keys = {"bootstrap.servers": broker.bootstrap_servers, "client.id": name, "linger.ms": 0}
        producer = Producer(keys)
        producer.produce(name, b"v", partition=0)
        reason = explained(broker, name, "held_by_fault")
        query = urllib.parse.urlencode({"client_id": name})
        url = f"{broker.admin_url}/api/v1/explain?{query}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            told = json.loads(answer.read())
        schema = FILE["paths"]["/explain"]["get"]["responses"]["200"]["content"]
        assert flaws(told, schema["application/json"]["schema"], FILE) == []
        assert told["client_id"] == name
        assert reason.kind in {one["kind"] for one in told["reasons"]}
        assert broker.admin_url is not None
        ran = CliRunner().invoke(command, [name, "--admin-url", broker.admin_url])
        assert ran.exit_code == 0
        assert "(held_by_fault)\n" in ran.output
        assert f"-> {reason.todo}.\n" in ran.output
        # Without a client: all of them.
        everyone = broker.explain()
        assert everyone.client_id is None
        assert name in {one.client_id for one in everyone}


def test_a_broker_that_is_not_under_test_explains_nothing() -> None:
    with (
        kafkalite.Broker(config={"kafkalite.test.control": "false"}) as broker,
        pytest.raises(IllegalStateError, match="test control is off"),
    ):
        broker.explain()


class Three:
    """Three brokers with a topic that one of them leads."""

    def __init__(self, cluster: kafkalite.Cluster, topic: str, replicas: int) -> None:
        self.cluster = cluster
        servers = cluster.bootstrap_servers
        with kafkalite.AdminClient(bootstrap_servers=servers) as admin:
            admin.create_topic(topic, partitions=1, replication_factor=replicas)
        self.leader = cluster.leader_of(topic, 0)
        self.others = [broker for broker in cluster.brokers if broker is not self.leader]


@pytest.fixture(scope="module")
def cluster() -> Iterator[kafkalite.Cluster]:
    """Three brokers, which give a follower up after two minutes only."""
    with kafkalite.Cluster(config={"replica.lag.time.max.ms": LONG_MS}) as cluster:
        yield cluster


def test_a_produce_that_waits_for_followers(cluster: kafkalite.Cluster) -> None:
    three = Three(cluster, "replicated", 3)
    slow = three.others[0]
    keys = {"bootstrap.servers": cluster.bootstrap_servers, "client.id": "writer", "linger.ms": 0}
    producer = Producer({**keys, "acks": "all"})
    producer.produce("replicated", b"1")
    assert producer.flush(PATIENCE_S) == 0
    cluster.isolate([slow])
    try:
        producer.produce("replicated", b"2")
        reason = waiting_for_one(producer, three.leader, "writer")
        (batch,) = reason.facts["batches"]
        assert (batch["topic"], batch["partition"]) == ("replicated", 0)
        assert (batch["end_offset"], batch["high_watermark"]) == (2, 1)
        assert [one["end_offset"] for one in batch["followers"]] == [1]
        assert reason.facts["api"] == "Produce"
        broker_id = batch["followers"][0]["broker"]
        assert f"waits for broker {broker_id} to store its records of replicated-0" in reason.says
    finally:
        cluster.heal()
    assert producer.flush(PATIENCE_S) == 0


def waiting_for_one(producer: Producer, broker: kafkalite.Broker, client_id: str) -> Reason:
    """That the producer, which is served meanwhile, waits for one follower."""

    def is_one(reason: Reason) -> bool:
        producer.poll(0)
        return [len(batch["followers"]) for batch in reason.facts["batches"]] == [1]

    return explained(broker, client_id, "waiting_for_followers", is_one)


def test_a_partition_without_a_leader(cluster: kafkalite.Cluster) -> None:
    three = Three(cluster, "single", 1)
    dead = three.leader
    keys = {"bootstrap.servers": cluster.bootstrap_servers, "client.id": "leaderless"}
    producer = Producer({**keys, "linger.ms": 0})
    producer.produce("single", b"1")
    assert producer.flush(PATIENCE_S) == 0
    dead.kill()
    try:
        producer.produce("single", b"2")
        reason = of_any(three.others, "leaderless", "no_leader")
        (partition,) = reason.facts["leaderless"]
        assert (partition["topic"], partition["partition"]) == ("single", 0)
        (gone,) = reason.facts["brokers_that_are_gone"]
        assert partition["replicas"] == [gone]
        assert partition["isr"] + partition["elr"] == [gone]
        assert three.cluster.brokers[gone] is dead
        assert reason.todo == f"start broker {gone}"
    finally:
        dead.start()
    assert producer.flush(PATIENCE_S) == 0


def of_any(brokers: list[kafkalite.Broker], client_id: str, kind: str) -> Reason:
    """The first reason of a kind that one of the brokers gives: a client asks any of them."""
    deadline = time.monotonic() + PATIENCE_S
    explanations: list[Explanation] = []
    while time.monotonic() < deadline:
        explanations = [broker.explain(client_id) for broker in brokers]
        for explanation in explanations:
            if found := explanation.of(kind):
                return found[0]
        time.sleep(0.01)
    raise AssertionError(f"no {kind}: {[str(one) for one in explanations]}")
