"""Topics that are deleted while a member of a cluster is away: nothing of them stays there."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalite as kl
from tests.harness.patience import eventually

TOPICS = ("gone", "again")


def directories(data_dir: Path) -> set[str]:
    """The directories of the topics on the third broker, whatever they are called."""
    paths = (data_dir / "broker-2").iterdir()
    return {path.name for path in paths if path.name.startswith(TOPICS)}


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
def test_a_member_deletes_what_was_deleted_without_it(tmp_path: Path, killed: bool) -> None:
    with (
        kl.Cluster(data_dir=tmp_path, topics=TOPICS) as cluster,
        kl.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer,
        kl.AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        away = cluster.brokers[2]
        for topic in TOPICS:
            producer.send(topic, b"old").result(timeout=20)
        eventually(lambda: directories(tmp_path) == {"gone-0", "again-0"})
        if killed:
            away.kill()
        else:
            away.stop()
        admin.delete_topics(TOPICS)
        admin.create_topics([kl.NewTopic("again", assignments={0: [0, 1, 2]})])
        new = admin.describe_topic("again").topic_id
        away.start()
        cluster.wait_ready(20)
        producer.send("again", b"new").result(timeout=20)
        eventually(lambda: len(admin.describe_topic("again").partitions[0].isr) == 3)
        eventually(lambda: directories(tmp_path) == {"again-0"})
        assert str(new) in (tmp_path / "broker-2/again-0/partition.metadata").read_text()
        (record,) = away.expect("again", 1, timeout=20)
        assert record.value == b"new"
        (log_dir,) = admin.describe_log_dirs([2])[2]
        assert [replica.partition for replica in log_dir.replicas] == [("again", 0)]
