"""How much of what Spark allows a Python data source does the connector reach?

Each case runs beside the toy that does nothing and, where its jars are given, beside Spark's own
connector, interleaved in one session against one broker: only the ratios mean something.
`make spark-bench` runs all of it, about 10 minutes, and says which bars hold. It takes the binding
of the checkout: `make develop PROFILE=release` before.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from beside import Bench, Figures, interleaved, noop
from processes import PeakMemory
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from streams import backlog, idle, small
from toy import Toy

import kafkalite as kl
from kafkalite_spark.checkpoints import local_checkpoints

HERE = Path(__file__).resolve().parent
#: Where the jars of Spark's own connector are; without them it is left out.
JARS = os.environ.get("KAFKALITE_SPARK_JARS", "")


def session() -> SparkSession:
    """Return a session on two slots, with all that the guide recommends."""
    # Workers import the toy by its name.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config(map=local_checkpoints())
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "2g")
        .config("spark.jars", ",".join(str(jar) for jar in Path(JARS).glob("*.jar") if JARS))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(Toy)
    return spark


def reading(bench: Bench, rows: int, value_bytes: int, times: int) -> Figures:
    """Batch read, all seven columns."""
    topic = bench.filled(rows, value_bytes)
    width = 10_000 if value_bytes <= 100 else 1_000
    toy = bench.spark.read.format("toy").options(rows=rows, batchrows=width, valuebytes=value_bytes)
    runs: dict[str, Callable[[], object]] = {
        name: lambda format_=format_: noop(bench.source(topic, format_))
        for name, format_ in bench.formats.items()
    }
    found = interleaved({**runs, "toy": lambda: noop(toy.load())}, times)
    return {**found, "ours_rows_per_s": rows / found["ours_s"]}


def writing(bench: Bench, rows: int, times: int) -> Figures:
    """Batch write, key of 8 and value of 100 bytes, acks=all, idempotent."""
    for name in bench.formats:
        bench.create(f"write-{name}", 2)
    frame = bench.spark.range(0, rows, 1, 2).select(
        fn.lit("12345678").alias("key"), fn.lit("x" * 100).cast("binary").alias("value")
    )

    def save(name: str, format_: str) -> None:
        writer = frame.write.format(format_).mode("append")
        if format_ != "toy":
            writer = writer.option("kafka.bootstrap.servers", bench.servers)
            writer = writer.option("topic", f"write-{name}")
        writer.save()

    runs = {**bench.formats, "toy": "toy"}
    found = interleaved(
        {
            name: lambda name=name, format_=format_: save(name, format_)
            for name, format_ in runs.items()
        },
        times,
    )
    return {**found, "ours_rows_per_s": rows / found["ours_s"]}


def memory(bench: Bench, rows: int) -> Figures:
    """How much larger workers become while 10 GB go through them, in MiB: first of all cases."""
    topic = bench.filled(rows, 1024)
    bench.warm()
    peak = PeakMemory(os.getpid(), "pyspark.daemon")
    count = 0
    with peak:
        while count * 1024 < 10e9:
            count += bench.source(topic).count()
    return {"gigabytes": count * 1024 / 1e9, "before_mib": peak.before, "grown_mib": peak.grown}


#: What must hold, with the figure of the case that says so: at least, or at most where negative.
BARS = (
    ("S1 batch read, 100 B, of the toy", "read 100 B", "of_toy", 0.55),
    ("S2 batch read, 1 KiB, of the toy", "read 1 KiB", "of_toy", 0.50),
    ("S3 batch read, 100 B, of Spark's own", "read 100 B", "of_jvm", 1.0),
    ("S3 batch read, 1 KiB, of Spark's own", "read 1 KiB", "of_jvm", 1.0),
    ("S3 batch write, 100 B, of Spark's own", "write 100 B", "of_jvm", 1.0),
    ("S4 batch write, 100 B, of the toy", "write 100 B", "of_toy", 0.45),
    ("S5 micro-batch of 2 x 10 rows, ms above the toy", "micro-batch", "above_toy_ms", -30),
    ("S6 64 partitions x 10 rows / 2 x 320", "micro-batch", "many_of_few", -1.5),
    ("S7 backlog in micro-batches, of the toy's", "backlog", "of_toy_stream", 0.75),
    ("S7 a micro-batch beyond its rows, ms above the toy's", "backlog", "fixed_above_toy_ms", -50),
    ("S8 idle query above the toy, of a core", "idle", "above_toy", -0.03),
    ("S9 growth of workers over 10 GB, MiB", "memory", "grown_mib", -64),
)


def judged(told: dict[str, Figures]) -> list[str]:
    """Return a table of the bars that were measured."""
    lines = ["| bar | must | found | |", "|---|---|---|---|"]
    for name, case, figure, bar in BARS:
        if (found := told.get(case, {}).get(figure)) is not None:
            held = found >= bar if bar > 0 else found <= -bar
            must = f">= {bar}" if bar > 0 else f"<= {-bar}"
            lines.append(f"| {name} | {must} | {found:.2f} | {'holds' if held else 'missed'} |")
    if (backlog := told.get("backlog")) is not None:
        # What Spark itself takes for ten micro-batches forbids it to every source that is fast.
        found, most = backlog["of_batch"], backlog["most_of_batch"]
        word = "holds" if found >= 0.60 else f"missed; at most {most:.2f} could be"
        lines.append(
            f"| S7 as it was first: of batch read, ADR 0135 | >= 0.6 | {found:.2f} | {word} |"
        )
    return lines


def main() -> None:
    """Run the cases that were asked for and print what was found."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--only", help="cases, separated by commas")
    words.add_argument("--rows", type=int, default=10_000_000)
    words.add_argument(
        "--each", type=int, default=1_000_000, help="rows a micro-batch of a backlog"
    )
    words.add_argument("--times", type=int, default=3)
    words.add_argument("--without-jvm", action="store_true", help="leave Spark's own connector out")
    words.add_argument("--minutes", type=float, default=11, help="then no other case begins")
    words.add_argument("--json", type=Path)
    given = words.parse_args()
    told: dict[str, Figures] = {}
    end = time.monotonic() + given.minutes * 60
    with (
        tempfile.TemporaryDirectory() as directory,
        kl.Broker(data_dir=directory, in_process=False) as broker,
    ):
        bench = Bench(session(), broker, bool(JARS) and not given.without_jvm)
        rows, times = given.rows, given.times
        # Memory needs fresh workers. Those that write most come last: what the disk has yet to take
        # slows whoever is next.
        cases: dict[str, Callable[[], Figures]] = {
            "memory": lambda: memory(bench, rows // 5),
            "micro-batch": lambda: small(bench, times),
            "idle": lambda: idle(bench, times),
            "read 1 KiB": lambda: reading(bench, rows // 5, 1024, times),
            "read 100 B": lambda: reading(bench, rows, 100, times),
            "backlog": lambda: backlog(bench, rows, given.each, times),
            "write 100 B": lambda: writing(bench, rows // 2, times),
        }
        for name, case in cases.items():
            if given.only is None or name in given.only.split(","):
                if time.monotonic() > end:
                    print(f"{name}: left out, the time is over")
                    continue
                told[name] = case()
                shown = ", ".join(f"{key} {value:,.2f}" for key, value in told[name].items())
                print(f"{name}: {shown}", flush=True)
        bench.spark.stop()
    print("\n".join(judged(told)))
    if given.json:
        given.json.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
