"""A topic on three brokers, and a reassignment of it that a throttle holds up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import kafkalite as kl

#: Records of a topic that ``send`` has written to once.
RECORDS = 20


def send(cluster: kl.Cluster, topic: str) -> None:
    """Write records to partition 0, one batch each."""
    with kl.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(RECORDS):
            producer.send(topic, b"record", partition=0)
            producer.flush(timeout=30)


class HeldMove:
    """Topic ``slow``, with one partition and its one replica, and where it is to go."""

    def __init__(self, cluster: kl.Cluster, admin: kl.AdminClient) -> None:
        self.cluster, self._admin = cluster, admin
        (self.before,) = admin.describe_topic("slow").partitions[0].replicas
        self.after = (self.before + 1) % 3

    def begin(self) -> None:
        """Begin the reassignment; nothing of the partition is copied."""
        self._limit(0)
        self._admin.alter_topic_config("slow", {"leader.replication.throttled.replicas": "*"})
        self._admin.reassign_partitions({("slow", 0): [self.after]})

    def let_go(self) -> None:
        """Have it copied without a limit."""
        self._limit(None)

    def _limit(self, bytes_per_second: int | None) -> None:
        brokers = [kl.ConfigResource("broker", str(number)) for number in range(3)]
        rate = {"leader.replication.throttled.rate": bytes_per_second}
        self._admin.alter_configs(dict.fromkeys(brokers, rate))


@contextmanager
def held_move() -> Iterator[HeldMove]:
    """Three brokers with the topic and its records; the move has not begun."""
    config = {"default.replication.factor": 1, "min.insync.replicas": 1}
    with (
        kl.Cluster(topics=["slow"], config=config, admin_port=0) as cluster,
        kl.AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        send(cluster, "slow")
        yield HeldMove(cluster, admin)
