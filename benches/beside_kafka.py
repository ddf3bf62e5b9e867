"""The broker beside Apache Kafka: start, idle memory, and CPU for the same records.

    python benches/beside_kafka.py                 # prints a table
    python benches/beside_kafka.py --record        # also replaces its rows in results/ratios.json

Both brokers run on this machine with the same client, kafkalite's producer and consumer. Rounds
alternate. Apache Kafka runs in one JVM with the flags of its own start script, a heap of 1 GiB,
and is warmed up first; the format of its directory is not counted. CPU seconds hardly depend on
what else the machine does; seconds and MB/s do.

A virtual machine gives free memory back to its host. Its first write to a page then costs about
2.5 CPU seconds for each GB, ten times as much as a later one. The process that writes pays. So a
file of the round's size is written and deleted before each load.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import kafkalite as kl  # noqa: E402
from tests.harness import brokers, places  # noqa: E402

RATIOS = Path(__file__).parent / "results" / "ratios.json"
VALUE_BYTES = 1024
BATCH = 2_000
#: Of Kafka's `kafka-server-start.sh` and `kafka-run-class.sh`.
JVM_FLAGS = ["-server", "-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
JVM_FLAGS += ["-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"]
SETTLE_S = 3.0
START_S = 120.0


class Kafka(brokers.ApacheKafka):
    """Apache Kafka as its own scripts start it."""

    def command(self) -> list[str]:
        """One JVM with Kafka's flags."""
        launcher, *_ = brokers.java_command("kafka.Kafka")
        log = f"-Dlog4j2.configurationFile={places.PEERS / 'log4j2.xml'}"
        jars = ["-cp", f"{places.JARS}/*", "kafka.Kafka"]
        return [launcher, *JVM_FLAGS, log, *jars, str(self._properties_path())]


KINDS: dict[str, Callable[[Path], brokers.Broker]] = {
    "kafka": Kafka,
    "kafkalite": brokers.Kafkalite,
}


@contextmanager
def serving(kind: str) -> Iterator[tuple[brokers.Broker, float]]:
    """A broker on a fresh directory, with the seconds of its start."""
    with tempfile.TemporaryDirectory(prefix="kafkalite-bench-") as folder:
        broker = KINDS[kind](Path(folder) / "data")
        seconds = broker.start(START_S, pause=0.001)
        try:
            yield broker, seconds
        finally:
            broker.stop()


def cpu_seconds(pid: int) -> float:
    """CPU that the process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def produce(servers: str, topic: str, records: int) -> None:
    """Send the records, acks=all, and wait until each is acknowledged."""
    values = [os.urandom(VALUE_BYTES // 2).hex().encode() for _ in range(BATCH)]
    with kl.Producer(bootstrap_servers=servers) as producer:
        for _ in range(records // BATCH):
            producer.send_batch(topic, values)
        producer.flush(timeout=300)


def consume(servers: str, topic: str, records: int) -> None:
    """Read the records from the beginning, in batches."""
    seen = 0
    with kl.Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        for batch in consumer.batches(timeout=60):
            seen += len(batch)
            if seen >= records:
                break
    if seen < records:
        raise AssertionError(f"{seen} of {records} records came back")


def claim_memory(folder: Path, size: int) -> None:
    """Have the machine hold ``size`` bytes of free memory that it need not ask its host for."""
    block = os.urandom(1 << 20)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(0, size, len(block)):
            file.write(block)


def loads(broker: brokers.Broker, topic: str, records: int) -> dict[str, float]:
    """CPU seconds of the broker for each GB that is written, and for each GB that is read."""
    with kl.AdminClient(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topic(topic, partitions=1)
    figures = {}
    gigabytes = records * VALUE_BYTES / 1e9
    for what, load in (("produce", produce), ("consume", consume)):
        claim_memory(broker.data_dir, 2 * records * VALUE_BYTES)
        used, begin = cpu_seconds(broker.pid), time.monotonic()
        load(broker.bootstrap, topic, records)
        figures[f"{what} cpu"] = (cpu_seconds(broker.pid) - used) / gigabytes
        figures[f"{what} mb/s"] = gigabytes * 1e3 / (time.monotonic() - begin)
    with kl.AdminClient(bootstrap_servers=broker.bootstrap) as admin:
        admin.delete_topic(topic)
    return figures


def measure(rounds: int, records: int, warm_up: int) -> dict[str, dict[str, list[float]]]:
    """All figures of both brokers."""
    figures: dict[str, dict[str, list[float]]] = {kind: {} for kind in KINDS}

    def note(kind: str, new: dict[str, float]) -> None:
        for name, value in new.items():
            figures[kind].setdefault(name, []).append(value)

    for _ in range(rounds):
        for kind in KINDS:
            with serving(kind) as (broker, seconds):
                time.sleep(SETTLE_S)
                note(kind, {"start": seconds, "idle mib": broker.rss_bytes() / 2**20})
    with serving("kafka") as (kafka, _), serving("kafkalite") as (ours, _):
        for number in range(warm_up + rounds):
            for kind, broker in (("kafka", kafka), ("kafkalite", ours)):
                found = loads(broker, f"round-{number}", records)
                note(kind, found if number >= warm_up else {})
    return figures


def rows(figures: dict[str, dict[str, list[float]]], command: str) -> list[dict[str, Any]]:
    """One row for each figure, as the scorecard wants them."""
    what = {
        "start": ("First answer after start", "s", 2),
        "idle mib": ("Memory when idle", "MiB", 0),
        "produce cpu": ("Broker's CPU for 1 GB produced, 1 KiB records", "s", 2),
        "consume cpu": ("Broker's CPU for 1 GB consumed, 1 KiB records", "s", 2),
        "produce mb/s": ("Produce, 1 KiB records, one client", "MB/s", 0),
        "consume mb/s": ("Consume, 1 KiB records, one client", "MB/s", 0),
    }
    found = []
    for name, (label, unit, digits) in what.items():
        theirs, ours = (statistics.median(figures[kind][name]) for kind in KINDS)
        ratio = ours / theirs if "/s" in unit else theirs / ours
        found.append(
            {
                "what": label,
                "who": f"Apache Kafka {places.KAFKA_VERSION}",
                "theirs": f"{theirs:.{digits}f} {unit}",
                "ours": f"{ours:.{digits}f} {unit}",
                "ratio": f"{ratio:.3g}",
                "command": command,
                "measured": datetime.date.today().isoformat(),
                # The other figures depend on what else the machine does.
                "readme": name in ("idle mib", "produce cpu", "consume cpu"),
            }
        )
    return found


def main() -> int:
    """Measure, print, and record if asked."""
    parser = argparse.ArgumentParser(description="The broker beside Apache Kafka.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=300_000, help="records of a round")
    parser.add_argument("--warm-up", type=int, default=3, help="rounds that are not counted")
    parser.add_argument("--record", action="store_true", help="replace the rows of ratios.json")
    options = parser.parse_args()
    command = "python benches/beside_kafka.py"
    figures = measure(options.rounds, options.records, options.warm_up)
    new = rows(figures, command)
    for row in new:
        print(f"{row['what']}: {row['theirs']}, kafkalite {row['ours']}, ratio {row['ratio']}")
    print(json.dumps(figures))
    if options.record:
        kept = [row for row in json.loads(RATIOS.read_text()) if row["command"] != command]
        RATIOS.write_text(json.dumps([*new, *kept], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
