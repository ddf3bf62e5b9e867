"""Clients of a broker that the other brokers cannot reach: it names leaders that were."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator

import pytest

import kafkalite as kl
from kafkalite.ranges import RangeReader
from tests.harness.patience import eventually
from tests.harness.wire.connection import Connection

COUNT = 50


@pytest.fixture
def cluster() -> Iterator[kl.Cluster]:
    """Three brokers, and some records in topic t."""
    with kl.Cluster(topics={"t": 1}) as made:
        fill(made.bootstrap_servers)
        yield made
        made.heal()


def fill(servers: str) -> None:
    """Produce records to topic t."""
    with kl.Producer(bootstrap_servers=servers, acks="all") as producer:
        for number in range(COUNT):
            producer.send("t", str(number).encode())
        producer.flush(timeout=60)


def cut_off(cluster: kl.Cluster, first: kl.Broker) -> None:
    """Cut the first leader off, and fill the topic at the next one."""
    cluster.isolate({first})
    eventually(lambda: cluster.leader_of("t", 0) is not first)
    fill(cluster.leader_of("t", 0).bootstrap_servers)


def unregister(at: kl.Broker, broker_id: int) -> None:
    """Take a broker out of the cluster. Without Kafka's jar there is no schema of the request."""
    request = struct.pack(">hhihbib", 64, 0, 1, -1, 0, broker_id, 0)
    with Connection(at.bootstrap_servers) as connection:
        connection.send_raw(struct.pack(">i", len(request)) + request)
        (error,) = struct.unpack_from(">h", connection.receive_frame(), 9)
    assert error == 0


@pytest.mark.parametrize("may_lose", [False, True])
def test_a_range_reader_loses_nothing(cluster: kl.Cluster, may_lose: bool) -> None:
    """What was written since was an error, or passed over without a word."""
    first = cluster.leader_of("t", 0)
    with RangeReader(bootstrap_servers=first.bootstrap_servers) as reader:

        def read(start: int, end: int) -> int:
            return sum(map(len, reader.read([("t", 0, start, end)], may_lose=may_lose)))

        assert read(0, COUNT) == COUNT
        cut_off(cluster, first)
        assert (read(COUNT, 2 * COUNT), reader.lost) == (COUNT, 0)


def test_a_consumer_reads_on_at_the_next_leader(cluster: kl.Cluster) -> None:
    """It waited for metadata.max.age.ms, which is five minutes."""
    first = cluster.leader_of("t", 0)
    with kl.Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign([kl.TopicPartition("t", 0)])
        consumer.seek_to_beginning()
        read: list[int] = []

        def has(count: int) -> bool:
            read.extend(record.offset for record in consumer.consume(COUNT, 0.2))
            return len(read) >= count

        eventually(lambda: has(COUNT))
        cut_off(cluster, first)
        eventually(lambda: has(2 * COUNT), 60)
        assert read == list(range(2 * COUNT))


def test_a_broker_that_was_unregistered_meanwhile_learns_who_leads(cluster: kl.Cluster) -> None:
    """It led on by its own account, and what it acknowledged was lost."""
    first = cluster.leader_of("t", 0)
    cut_off(cluster, first)
    second = cluster.leader_of("t", 0)

    def leader(at: kl.Broker) -> int | None:
        with kl.AdminClient(bootstrap_servers=at.bootstrap_servers) as admin:
            return admin.describe_topic("t").partitions[0].leader

    former = leader(first)
    assert former is not None
    unregister(second, former)
    cluster.heal()
    eventually(lambda: leader(first) == leader(second), 60)


def test_an_admin_client_asks_another_broker_next(cluster: kl.Cluster) -> None:
    """Every call waited for the controller that was cut off."""
    with kl.AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        controller = admin.describe_cluster().controller
        assert controller is not None
        cluster.isolate({controller})
        with contextlib.suppress(kl.KafkaliteError):
            admin.create_topic("first", replication_factor=2, timeout=5)
        assert admin.create_topic("second", replication_factor=2, timeout=60).created
