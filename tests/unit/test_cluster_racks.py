"""Consumers that read from a replica in their rack (KIP-392)."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

import kafkalite as kl
from tests.harness.patience import eventually

RACKS = ["a", "b", "c"]
SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
COUNT = 500

#: Reads all values of topic t from these addresses, in a rack.
Read = Callable[[str, str], list[int]]


def bytes_read(broker: kl.Broker) -> float:
    """Bytes of topic t that consumers got from a broker."""
    with urllib.request.urlopen(f"{broker.admin_url}/metrics/topics", timeout=10) as answer:
        page = answer.read().decode()
    found = re.search(r'^kafka_server_\w+_bytesout(?:_total)?{topic="t"} (\S+)$', page, re.M)
    return float(found[1]) if found else 0.0


def fill(cluster: kl.Cluster) -> int:
    """Produce records, and return the number of a broker that does not lead."""
    with kl.Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        for number in range(COUNT):
            producer.send("t", str(number).encode())
        producer.flush(timeout=30)
    return next(n for n in range(3) if cluster.brokers[n] is not cluster.leader_of("t", 0))


def read_with_confluent(servers: str, rack: str) -> list[int]:
    """All values as librdkafka reads them."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "client.rack": rack})
    consumer.assign([TopicPartition("t", 0, 0)])
    values: list[int] = []

    def has_all() -> bool:
        for message in consumer.consume(COUNT, 0.2):
            assert message.error() is None
            values.append(int(message.value() or b""))
        return len(values) >= COUNT

    eventually(has_all)
    consumer.close()
    return values


def read_with_ours(servers: str, rack: str) -> list[int]:
    """All values as our consumer reads them."""
    with kl.Consumer(bootstrap_servers=servers, client_rack=rack) as consumer:
        consumer.assign([kl.TopicPartition("t", 0)])
        consumer.seek_to_beginning()
        values: list[int] = []

        def has_all() -> bool:
            values.extend(int(record.value or b"") for record in consumer.consume(COUNT, 0.2))
            return len(values) >= COUNT

        eventually(has_all)
    return values


@pytest.mark.parametrize("read", [read_with_confluent, read_with_ours])
@pytest.mark.parametrize("is_on", [True, False])
def test_consumers_read_from_their_rack_where_the_cluster_says_so(read: Read, is_on: bool) -> None:
    config = SELECTOR if is_on else {}
    with kl.Cluster(topics={"t": 1}, racks=RACKS, config=config, admin_port=0) as cluster:
        near = fill(cluster)
        leader = cluster.leader_of("t", 0)
        assert read(cluster.bootstrap_servers, RACKS[near]) == list(range(COUNT))
        served = cluster.brokers[near] if is_on else leader
        others = [broker for broker in cluster.brokers if broker is not served]
        assert bytes_read(served) > 0
        assert [bytes_read(other) for other in others] == [0.0, 0.0]
        # A rack without a replica reads from the leader.
        assert read(cluster.bootstrap_servers, "elsewhere") == list(range(COUNT))
        assert bytes_read(leader) > 0


@pytest.mark.parametrize("read", [read_with_confluent, read_with_ours])
def test_a_consumer_reads_on_when_the_replica_in_its_rack_is_gone(
    read: Read,
) -> None:
    with kl.Cluster(topics={"t": 1}, racks=RACKS, config=SELECTOR) as cluster:
        near = fill(cluster)
        cluster.brokers[near].kill()
        assert read(cluster.bootstrap_servers, RACKS[near]) == list(range(COUNT))


def test_a_consumer_reads_on_when_the_replica_in_its_rack_is_cut_off() -> None:
    """The replica answered on, without new records. The leader was asked after 5 minutes."""
    with kl.Cluster(topics={"t": 1}, racks=RACKS, config=SELECTOR) as cluster:
        near, servers = fill(cluster), cluster.bootstrap_servers
        with (
            kl.Producer(bootstrap_servers=servers, acks="all") as producer,
            kl.Consumer(bootstrap_servers=servers, client_rack=RACKS[near]) as consumer,
        ):
            # Its producer id comes from a broker that may be cut off later.
            producer.send("t", b"first").result(timeout=30)
            consumer.assign([kl.TopicPartition("t", 0)])
            consumer.seek_to_beginning()
            read = 0

            def has_all() -> bool:
                nonlocal read
                read += len(consumer.consume(COUNT, 0.2))
                return read > COUNT

            eventually(has_all)
            cluster.isolate({near})
            producer.send("t", b"later").result(timeout=30)
            record = consumer.poll(timeout=30)
            assert record is not None
            assert record.value == b"later"
            cluster.heal()


def test_racks_are_one_for_each_broker() -> None:
    with pytest.raises(kl.InvalidArgumentError, match="3 racks, one for each broker"):
        kl.Cluster(racks=["a", "b"])
