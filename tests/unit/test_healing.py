"""A bit that flipped on the disk of a follower: it is found, and healed from the leader."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalite as kl
from tests.harness.patience import eventually


def log_of(data_dir: Path, broker: int) -> Path:
    """The first segment of the topic's partition on a broker."""
    return data_dir / f"broker-{broker}" / "t-0" / "00000000000000000000.log"


def flip(path: Path, place: float) -> None:
    """Flip one bit of a file, so far from its start as ``place`` says of its length."""
    damaged = bytearray(path.read_bytes())
    damaged[int(len(damaged) * place)] ^= 0x10
    path.write_bytes(damaged)


@pytest.mark.parametrize("place", [0.0, 0.1, 0.5, 0.99])
def test_a_flipped_bit_is_healed_after_a_clean_stop(tmp_path: Path, place: float) -> None:
    with (
        kl.Cluster(data_dir=tmp_path, topics=["t"]) as cluster,
        kl.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer,
        kl.AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        leader = cluster.brokers.index(cluster.leader_of("t", 0))
        follower = ({0, 1, 2} - {leader}).pop()
        for number in range(50):
            producer.send("t", b"%d" % number).result(timeout=20)
        healthy = log_of(tmp_path, leader).read_bytes()
        cluster.brokers[follower].stop()
        flip(log_of(tmp_path, follower), place)
        assert log_of(tmp_path, follower).read_bytes() != healthy
        cluster.brokers[follower].start()
        eventually(lambda: log_of(tmp_path, follower).read_bytes() == healthy)
        # It was never cut: the replica follows on.
        producer.send("t", b"more").result(timeout=20)
        eventually(lambda: len(admin.describe_topic("t").partitions[0].isr) == 3)
