"""Topics of one name, deleted and made again under a query that is stopped: each is its own."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import kafkalite as kl
from tests.harness.process import PATIENCE_S, Process, Processes

#: The lives of the topic after its first one of ten records: how many records it has, and how it
#: keeps them. The first is shorter than what the query has read, the second as long, the third
#: longer.
LIVES = [(3, "delete"), (3, "compact"), (40, "delete")]


class Cluster:
    """A broker that is killed between any two steps, and a topic that is made again."""

    def __init__(self, processes: Processes, place: Path) -> None:
        self._processes = processes
        self._place = place
        self._broker: Process | None = None
        self.servers = ""

    def restart(self) -> None:
        """Kill the broker, if there is one, and start it on the same data."""
        if self._broker is not None:
            self._broker.end(signal.SIGKILL)
        self._broker = self._processes.serve(data_dir=self._place)
        self.servers = self._broker.ready

    def admin(self) -> kl.AdminClient:
        """Return a client."""
        return kl.AdminClient(bootstrap_servers=self.servers)

    def make(self, life: int, count: int, policy: str = "delete") -> None:
        """Make the topic, and write records that say which life they are of."""
        with self.admin() as admin:
            admin.create_topic("orders", config={"cleanup.policy": policy})
        self.restart()
        with kl.Producer(bootstrap_servers=self.servers) as producer:
            for number in range(count):
                producer.send("orders", b"%d-%d" % (life, number), key=b"%d" % number)
            producer.flush(PATIENCE_S)
        self.restart()

    def delete(self) -> None:
        """Delete the topic."""
        with self.admin() as admin:
            admin.delete_topic("orders")
        self.restart()


def read(spark: SparkSession, servers: str, place: Path, **options: Any) -> list[str]:
    """Run the query until all is read that is there; return the values that it read."""
    reader = spark.readStream.format("kafkalite").option("kafka.bootstrap.servers", servers)
    for name, value in {"subscribe": "orders", "startingOffsets": "earliest", **options}.items():
        reader = reader.option(name, value)
    had: list[str] = []

    def take(rows: DataFrame, number: int) -> None:
        had.extend(bytes(row.value).decode() for row in rows.select("value").collect())

    writer = reader.load().writeStream.foreachBatch(take).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(place)).start()
    assert query.awaitTermination(PATIENCE_S * 2), "the query does not end"
    return sorted(had)


@pytest.mark.parametrize(
    "lives",
    [pytest.param(LIVES[-1:], marks=pytest.mark.slice, id="one"), pytest.param(LIVES, id="all")],
)
def test_a_stream_sees_nothing_of_another_life_of_its_topic(
    lives: list[tuple[int, str]], spark: SparkSession, processes: Processes, tmp_path: Path
) -> None:
    # The checkpoint had names and offsets alone: a longer topic was read on from the middle.
    cluster, place = Cluster(processes, tmp_path / "data"), tmp_path / "checkpoint"
    cluster.restart()
    cluster.make(0, 10)
    assert read(spark, cluster.servers, place) == sorted(f"0-{n}" for n in range(10))
    for life, (count, policy) in enumerate(lives, start=1):
        cluster.delete()
        cluster.make(life, count, policy)
        with pytest.raises(PySparkException, match="orders was deleted and created again"):
            read(spark, cluster.servers, place)
        mine = sorted(f"{life}-{n}" for n in range(count))
        assert read(spark, cluster.servers, place, failOnDataLoss="false") == mine
        assert read(spark, cluster.servers, place) == []
