"""Topics that are created while a member of a cluster is away: it gets its replicas."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import kafkalite as kl
from tests.harness.patience import eventually

DEFAULTS = {"default.replication.factor": "3", "min.insync.replicas": "2"}


@pytest.mark.parametrize("asked", ["created", "grown", "produced"])
def test_a_topic_of_three_replicas_is_made_while_a_broker_is_away(asked: str) -> None:
    with kl.Cluster(config=DEFAULTS, topics=["old"]) as cluster:
        servers: dict[str, str | int | float | bool] = {
            "bootstrap.servers": cluster.bootstrap_servers
        }
        admin, partition = AdminClient(servers), 0
        away = cluster.brokers[2]
        away.stop()
        if asked == "grown":
            partition = 1
            with kl.AdminClient(bootstrap_servers=cluster.bootstrap_servers) as ours:
                ours.create_partitions("old", 2)
        elif asked == "created":
            admin.create_topics([NewTopic("new", 1, 3)])["new"].result(timeout=20)
        topic = "old" if asked == "grown" else "new"
        producer = Producer({**servers, "acks": "all"})
        producer.produce(topic, b"kept", partition=partition)
        assert producer.flush(20) == 0

        def found() -> tuple[int, int]:
            known = admin.list_topics(topic, timeout=10).topics[topic].partitions[partition]
            return len(known.replicas), len(known.isrs)

        assert found() == (3, 2)
        away.start()
        eventually(lambda: found() == (3, 3))
        assert [record.value for record in away.expect(topic, 1, timeout=20)] == [b"kept"]
