"""``kafkalite perf stages``: where requests spend their time."""

from __future__ import annotations

import json

import pytest

from kafkalite.cli.stages import Durations, parse
from tests.harness.process import Process
from tests.unit.test_command_line import told
from tests.unit.test_serve import api_versions_error

METRICS = """
kafkalite_stage_duration_seconds_bucket{stage="local",api="Fetch",le="0.001"} 8
kafkalite_stage_duration_seconds_bucket{stage="local",api="Fetch",le="0.002"} 10
kafkalite_stage_duration_seconds_bucket{stage="local",api="Fetch",le="+Inf"} 10
kafkalite_stage_duration_seconds_count{stage="local",api="Fetch"} 10
kafkalite_stage_duration_seconds_sum{stage="local",api="Fetch"} 0.005
"""


def test_histograms_are_read_from_metrics() -> None:
    ((key, found),) = parse(METRICS).items()
    assert (key, found.count, found.sum_s) == (("Fetch", "local"), 10, 0.005)
    assert found.quantile(0.4) == pytest.approx(0.0005)
    assert found.quantile(0.9) == pytest.approx(0.0015)


def test_a_span_is_the_difference_of_two_readings() -> None:
    before = Durations(0.004, {0.001: 8, float("inf"): 9})
    span = parse(METRICS)["Fetch", "local"].since(before)
    assert (span.count, round(span.sum_s, 6)) == (1, 0.001)


def test_stages_of_a_running_broker_are_told(broker: Process) -> None:
    api_versions_error(broker.ready)
    done = told("perf", "stages", "--admin-url", broker.admin, "--api", "ApiVersions", "--json")
    rows = {row["stage"]: row for row in json.loads(done.stdout)}
    assert rows["total"]["count"] >= 1
    assert rows["total"]["p99_ms"] >= rows["total"]["p50_ms"] > 0


def test_a_broker_without_metrics_is_told_with_a_hint() -> None:
    done = told("perf", "stages", "--admin-url", "http://127.0.0.1:1")
    assert done.returncode == 3
    assert done.stderr.splitlines()[0] == "error: cannot read http://127.0.0.1:1/metrics"
