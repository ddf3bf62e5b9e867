"""Moves of partitions that an operator limits (KIP-73)."""

from __future__ import annotations

import pytest

import kafkalite as kl
from tests.harness.patience import eventually
from tests.unit.test_command_line import told

TOPICS = ("slow", "fast")


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_move_waits_for_the_limit_of_its_replicas(side: str) -> None:
    config = {"default.replication.factor": 1, "min.insync.replicas": 1}
    with (
        kl.Cluster(topics=TOPICS, config=config) as cluster,
        kl.AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        kl.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):

        def places(topic: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
            found = admin.describe_topic(topic).partitions[0]
            return tuple(found.replicas), tuple(found.isr)

        def limit(bytes_per_second: int | None) -> None:
            rate = {f"{side}.replication.throttled.rate": bytes_per_second}
            brokers = [kl.ConfigResource("broker", str(number)) for number in range(3)]
            admin.alter_configs(dict.fromkeys(brokers, rate))

        for topic in TOPICS:
            producer.send(topic, b"record")
        producer.flush(timeout=30)
        limit(0)
        admin.alter_topic_config("slow", {f"{side}.replication.throttled.replicas": "*"})
        before = {topic: places(topic)[0][0] for topic in TOPICS}
        after = {topic: (place + 1) % 3 for topic, place in before.items()}
        for topic in TOPICS:
            admin.reassign_partitions({(topic, 0): [after[topic]]})
        # The one that is not limited began later, and arrives.
        eventually(lambda: places("fast") == ((after["fast"],), (after["fast"],)))
        both = ((after["slow"], before["slow"]), (before["slow"],))
        assert places("slow") == both
        # The order of both replicas took the place of the move, and both stayed.
        words = ("slow:0", "--to", str(before["slow"]), "-b", cluster.bootstrap_servers)
        refused = told("cluster", "move-leader", *words)
        assert refused.returncode == 1
        assert refused.stderr.startswith("error: the replicas of slow-0 move to other brokers now")
        assert places("slow") == both
        limit(None)
        eventually(lambda: places("slow") == ((after["slow"],), (after["slow"],)))
        with kl.Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
            consumer.assign([kl.TopicPartition("slow", 0)])
            consumer.seek_to_beginning()
            found = consumer.consume(1, 20)
        assert [record.value for record in found] == [b"record"]
