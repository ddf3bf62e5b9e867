"""``kafkalite perf``: it counts right; how fast it is, is for benches."""

from __future__ import annotations

import json

import pytest

from tests.harness.process import Process
from tests.unit.test_command_line import told


@pytest.mark.parametrize(
    ("test", "by"),
    [
        ("produce", "batch"),
        ("produce", "record"),
        ("produce", "delivery"),
        ("consume", "batch"),
        ("consume", "list"),
        ("consume", "record"),
        ("consume", "arrow"),
    ],
)
def test_records_are_counted(broker: Process, test: str, by: str) -> None:
    words = ("--by", by, "-n", "2500", "-s", "100", "-p", "2", "--json")
    done = told("perf", test, *words, "-b", broker.ready)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["records"], row["bytes"]) == (2500, 250_000)
    assert row["records_per_s"] > 0


def test_latencies_are_in_order(broker: Process) -> None:
    (row,) = json.loads(told("perf", "e2e", "-n", "20", "--json", "-b", broker.ready).stdout)
    assert 0 < row["p50_ms"] <= row["p90_ms"] <= row["p99_ms"] <= row["max_ms"]


def test_its_topic_is_deleted_and_without_a_cluster_there_is_a_broker(broker: Process) -> None:
    told("perf", "produce", "-n", "10", "-b", broker.ready)
    listed = told("topics", "list", "--json", "-b", broker.ready).stdout
    assert "kafkalite-perf" not in listed
    done = told("perf", "produce", "-n", "10")
    assert done.returncode == 0
    assert done.stderr.startswith("a broker of its own: 127.0.0.1:")
