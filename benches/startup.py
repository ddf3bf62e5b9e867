"""Start-up and memory of an idle broker.

- from the start of the process to the first ApiVersions answer, beside ``python3 -c pass``, the
  floor of anything that Python starts;
- a broker started inside a Python process, from the call until it serves, and many of them made
  and started one after the other, with topics;
- three brokers of one cluster, in one process and in three, from the call until all serve;
- ``import kafkalite`` and ``kafkalite --version``;
- resident memory when idle, and with many idle partitions, as it is and after a restart.

    python benches/startup.py            # prints the figures, exits with 1 when a gate is missed
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from servers import API_VERSIONS, create_topics, exchange, serving

TOPICS, PARTITIONS_EACH = 10, 1000
DESCRIPTORS = 20_000
SETTLE_S = 1.0
MANY = """
import time
from kafkalite import Broker
for _ in range(50):
    begin = time.monotonic()
    broker = Broker(topics={"orders": 3})
    broker.start()
    print(time.monotonic() - begin)
    broker.close()
"""
CLUSTER = """
import sys, time
from kafkalite import Cluster
for _ in range(10):
    begin = time.monotonic()
    cluster = Cluster(3, in_process=sys.argv[1] == "in_process")
    cluster.start()
    print(time.monotonic() - begin)
    cluster.close()
"""
IMPORT = "import time; t = time.monotonic(); import kafkalite; print(time.monotonic() - t)"
EMBEDDED = """
import sys, time
from kafkalite import Broker
broker = Broker(data_dir=sys.argv[1])
begin = time.monotonic()
broker.start()
print(time.monotonic() - begin)
broker.stop()
"""


def _milliseconds(values: list[float]) -> dict[str, float]:
    return {
        "median_ms": statistics.median(values) * 1e3,
        "min_ms": min(values) * 1e3,
        "max_ms": max(values) * 1e3,
    }


def python_floor(rounds: int) -> dict[str, float]:
    """How long this interpreter takes to do nothing."""
    times = []
    for _ in range(rounds):
        begin = time.monotonic()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times.append(time.monotonic() - begin)
    return _milliseconds(times)


def first_answer(server_name: str, rounds: int) -> dict[str, float]:
    """From the start of the process to its first ApiVersions answer, on an empty directory."""
    times = []
    for _ in range(rounds):
        with serving(server_name) as server, server.connect() as connection:
            exchange(connection, API_VERSIONS, 0)
            times.append(time.monotonic() - server.started_at)
    return _milliseconds(times)


def embedded_start(rounds: int) -> dict[str, float]:
    """From the call of ``Broker.start()`` until it serves, each time in a fresh process."""
    times = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="kafkalite-bench-") as directory:
            command = [sys.executable, "-c", EMBEDDED, directory]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            times.append(float(done.stdout))
    return _milliseconds(times)


def many_brokers() -> dict[str, float]:
    """From ``Broker(...)`` until it serves, 50 times in one process."""
    done = subprocess.run([sys.executable, "-c", MANY], check=True, capture_output=True, text=True)
    return _milliseconds([float(line) for line in done.stdout.split()])


def cluster(how: str) -> dict[str, float]:
    """From ``Cluster(3)`` until three brokers serve, ten times in one process."""
    command = [sys.executable, "-c", CLUSTER, how]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return _milliseconds([float(line) for line in done.stdout.split()])


def package_import(rounds: int) -> dict[str, float]:
    """``import kafkalite``, each time in a fresh process."""
    command = [sys.executable, "-c", IMPORT]
    runs = (subprocess.run(command, check=True, capture_output=True) for _ in range(rounds))
    return _milliseconds([float(done.stdout) for done in runs])


def version(rounds: int) -> dict[str, float]:
    """``kafkalite --version``, the whole process."""
    times = []
    for _ in range(rounds):
        begin = time.monotonic()
        command = [sys.executable, "-m", "kafkalite", "--version"]
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.monotonic() - begin)
    return _milliseconds(times)


def allow_descriptors() -> None:
    """Lets the servers started from here have just ``DESCRIPTORS``, as far as the system does."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def memory(server_name: str) -> dict[str, float]:
    """Resident memory idle and per idle partition, before and after a restart."""
    allow_descriptors()
    partitions = TOPICS * PARTITIONS_EACH
    with tempfile.TemporaryDirectory(prefix="kafkalite-bench-") as parent:
        data_dir = Path(parent) / "data"
        data_dir.mkdir()
        with serving(server_name, data_dir) as server, server.connect() as connection:
            exchange(connection, API_VERSIONS, 0)
            time.sleep(SETTLE_S)
            idle_kib = server.memory_kib("VmRSS")
            begin = time.monotonic()
            create_topics(connection, TOPICS, PARTITIONS_EACH)
            created_s = time.monotonic() - begin
            time.sleep(SETTLE_S)
            loaded_kib, peak_kib = server.memory_kib("VmRSS"), server.memory_kib("VmHWM")
        with serving(server_name, data_dir) as server, server.connect() as connection:
            exchange(connection, API_VERSIONS, 0)
            restarted_s = time.monotonic() - server.started_at
            time.sleep(SETTLE_S)
            restarted_kib = server.memory_kib("VmRSS")
    return {
        "idle_rss_mib": idle_kib / 1024,
        "partitions": partitions,
        "creation_s": created_s,
        "rss_per_partition_kib": (loaded_kib - idle_kib) / partitions,
        "peak_rss_mib": peak_kib / 1024,
        "restart_to_first_answer_ms": restarted_s * 1e3,
        "rss_per_partition_after_restart_kib": (restarted_kib - idle_kib) / partitions,
    }


