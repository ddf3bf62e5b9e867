"""Asks a connector what `tests/spark/option_cases.py` asks, and says in JSON what happened."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import kafkalite as kl
from kafkalite.ranges import RangeReader
from tests.spark.option_cases import TIME, Case

__all__ = ["Asker", "prepare"]

#: Records of each partition of the topics that are read.
TOPICS = {"cases": (10, 5), "cases-two": (3,), "short": (10,)}

_numbers = itertools.count()


def prepare(servers: str) -> None:
    """Make the topics that are read; where they are there already, they are the same."""
    with kl.AdminClient(bootstrap_servers=servers) as admin:
        known = {topic.name for topic in admin.list_topics()}
        for name, counts in TOPICS.items():
            if name in known:
                continue
            # Their records are older than logs are usually kept.
            admin.create_topic(name, partitions=len(counts), config={"retention.ms": "-1"})
            with kl.Producer(bootstrap_servers=servers) as producer:
                for partition, count in enumerate(counts):
                    for number in range(count):
                        producer.send(
                            name,
                            f"{partition}-{number}".encode(),
                            key=b"k",
                            partition=partition,
                            timestamp_ms=TIME + number,
                            headers=[("h", b"x"), ("none", None)],
                        )
        if "short" not in known:
            admin.delete_records({("short", 0): 4})


class Asker:
    """One connector, by its format's name, against one cluster."""

    def __init__(self, spark: SparkSession, servers: str, format_: str) -> None:
        """Ask nothing yet."""
        self.spark, self.servers, self.format = spark, servers, format_

    def ask(self, case: Case) -> dict[str, Any]:
        """Return what was read or written, or ``error`` and what it says."""
        try:
            match case.use:
                case "read":
                    return self._read(case)
                case "readStream":
                    return self._read_stream(case)
                case _:
                    return self._write(case)
        except Exception as error:  # noqa: BLE001
            return _told(error)

    def _given(self, case: Case, out: str = "out") -> dict[str, str]:
        given = {"kafka.bootstrap.servers": self.servers, **case.options}
        return {
            name: out if name == "topic" and value == "out" else value
            for name, value in given.items()
            if value is not None
        }

    def _read(self, case: Case) -> dict[str, Any]:
        frame = self.spark.read.format(self.format).options(**self._given(case)).load()
        found = _rows(frame)
        if {"minPartitions", "maxRecordsPerPartition"} & case.options.keys():
            found["tasks"] = frame.rdd.getNumPartitions()
        if "includeHeaders" in case.options:
            found["columns"] = frame.schema.simpleString()
            found["headers"] = str(frame.first()["headers"])
        return found

    def _read_stream(self, case: Case) -> dict[str, Any]:
        frame = self.spark.readStream.format(self.format).options(**self._given(case)).load()
        name = f"asked_{next(_numbers)}"
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = frame.writeStream.format("memory").queryName(name)
            writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            query = writer.start()
            if not query.awaitTermination(60):
                query.stop()
                raise AssertionError("the query hangs")
        batches = [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]
        found = _rows(self.spark.table(name)) | {"batches": batches}
        if "includeHeaders" in case.options:
            found["columns"] = frame.schema.simpleString()
        return found

    def _write(self, case: Case) -> dict[str, Any]:
        out = f"out-{self.format}-{next(_numbers)}"
        with kl.AdminClient(bootstrap_servers=self.servers) as admin:
            admin.create_topic(out, partitions=2)
        rows = [text.replace("'out'", f"'{out}'") for text in case.rows]
        given = self._given(case, out)
        with tempfile.TemporaryDirectory() as directory:
            if case.use == "write":
                frame = self.spark.range(0, 3, 1, 1).selectExpr(*rows)
                writer = frame.write.format(self.format).options(**given)
                writer.mode(case.mode).save()
            else:
                self._write_stream(case, rows, given, Path(directory))
        return {"records": _records(self.servers, out)}

    def _write_stream(
        self, case: Case, rows: list[str], given: dict[str, str], directory: Path
    ) -> None:
        files = str(directory / "files")
        self.spark.range(0, 3, 1, 1).write.parquet(files)
        frame = self.spark.readStream.schema("id long").parquet(files).selectExpr(*rows)
        writer = frame.writeStream.format(self.format).options(**given).outputMode(case.mode)
        writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(60):
            query.stop()
            raise AssertionError("the query hangs")


def _rows(frame: DataFrame) -> dict[str, Any]:
    """Return the offsets that were read, partition by partition."""
    offsets: dict[str, list[int]] = {}
    for row in frame.select("topic", "partition", "offset").collect():
        offsets.setdefault(f"{row.topic}-{row.partition}", []).append(row.offset)
    return {"offsets": {name: sorted(found) for name, found in sorted(offsets.items())}}


def _records(servers: str, topic: str) -> list[dict[str, Any]]:
    """Return what a topic of two partitions holds."""
    partitions = [(topic, number) for number in range(2)]
    with kl.AdminClient(bootstrap_servers=servers) as admin:
        ends = admin.list_offsets(partitions, "latest")
    ranges = [(topic, number, 0, ends[topic, number].offset) for _, number in partitions]
    columns = ["partition", "key", "value", "headers"]
    with RangeReader(bootstrap_servers=servers) as reader:
        rows = [
            row
            for batch in reader.read(ranges, columns=columns)
            for row in pa.record_batch(batch).to_pylist()
        ]
    for row in rows:
        headers = [(one["key"], _text(one["value"])) for one in row["headers"] or ()]
        row |= {"key": _text(row["key"]), "value": _text(row["value"])}
        row["headers"] = [list(header) for header in headers]
    return sorted(rows, key=lambda row: (row["partition"], row["key"] or "", row["value"] or ""))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _told(error: Exception) -> dict[str, Any]:
    """Return the class and the words of the innermost cause, in Java or in Python."""
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    if cause is None:
        return {"error": type(error).__name__, "says": str(error)}
    while cause.getCause() is not None:
        cause = cause.getCause()
    return {"error": cause.getClass().getSimpleName(), "says": cause.getMessage() or ""}
