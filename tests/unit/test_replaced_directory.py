"""One of several log directories of a broker is replaced by an empty one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalite as kl
from tests.harness.cluster import Cluster, Member
from tests.harness.patience import eventually

TOPICS = [f"copied-{number}" for number in range(4)]
#: Topics with one replica.
ALONE = [f"alone-{number}" for number in range(4)]


class TwoDisks(Cluster):
    """Brokers with two log directories each."""

    def make(self, data_dir: Path, join: str | None) -> Member:
        """A broker whose second directory stands beside the first."""
        disks = f"{data_dir},{data_dir.parent}/disk"
        return Member(data_dir, {**self.config, "log.dirs": disks}, join)


def test_a_broker_that_lost_its_metadata_only_does_not_join(tmp_path: Path) -> None:
    cluster = TwoDisks(tmp_path, {})
    cluster.start()
    try:
        broker = cluster.members[3]
        broker.stop()
        shutil.rmtree(broker.data_dir)
        broker.data_dir.mkdir()
        arguments = ["--listen", "127.0.0.1:0", "--join", cluster.members[1].bootstrap]
        disks = f"log.dirs={broker.data_dir},{broker.data_dir.parent}/disk"
        command = [sys.executable, "-m", "kafkalite", "serve", *arguments, "--set", disks]
        refused = subprocess.run(
            [*command, "--set", "node.id=3"], capture_output=True, text=True, timeout=60
        )
        assert refused.returncode != 0
        assert "metadata is missing, and others of log.dirs were used before" in refused.stderr
    finally:
        cluster.close()


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
def test_a_broker_copies_from_the_leaders_what_was_on_a_replaced_disk(
    tmp_path: Path, killed: bool
) -> None:
    cluster = TwoDisks(tmp_path, {})
    cluster.start()
    try:
        servers = ",".join(member.bootstrap for member in cluster.members.values())
        with (
            kl.AdminClient(bootstrap_servers=servers) as admin,
            kl.Producer(bootstrap_servers=servers, linger_ms=0) as producer,
        ):
            topics = [kl.NewTopic(topic, assignments={0: [1, 2, 3]}) for topic in TOPICS]
            alone = [kl.NewTopic(topic, assignments={0: [1]}) for topic in ALONE]
            admin.create_topics([*topics, *alone])
            for topic in [*TOPICS, *ALONE]:
                producer.send(topic, b"kept").result(timeout=30)
            broker = cluster.members[1]
            (disk,) = tmp_path.glob("*1/disk")
            lost = {path.name.removesuffix("-0") for path in disk.glob("*-0")}
            assert lost.intersection(TOPICS)
            if killed:
                broker.kill()
            else:
                broker.stop()
            shutil.rmtree(disk)
            disk.mkdir()
            broker.launch()

            def in_sync() -> set[int]:
                told = admin.describe_topics(TOPICS).values()
                return {len(topic.partitions[0].isr) for topic in told}

            def led() -> set[str]:
                told = admin.describe_topics(ALONE)
                return {name for name, topic in told.items() if topic.partitions[0].leader == 1}

            eventually(lambda: in_sync() == {3})
            # An empty log must not take the place of an only copy.
            eventually(lambda: led() == set(ALONE) - lost)
    finally:
        cluster.close()