def measure(server_name: str, rounds: int) -> dict[str, dict[str, float]]:
    """All figures of this page; the ceiling has neither ApiVersions nor topics, so none of it."""
    figures = {"python -c pass": python_floor(rounds)}
    if not server_name.startswith("ceiling:"):
        figures["first ApiVersions answer"] = first_answer(server_name, rounds)
        if server_name.split()[0] == "kafkalite":
            figures["embedded start"] = embedded_start(rounds)
            figures["Broker() ready, 50 times"] = many_brokers()
            for how in ("in_process", "processes"):
                figures[f"Cluster(3) ready, {how}"] = cluster(how)
            figures["import kafkalite"] = package_import(rounds)
            figures["kafkalite --version"] = version(rounds)
        figures["memory"] = memory(server_name)
    return figures


def missed(figures: dict[str, dict[str, float]]) -> list[str]:
    """The gates that ``figures`` of the broker miss."""
    floor = figures["python -c pass"]["median_ms"]
    used = figures["memory"]
    gates = {
        "first ApiVersions answer <= 3 x python -c pass": (
            figures["first ApiVersions answer"]["median_ms"] <= 3 * floor
        ),
        "embedded start <= 20 ms": figures["embedded start"]["median_ms"] <= 20,
        "Broker() ready <= 20 ms": figures["Broker() ready, 50 times"]["median_ms"] <= 20,
        "Cluster(3) ready <= 500 ms": max(
            figures[f"Cluster(3) ready, {how}"]["median_ms"] for how in ("in_process", "processes")
        )
        <= 500,
        "import kafkalite <= 60 ms": figures["import kafkalite"]["median_ms"] <= 60,
        "kafkalite --version <= 200 ms": figures["kafkalite --version"]["median_ms"] <= 200,
        "idle RSS <= 30 MiB": used["idle_rss_mib"] <= 30,
        "RSS per idle partition <= 4 KiB": max(
            used["rss_per_partition_kib"], used["rss_per_partition_after_restart_kib"]
        )
        <= 4,
    }
    return [gate for gate, holds in gates.items() if not holds]


def table(figures: dict[str, dict[str, float]]) -> str:
    """The figures in Markdown, one thing a line."""
    lines = ["| what | figures |", "|---|---|"]
    for name, values in figures.items():
        lines.append(f"| {name} | {', '.join(f'{k} {v:.1f}' for k, v in values.items())} |")
    return "\n".join(lines)


def main() -> int:
    """Measure the broker and judge it."""
    figures = measure("kafkalite", 9)
    print(table(figures))
    for gate in (gates := missed(figures)):
        print(f"MISSED: {gate}")
    return int(bool(gates))


if __name__ == "__main__":
    sys.exit(main())
