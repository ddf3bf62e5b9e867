"""Leaders and coordinators that move: real clients follow them."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

import kafkalite
from kafkalite.cli.faults import command
from kafkalite.errors import InvalidArgumentError
from kafkalite.moves import move
from tests.harness.kafka_python import DEPRECATED, KafkaProducer
from tests.harness.openapi import flaws
from tests.harness.patience import eventually
from tests.harness.process import PATIENCE_S
from tests.unit.test_admin_api import FILE

pytestmark = pytest.mark.filterwarnings(DEPRECATED)


@pytest.fixture(scope="module")
def broker() -> Iterator[kafkalite.Broker]:
    """One broker for all tests; each has a topic and a group of its own."""
    with kafkalite.Broker(admin_port=0, config={"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def name(broker: kafkalite.Broker, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the test, of its topic, its client and its group; its faults end with it."""
    name = re.sub(r"[^\w.-]+", "-", str(request.node.name))[:100]
    with kafkalite.AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(name, partitions=2)
    yield name
    broker.faults.clear()


def producer(servers: str, name: str) -> Producer:
    """A producer of confluent-kafka that sends at once."""
    return Producer({"bootstrap.servers": servers, "client.id": name, "linger.ms": 0})


def send(producer: Producer, topic: str, value: bytes) -> None:
    """Send a record to partition 0, and wait until it is acknowledged."""
    errors: list[object] = []
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert errors == [None]


def consumer(servers: str, name: str) -> Consumer:
    """A consumer of confluent-kafka that commits by hand."""
    keys = {"bootstrap.servers": servers, "group.id": name, "client.id": name}
    return Consumer(keys | {"auto.offset.reset": "earliest", "enable.auto.commit": False})


def read(consumer: Consumer) -> bytes | None:
    """The value of the next record."""
    message = consumer.poll(PATIENCE_S)
    assert message is not None, "there is no record"
    assert message.error() is None
    return message.value()


def test_a_producer_of_librdkafka_finds_the_leader_again(
    broker: kafkalite.Broker, name: str
) -> None:
    writer = producer(broker.bootstrap_servers, name)
    send(writer, name, b"1")
    (first,) = broker.faults.move_leader(name, 0, times=0).moved
    assert (first.before, first.leader) == (first.leader, first.before)
    with broker.record(name) as recording:
        moves = broker.faults.move_leader(name, 0, times=2)
        send(writer, name, b"2")
    (moved,) = moves.moved
    assert (moved.topic, moved.partition) == (name, 0)
    assert moved.leader_epoch == first.leader_epoch + 1
    produced = [one for one in recording.requests if one.api == "Produce"]
    errors = [[error.error for error in one.errors] for one in produced]
    assert errors == [["NOT_LEADER_OR_FOLLOWER"]] * 2 + [[]]
    assert "Metadata" in {one.api for one in recording.requests}
    (fault,) = [fault for fault in moves.faults if fault.fired]
    assert fault.fired == 2


def test_a_producer_of_kafka_python_finds_the_leader_again(
    broker: kafkalite.Broker, name: str
) -> None:
    writer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0)
    with broker.faults.move_leader(name, 1) as moves:
        assert writer.send(name, b"v", partition=1).get(timeout=PATIENCE_S).offset == 0
        assert sum(fault.fired for fault in moves.faults) >= 1
    writer.close()
    assert len(broker.faults) == 0


def test_a_consumer_reads_on_after_its_leader_moved(broker: kafkalite.Broker, name: str) -> None:
    reader = consumer(broker.bootstrap_servers, name)
    reader.assign([TopicPartition(name, 0, 0)])
    writer = producer(broker.bootstrap_servers, f"writer {name}")
    send(writer, name, b"1")
    assert read(reader) == b"1"
    moves = broker.faults.move_leader(name, 0)
    send(writer, name, b"2")
    assert read(reader) == b"2"
    assert sum(fault.fired for fault in moves.faults) >= 2, "the producer and the consumer"
    reader.close()


def test_all_leaders_of_a_topic_move(broker: kafkalite.Broker, name: str) -> None:
    moves = broker.faults.shuffle_leaders(name)
    assert [(one.topic, one.partition) for one in moves.moved] == [(name, 0), (name, 1)]
    send(producer(broker.bootstrap_servers, name), name, b"1")
    assert sum(fault.fired for fault in moves.faults) >= 1


