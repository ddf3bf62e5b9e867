"""Kafka's keys of replication and sessions: what brokers do with them, and what they tell."""

from __future__ import annotations

import pytest

import kafkalite as kl
from tests.harness.patience import eventually

#: Heartbeats and sessions so long that no broker is fenced during a test.
PATIENT = {"broker.heartbeat.interval.ms": 100_000, "broker.session.timeout.ms": 300_000}


def test_a_follower_that_lags_leaves_the_in_sync_replicas() -> None:
    config = {**PATIENT, "replica.lag.time.max.ms": 1_000}
    with kl.Cluster(topics=["t"], config=config) as cluster:
        leader = cluster.leader_of("t", 0)
        with kl.AdminClient(bootstrap_servers=leader.bootstrap_servers) as admin:
            controller = admin.describe_cluster().controller
            others = {0, 1, 2} - {cluster.brokers.index(leader), controller}
            follower = others.pop()
            cluster.isolate({follower})
            eventually(lambda: follower not in admin.describe_topic("t").partitions[0].isr)
            assert not [one.id for one in admin.describe_cluster().brokers if one.fenced]


def test_a_broker_tells_which_keys_its_files_set() -> None:
    config = {**PATIENT, "replica.fetch.wait.max.ms": 250}
    with (
        kl.Broker(config=config) as broker,
        kl.AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        told = admin.describe_broker_config(1)
    for key, value in config.items():
        entry = told[key]
        assert (entry.value, entry.source) == (str(value), "file"), key
    for key, default in {
        "replica.lag.time.max.ms": "30000",
        "replica.fetch.min.bytes": "1",
        "replica.fetch.max.bytes": "1048576",
        "replica.fetch.response.max.bytes": "10485760",
        "replica.fetch.backoff.ms": "1000",
        "replica.socket.timeout.ms": "30000",
    }.items():
        entry = told[key]
        assert (entry.value, entry.is_default, entry.read_only) == (default, True, True), key


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"broker.heartbeat.interval.ms": 3_000},
            "broker.heartbeat.interval.ms must be less than broker.session.timeout.ms",
        ),
        ({"replica.lag.time.max.ms": 400}, "to prevent frequent changes in ISR"),
        ({"replica.socket.timeout.ms": 400}, "to prevent unnecessary socket timeouts"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(config: dict[str, int], words: str) -> None:
    with pytest.raises(kl.BrokerStartError, match=words):
        kl.Broker(config=config).start()
