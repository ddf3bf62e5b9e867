"""``kafkalite perf stages``: where requests spend their time."""

from __future__ import annotations

import json

import pytest

from kafkalite.cli.stages import Durations, _duration, parse, summaries
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


def test_stages_of_a_running_broker_are_shown(broker: Process) -> None:
    api_versions_error(broker.ready)
    done = told("perf", "stages", "--admin-url", broker.admin, "--api", "ApiVersions", "--json")
    rows = {row["stage"]: row for row in json.loads(done.stdout)}
    assert rows["total"]["count"] >= 1
    assert rows["total"]["p99_ms"] >= rows["total"]["p50_ms"] > 0


def test_a_broker_without_metrics_gets_a_hint() -> None:
    done = told("perf", "stages", "--admin-url", "http://127.0.0.1:1")
    assert done.returncode == 3
    assert done.stderr.splitlines()[0] == "error: cannot read http://127.0.0.1:1/metrics"


TWO_APIS = """
kafkalite_stage_duration_seconds_bucket{stage="total",api="Fetch",le="+Inf"} 4
kafkalite_stage_duration_seconds_sum{stage="total",api="Fetch"} 2.0
kafkalite_stage_duration_seconds_bucket{stage="remote",api="Fetch",le="+Inf"} 4
kafkalite_stage_duration_seconds_sum{stage="remote",api="Fetch"} 1.9
kafkalite_stage_duration_seconds_bucket{stage="total",api="Produce",le="+Inf"} 2
kafkalite_stage_duration_seconds_sum{stage="total",api="Produce"} 0.5
kafkalite_stage_duration_seconds_bucket{stage="local",api="Produce",le="+Inf"} 2
kafkalite_stage_duration_seconds_sum{stage="local",api="Produce"} 0.5
"""


def test_the_api_that_keeps_the_broker_busy_comes_first_and_waiting_does_not_count() -> None:
    told_of = [(row["api"], row["requests"], row["busy_s"]) for row in summaries(parse(TWO_APIS))]
    assert told_of == [("Produce", 2, 0.5), ("Fetch", 4, pytest.approx(0.1))]


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0.0123, "12 µs"), (1.234, "1.23 ms"), (45.67, "45.7 ms"), (999, "999 ms"), (1_500, "1.50 s")],
)
def test_a_time_has_its_unit(ms: float, text: str) -> None:
    assert _duration(ms) == text


def test_each_api_has_one_row_with_units(broker: Process) -> None:
    api_versions_error(broker.ready)
    # Other tests use this broker, so ApiVersions need not be among the busiest ten.
    shown = told("perf", "stages", "--admin-url", broker.admin, "--top", "100")
    head, *lines = shown.stdout.splitlines()
    assert head.split() == ["api", "requests", "busy", "mean", "p50", "p99", "longest", "stage"]
    apis = [line.split()[0] for line in lines]
    assert len(set(apis)) == len(apis)
    assert "ApiVersions" in apis
    assert all(" µs  " in line or " ms  " in line for line in lines)
    assert (
        len(told("perf", "stages", "--admin-url", broker.admin, "--top", "1").stdout.splitlines())
        == 2
    )


def test_an_api_that_is_mistyped_gets_a_hint_at_the_one_that_was_meant(broker: Process) -> None:
    api_versions_error(broker.ready)
    done = told("perf", "stages", "--admin-url", broker.admin, "--api", "ApiVersion")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (5, "hint: did you mean ApiVersions?")
