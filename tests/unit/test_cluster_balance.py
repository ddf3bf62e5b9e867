"""What a cluster does for partitions without being asked."""

from __future__ import annotations

import signal
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import kafkalite as kl
from tests.harness.patience import eventually
from tests.harness.process import Processes
from tests.unit.test_cluster import brokers, committed

OFFSETS = "__consumer_offsets"


def partitions(address: str, topic: str) -> list[Any]:
    """The partitions of a topic, as the broker at an address sees them."""
    admin = AdminClient({"bootstrap.servers": address})
    return list(admin.list_topics(topic, timeout=10).topics[topic].partitions.values())


def test_preferred_leaders_lead_again_without_being_asked() -> None:
    config = {"leader.imbalance.check.interval.seconds": 1}
    with (
        kl.Cluster(topics={"t": 6}, config=config) as cluster,
        kl.AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):

        def is_preferred() -> list[bool]:
            described = admin.describe_topic("t").partitions
            return [partition.leader == partition.replicas[0] for partition in described]

        assert is_preferred() == [True] * 6
        killed = cluster.kill_leader("t", 0)
        eventually(lambda: not all(is_preferred()))
        killed.start()
        eventually(lambda: all(is_preferred()))


def test_offsets_outlive_the_first_broker_of_a_cluster_that_grew(processes: Processes) -> None:
    words = ["--set", "offsets.topic.num.partitions=6"]
    first = processes.serve(*words)
    admin = AdminClient({"bootstrap.servers": first.ready})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(20)
    assert committed([first.ready], 100) == 100
    assert [one.replicas for one in partitions(first.ready, OFFSETS)] == [[1]] * 6

    others = [processes.serve(*words, "--join", first.ready).ready for _ in range(2)]
    eventually(lambda: first.stderr.count("Promote(") == 2)
    eventually(lambda: all(len(brokers(address)) == 3 for address in others))

    def has_grown(address: str) -> bool:
        return all(sorted(one.isrs) == [1, 2, 3] for one in partitions(address, OFFSETS))

    eventually(lambda: all(has_grown(address) for address in others))
    # Leaders are to spread as well: each broker is the first replica of as many partitions.
    grown = partitions(others[0], OFFSETS)
    assert sorted(one.replicas[0] for one in grown) == [1, 1, 2, 2, 3, 3]
    assert committed([first.ready, *others], 200) == 200

    first.end(signal.SIGKILL)
    assert committed(others) == 200
    assert committed(others, 300) == 300
    eventually(lambda: all(one.leader in (2, 3) for one in partitions(others[0], OFFSETS)))
