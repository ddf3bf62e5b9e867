"""A partition whose in-sync replicas are gone: who leads it, as the operator says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import kafkalite as kl
from tests.harness.patience import eventually

KEY = "unclean.leader.election.enable"
TOPIC = kl.ConfigResource("topic", "t")
WHOLE_CLUSTER = kl.ConfigResource("broker", "")


def leader(admin: kl.AdminClient) -> int | None:
    """Who leads partition 0."""
    return admin.describe_topic("t").partitions[0].leader


@contextmanager
def only_a_stale_replica(**config: object) -> Iterator[tuple[kl.Cluster, kl.AdminClient]]:
    """Brokers 1 and 2 have the topic. 2 is gone, and 1 lacks a record that 2 acknowledged."""
    keys = {"min.insync.replicas": 1, **config}
    with (
        kl.Cluster(config=keys) as cluster,
        kl.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer,
        kl.AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        admin.create_topics([kl.NewTopic("t", assignments={0: [1, 2]})])
        producer.send("t", b"on both").result(timeout=20)
        cluster.brokers[1].kill()
        eventually(lambda: admin.describe_topic("t").partitions[0].isr == (2,))
        producer.send("t", b"on one").result(timeout=20)
        cluster.brokers[2].kill()
        cluster.brokers[1].start()
        eventually(lambda: fenced(admin) == {2})
        yield cluster, admin


def fenced(admin: kl.AdminClient) -> set[int]:
    """The brokers that the controller takes for gone."""
    return {broker.id for broker in admin.describe_cluster().brokers if broker.fenced}


@pytest.mark.parametrize("resource", [TOPIC, WHOLE_CLUSTER], ids=["topic", "cluster"])
def test_a_partition_without_a_leader_gets_one_when_the_key_is_set(
    resource: kl.ConfigResource,
) -> None:
    with only_a_stale_replica() as (cluster, admin):
        assert leader(admin) is None
        admin.alter_configs({resource: {KEY: True}})
        eventually(lambda: leader(admin) == 1)
        # The records that only the other one had are gone, also there.
        cluster.brokers[2].start()
        eventually(lambda: set(admin.describe_topic("t").partitions[0].isr) == {1, 2})
        (record,) = cluster.brokers[1].expect("t", 1, timeout=20)
        assert record.value == b"on both"
        assert admin.list_offsets([("t", 0)])[kl.TopicPartition("t", 0)].offset == 1


def test_what_the_files_of_the_brokers_say_counts() -> None:
    with only_a_stale_replica(**{KEY: True}) as (_, admin):
        eventually(lambda: leader(admin) == 1)


def test_a_client_may_ask_for_an_unclean_leader_once() -> None:
    with only_a_stale_replica() as (_, admin):
        assert leader(admin) is None
        admin.elect_leaders([("t", 0)], unclean=True)
        assert leader(admin) == 1
