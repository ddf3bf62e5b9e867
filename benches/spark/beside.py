"""Who runs beside whom, in turn: what all cases share."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

import kafkalite as kl

Figures = dict[str, float]

_filled: set[tuple[str, str]] = set()


class Bench:
    """A session, a broker, and whose formats are compared.

    Args:
        spark: The session that all cases share.
        broker: The broker, in a process of its own.
        jvm: Whether Spark's own connector runs beside ours.
    """

    def __init__(self, spark: SparkSession, broker: kl.Broker, jvm: bool) -> None:
        """Hold them."""
        self.spark = spark
        self.servers = broker.bootstrap_servers
        self.broker_pid = broker.pid or 0
        self.formats = {"ours": "kafkalite"} | ({"jvm": "kafka"} if jvm else {})

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        with kl.AdminClient(bootstrap_servers=self.servers) as admin:
            admin.create_topic(topic, partitions=partitions)

    def warm(self) -> None:
        """Have workers that have read something, and have imported all for it."""
        self.create("warm", 1)
        with kl.Producer(bootstrap_servers=self.servers) as producer:
            producer.send_batch("warm", [b"x"] * 10).result(60)
        noop(self.source("warm"))

    def filled(self, rows: int, value_bytes: int, partitions: int = 2) -> str:
        """Return a topic of so many records with keys of 8 bytes, evenly over its partitions."""
        topic = f"read-{value_bytes}"
        if (self.servers, topic) in _filled:
            return topic
        _filled.add((self.servers, topic))
        self.create(topic, partitions)
        with kl.Producer(bootstrap_servers=self.servers) as producer:
            for partition in range(partitions):
                left = rows // partitions
                while left > 0:
                    now = min(left, 20_000)
                    values, keys = [b"x" * value_bytes] * now, [b"12345678"] * now
                    producer.send_batch(topic, values, keys=keys, partitions=partition).result(60)
                    left -= now
        return topic

    def source(self, topic: str, format_: str = "kafkalite") -> DataFrame:
        """Return a topic as a batch."""
        return (
            self.spark.read.format(format_)
            .option("kafka.bootstrap.servers", self.servers)
            .option("subscribe", topic)
            .load()
        )

    def stream(self, topic: str, format_: str = "kafkalite", **options: object) -> DataFrame:
        """Return a topic as a stream, from what comes next if nothing else is said."""
        reader = self.spark.readStream.format(format_).options(**options)
        return (
            reader.option("kafka.bootstrap.servers", self.servers).option("subscribe", topic).load()
        )


def noop(frame: DataFrame) -> None:
    """Read everything and drop it."""
    frame.write.format("noop").mode("overwrite").save()


def timed(run: Callable[[], object]) -> float:
    """Return how many seconds it takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def in_rounds(runs: dict[str, Callable[[], object]], times: int) -> list[Figures]:
    """Return the seconds of each, round by round, after one that warms up."""
    for warm in runs.values():
        warm()
    rounds = []
    for number in range(times):
        # Nobody always comes behind the same one.
        turns = list(runs.items())[:: -1 if number % 2 else 1]
        rounds.append({name: timed(run) for name, run in turns})
    return rounds


def compared(rounds: list[Figures]) -> Figures:
    """Return the best seconds of each, and our speed as a share of each other's."""
    best = {name: min(one[name] for one in rounds) for name in rounds[0]}
    figures = {f"{name}_s": seconds for name, seconds in best.items()}
    for name in best:
        if name != "ours":
            figures[f"of_{name}"] = best[name] / best["ours"]
            figures[f"median_of_{name}"] = statistics.median(
                one[name] / one["ours"] for one in rounds
            )
    return figures


def interleaved(runs: dict[str, Callable[[], object]], times: int) -> Figures:
    """Return how all compare that run in turn."""
    return compared(in_rounds(runs, times))
