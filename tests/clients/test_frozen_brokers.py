"""Clients of three brokers of which one is frozen: they go on when the cluster does.

Every call here waited for ``request.timeout.ms``, which is 30 s.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import kafkalite as kl
from tests.harness.patience import eventually

#: Less than ``request.timeout.ms``, and much more than the cluster needs to go on.
SOON_S = 25.0
COUNT = 40
PLACE = kl.TopicPartition("t", 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[kl.Cluster]:
    """Three brokers in processes of their own, and some records in topic t."""
    with kl.Cluster(topics={"t": 1}, in_process=False) as made:
        fill(made)
        yield made


@pytest.fixture(autouse=True)
def whole(cluster: kl.Cluster) -> None:
    """Begin each test with brokers that all serve."""
    cluster.wait_ready(60)


def fill(cluster: kl.Cluster) -> None:
    """Append records to topic t."""
    with kl.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(COUNT):
            producer.send("t", str(number).encode())
        producer.flush(60)


@contextmanager
def frozen(cluster: kl.Cluster, number: int | None) -> Iterator[None]:
    """Freeze a broker for the length of a block."""
    assert number is not None
    pid = cluster.brokers[number].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def soon() -> Iterator[None]:
    """Fail if the block takes long."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert took < SOON_S, f"it took {took:.1f} s"


def admin_of(cluster: kl.Cluster) -> kl.AdminClient:
    """An admin client that knows all brokers."""
    admin = kl.AdminClient(bootstrap_servers=cluster.bootstrap_servers)
    admin.list_groups()
    return admin


def member(cluster: kl.Cluster, group: str) -> kl.Consumer:
    """A consumer of topic t that commits only by ``commit()``."""
    return kl.Consumer(
        "t",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


def read(consumer: kl.Consumer, count: int) -> list[int]:
    """The offsets of the next records, so many."""
    offsets: list[int] = []

    def has_all() -> bool:
        found = consumer.consume(count - len(offsets), 0.2)
        offsets.extend(record.offset for record in found)
        return len(offsets) >= count

    eventually(has_all, SOON_S)
    return offsets


def test_commits_and_joins_go_on_without_the_coordinator(cluster: kl.Cluster) -> None:
    with admin_of(cluster) as admin, member(cluster, "g") as consumer:
        assert read(consumer, 10) == list(range(10))
        consumer.commit()
        assert read(consumer, 10) == list(range(10, 20))
        with frozen(cluster, admin.describe_group("g").coordinator):
            with soon():
                consumer.commit()
            with soon():
                assert admin.describe_group("g").state == "Stable"
            consumer.close()
            with soon(), member(cluster, "g") as other:
                assert read(other, 10) == list(range(20, 30))
                other.commit()
        cluster.wait_ready(60)
        # What the frozen broker had got and not stored takes back nothing.
        with kl.AdminClient(bootstrap_servers=cluster.bootstrap_servers) as later:
            eventually(lambda: later.list_group_offsets("g")[PLACE].offset == 30)


def test_a_member_that_closes_leaves_at_the_next_coordinator(cluster: kl.Cluster) -> None:
    """It said goodbye to the frozen one alone, and the next member waited for its session."""
    with admin_of(cluster) as admin, member(cluster, "closing") as consumer:
        assert read(consumer, 10) == list(range(10))
        with frozen(cluster, admin.describe_group("closing").coordinator):
            consumer.close()
            with soon(), member(cluster, "closing") as other:
                assert read(other, 10) == list(range(10))


def test_new_clients_find_their_way_around_the_leader(cluster: kl.Cluster) -> None:
    leader = cluster.brokers.index(cluster.leader_of("t", 0))
    with frozen(cluster, leader):
        with soon(), member(cluster, "new") as consumer:
            assert read(consumer, COUNT) == list(range(COUNT))
        with soon(), kl.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            assert producer.send("t", b"last").result(60).offset == COUNT
        with soon(), kl.Consumer(bootstrap_servers=cluster.bootstrap_servers) as reader:
            assert reader.end_offsets(PLACE)[PLACE] == COUNT + 1


def test_an_admin_client_goes_on_without_the_controller(cluster: kl.Cluster) -> None:
    with admin_of(cluster) as admin:
        admin.create_topic("first")
        with frozen(cluster, admin.describe_cluster().controller):
            with soon():
                assert admin.create_topic("second", partitions=2, replication_factor=2).created
            with soon():
                names = {topic.name for topic in admin.list_topics()}
                assert {"first", "second"} <= names
                admin.delete_topic("first")
        cluster.wait_ready(60)
        eventually(lambda: "first" not in {topic.name for topic in admin.list_topics()})
        assert len(admin.describe_topic("second").partitions) == 2