def test_a_group_finds_its_coordinator_again(broker: kafkalite.Broker, name: str) -> None:
    reader = consumer(broker.bootstrap_servers, name)
    reader.subscribe([name])
    send(producer(broker.bootstrap_servers, f"writer {name}"), name, b"1")
    assert read(reader) == b"1"
    other = consumer(broker.bootstrap_servers, f"other {name}")
    with broker.record() as recording, broker.faults.move_coordinator(name) as moves:
        (moved,) = moves.moved
        assert moved.topic == "__consumer_offsets"
        # The errors are those of one group.
        other.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)
        reader.commit(asynchronous=False)
    committed = [one for one in recording.requests if one.api == "OffsetCommit"]
    failed = {one.group for one in committed if one.errors}
    assert failed == {name}
    assert {error.error for one in committed for error in one.errors} == {"NOT_COORDINATOR"}
    (found,) = reader.committed([TopicPartition(name, 0)], timeout=PATIENCE_S)
    assert found.offset == 1
    other.close()
    reader.close()


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/leaders/move", {"topic": "none", "partition": 0}, "there is no topic none"),
        ("/leaders/shuffle", {"topic": "none"}, "there is no topic none"),
        ("/leaders/move", {"topic": "NAME", "partition": 9}, "has no partition 9"),
        ("/leaders/move", {"topic": "NAME", "partition": 0, "to": 7}, "broker 7 is no living"),
        ("/leaders/move", {"topic": "NAME"}, "missing field `partition`"),
        ("/coordinators/move", {"group": "g", "to": 7}, "broker 7 is no living|no coordinator"),
    ],
)
def test_a_move_without_meaning_is_refused(
    broker: kafkalite.Broker, name: str, path: str, body: dict[str, object], why: str
) -> None:
    named = {key: name if value == "NAME" else value for key, value in body.items()}
    with pytest.raises(InvalidArgumentError, match=why):
        move(broker._control, path, **named)


def test_the_api_and_the_command_move_leaders(broker: kafkalite.Broker, name: str) -> None:
    url = broker.admin_url
    assert url is not None
    body = json.dumps({"topic": name, "partition": 1, "times": 3}).encode()
    request = urllib.request.Request(f"{url}/api/v1/leaders/move", data=body, method="POST")
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        told = json.loads(answer.read())
    schema = FILE["paths"]["/leaders/move"]["post"]["responses"]["201"]["content"]
    assert flaws(told, schema["application/json"]["schema"], FILE) == []
    assert len(told["faults"]) == 3
    ran = CliRunner().invoke(command, ["move-leader", f"{name}:1", "--admin-url", url])
    assert ran.exit_code == 0, ran.output
    assert f"{name}-1" in ran.output
    ran = CliRunner().invoke(command, ["shuffle-leaders", "--topic", name, "--admin-url", url])
    assert ran.exit_code == 0, ran.output
    ran = CliRunner().invoke(command, ["move-coordinator", name, "--admin-url", url])
    assert ran.exit_code in (0, 1, 2), ran.output


@pytest.fixture(scope="module")
def cluster() -> Iterator[kafkalite.Cluster]:
    """Three brokers with a topic on all of them."""
    config = {"group.initial.rebalance.delay.ms": 0}
    with kafkalite.Cluster(topics={"t": 6}, config=config) as cluster:
        cluster.wait_ready()
        yield cluster


def test_a_leader_moves_to_each_broker(cluster: kafkalite.Cluster) -> None:
    writer = producer(cluster.bootstrap_servers, "moves")
    send(writer, "t", b"0")
    for to in (0, 1, 2, 1, 0):
        leader = cluster.leader_of("t", 0)
        number = cluster.brokers.index(leader)
        moved = cluster.faults.move_leader("t", 0, to)
        assert (moved.before, moved.leader) == (number, to)

        def has_moved(to: int = to) -> bool:
            return cluster.leader_of("t", 0) is cluster.brokers[to]

        eventually(has_moved)
        send(writer, "t", str(to).encode())
    values = [record.value for record in cluster.brokers[0].expect("t", 6)]
    assert values == [b"0", b"0", b"1", b"2", b"1", b"0"]
    with pytest.raises(InvalidArgumentError, match="broker 9 is no living in-sync replica"):
        cluster.faults.move_leader("t", 0, 9)


def test_all_leaders_are_shuffled(cluster: kafkalite.Cluster) -> None:
    before = {index: cluster.leader_of("t", index) for index in range(6)}
    moved = cluster.faults.shuffle_leaders("t", seed=5)
    assert [one.partition for one in moved] == list(range(6))
    for one in moved:
        assert cluster.brokers[one.before] is before[one.partition]
        assert one.leader != one.before, "three replicas are in sync"

        def has_moved(number: int = one.partition, leader: int = one.leader) -> bool:
            return cluster.leader_of("t", number) is cluster.brokers[leader]

        eventually(has_moved)


def test_a_coordinator_moves_and_its_group_goes_on(cluster: kafkalite.Cluster) -> None:
    reader = consumer(cluster.bootstrap_servers, "group")
    reader.subscribe(["t"])
    writer = producer(cluster.bootstrap_servers, "coordinated")
    send(writer, "t", b"x")
    assert read(reader) is not None
    reader.commit(asynchronous=False)
    for _ in range(3):
        moved = cluster.faults.move_coordinator("group")
        assert moved.topic == "__consumer_offsets"
        assert moved.leader != moved.before
        reader.poll(0.1)
        reader.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    (found,) = reader.committed([TopicPartition("t", 0)], timeout=PATIENCE_S)
    assert found.offset == 1
    reader.close()
