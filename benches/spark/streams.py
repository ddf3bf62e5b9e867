"""Micro-batches: small ones, those of a backlog, and a query that has nothing to do.

What Spark itself takes for a micro-batch is seen at the toy's, in the same rounds: it writes two
files of the checkpoint, plans the query, and starts a Python task for each slot.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from beside import Bench, Figures, compared, in_rounds, noop
from processes import cpu_s, family
from pyspark.sql import DataFrame

import kafkalite as kl
from kafkalite_spark.checkpoints import MANAGER

#: Of a query that is fed, these are not counted: its first micro-batches are slower.
WARM, COUNTED = 5, 15
#: Partitions, and rows of each. With Spark's own each partition is a task: 64 take seconds.
SIZES = {"ours": ((2, 10), (2, 320), (64, 10)), "jvm": ((2, 10), (2, 320))}


def fed(frame: DataFrame, feed: Callable[[], int]) -> list[float]:
    """Return how long a micro-batch took, in ms, each fed when the one before was told of.

    Args:
        frame: A stream that begins with what comes next.
        feed: Makes new rows and returns how many.
    """
    with tempfile.TemporaryDirectory() as checkpoint:
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        rows, told = 0, []
        try:
            # Then it knows where it begins.
            query.processAllAvailable()
            for _ in range(WARM + COUNTED):
                rows += feed()
                while sum(one["numInputRows"] for one in query.recentProgress) < rows:
                    time.sleep(0.02)
            told = [one for one in query.recentProgress if one["numInputRows"]]
        finally:
            query.stop()
        return [one["durationMs"]["triggerExecution"] for one in told[WARM:]]


def small(bench: Bench, rounds: int) -> Figures:
    """Micro-batches of a few rows: the toy's and ours by turns; the first round warms up."""
    for partitions in (2, 64):
        bench.create(f"small-{partitions}", partitions)
    count = Path(tempfile.mkdtemp(), "count")
    count.write_text("0")

    def count_on() -> int:
        fresh = count.with_suffix(".new")
        fresh.write_text(str(int(count.read_text()) + 1))
        fresh.rename(count)
        return 20

    # Ours packs the few rows of both partitions into one task.
    toys = bench.spark.readStream.format("toy").options(rows="20", counted=str(count))
    toy, toy_of_two = toys.option("tasks", "1").load(), toys.option("tasks", "2").load()
    told: dict[str, list[float]] = defaultdict(list)
    with kl.Producer(bootstrap_servers=bench.servers) as producer:

        def send(partitions: int, each: int) -> int:
            for partition in range(partitions):
                values = [b"x" * 100] * each
                producer.send_batch(f"small-{partitions}", values, partitions=partition)
            producer.flush(30)
            return partitions * each

        runs: dict[str, Callable[[], list[float]]] = {
            "toy_ms": lambda: fed(toy, count_on),
            "toy_of_two_ms": lambda: fed(toy_of_two, count_on),
        }
        for who, format_ in bench.formats.items():
            for partitions, each in SIZES[who]:
                frame = bench.stream(f"small-{partitions}", format_)
                runs[f"{who}_{partitions}x{each}_ms"] = lambda f=frame, p=partitions, e=each: fed(
                    f, lambda: send(p, e)
                )
        for number in range(rounds + 1):
            # Nobody is always first.
            for name, run in list(runs.items())[:: -1 if number % 2 else 1]:
                told[name] += run()
            if number == 0:
                told.clear()
    figures = {name: statistics.median(each) for name, each in told.items()}
    figures["above_toy_ms"] = figures["ours_2x10_ms"] - figures["toy_ms"]
    figures["many_of_few"] = figures["ours_64x10_ms"] / figures["ours_2x320_ms"]
    return figures


def backlog(bench: Bench, rows: int, each: int, times: int) -> Figures:
    """A stream that catches up, ``each`` rows a micro-batch; beside it the toy, and one batch.

    ``plain`` is ours with checkpoints as Spark writes them by itself. ``most_of_batch`` is what
    share of its own batch ours had if it added nothing to what the toy takes above its rows.
    """
    topic = bench.filled(rows, 100)
    parts: dict[str, list[float]] = defaultdict(list)

    def drain(who: str, frame: DataFrame) -> None:
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            for one in query.recentProgress:
                for part, ms in one["durationMs"].items() if one["numInputRows"] else ():
                    parts[f"{who}_{part}_ms"].append(ms)

    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": each}
    frames = {name: bench.stream(topic, fmt, **limits) for name, fmt in bench.formats.items()}
    toy = bench.spark.readStream.format("toy").options(rows=each, ends=rows // each)
    frames["toy_stream"] = toy.load()
    whole = bench.spark.read.format("toy").options(rows=rows, batchrows=10_000, valuebytes=100)

    def drain_plainly() -> None:
        manager = bench.spark.conf.get(MANAGER)
        bench.spark.conf.unset(MANAGER)
        drain("plain", frames["ours"])
        bench.spark.conf.set(MANAGER, manager)

    runs: dict[str, Callable[[], object]] = {
        name: lambda name=name, frame=frame: drain(name, frame) for name, frame in frames.items()
    }
    runs |= {"plain": drain_plainly}
    runs |= {"batch": lambda: noop(bench.source(topic)), "toy_batch": lambda: noop(whole.load())}
    rounds = in_rounds(runs, times)
    found = compared(rounds)
    found |= {part: statistics.median(ms) for part, ms in sorted(parts.items())}
    # What a micro-batch costs beyond its rows.
    batches = rows / each
    for who, alone in (("ours", "batch"), ("plain", "batch"), ("toy_stream", "toy_batch")):
        found[f"{who}_fixed_ms"] = (found[f"{who}_s"] - found[f"{alone}_s"]) / batches * 1_000
    # Each round by itself: the machine's speed is another in the next.
    above = (
        (one["ours"] - one["batch"]) - (one["toy_stream"] - one["toy_batch"]) for one in rounds
    )
    found["fixed_above_toy_ms"] = statistics.median(above) / batches * 1_000
    floor = found["batch_s"] + found["toy_stream_s"] - found["toy_batch_s"]
    shares = {
        "most_of_batch": found["batch_s"] / floor,
        "plain_of_batch": found["batch_s"] / found["plain_s"],
    }
    return {**found, **shares, "ours_rows_per_s": rows / found["ours_s"]}


def idle(bench: Bench, rounds: int) -> Figures:
    """CPU of a query without news, JVM and Python, as a share of a core; the broker's beside it."""
    bench.create("idle", 2)
    toy = bench.spark.readStream.format("toy").options(rows="20", idle="true").load()
    frames = {name: bench.stream("idle", fmt) for name, fmt in bench.formats.items()}
    told: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, frame in {"toy": toy, **frames}.items():
            with tempfile.TemporaryDirectory() as checkpoint:
                writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
                query = writer.start()
                time.sleep(5)
                pids = [pid for pid in family(os.getpid()) if pid != bench.broker_pid]
                before, of_broker = cpu_s(pids), cpu_s([bench.broker_pid])
                time.sleep(8)
                told[name].append((cpu_s(pids) - before) / 8)
                told[f"broker_of_{name}"].append((cpu_s([bench.broker_pid]) - of_broker) / 8)
                query.stop()
    figures = {name: statistics.median(each) for name, each in told.items()}
    return {**figures, "above_toy": figures["ours"] - figures["toy"]}
