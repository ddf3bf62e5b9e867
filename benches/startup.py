"""Start-up and memory of an idle broker.

- from the start of the process to the first ApiVersions answer, beside ``python3 -c pass``, the
  floor of anything that Python starts;
- resident memory when idle, and with many idle partitions, as it is and after a restart.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from servers import API_VERSIONS, create_topics, exchange, serving

TOPICS, PARTITIONS_EACH = 10, 1000
SETTLE_S = 1.0


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


def memory(server_name: str) -> dict[str, float]:
    """Resident memory idle and per idle partition, before and after a restart."""
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
        figures["memory"] = memory(server_name)
    return figures
