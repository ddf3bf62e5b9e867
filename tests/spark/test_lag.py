"""Lag is the distance from the end of a micro-batch to the end of its partitions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkalite_spark.lag import lag_of


def progress(*sources: dict[str, Any]) -> dict[str, Any]:
    return {
        "sources": list(sources),
        "durationMs": {"triggerExecution": 120},
        "processedRowsPerSecond": 250.0,
    }


def source(end: Any, latest: Any) -> dict[str, Any]:
    return {"endOffset": json.dumps(end), "latestOffset": json.dumps(latest)}


def test_lag_is_counted_by_partition_over_all_sources() -> None:
    one = source({"a": {"0": 5, "1": 9}}, {"a": {"0": 25, "1": 9}})
    two = source({"b": {"0": 1}}, {"b": {"0": 2}})
    lag = lag_of(progress(one, two))
    assert lag is not None
    assert lag.partitions == {("a", 0): 20, ("a", 1): 0, ("b", 0): 1}
    assert (lag.total, lag.batch_ms, lag.rows_per_s) == (21, 120.0, 250.0)
    assert lag.source == "kafkalite[a, b]"


def test_an_unread_partition_and_a_shortened_one_have_no_lag() -> None:
    lag = lag_of(progress(source({"a": {"0": 5}}, {"a": {"0": 3, "1": 7}})))
    assert lag is not None
    assert lag.total == 0


@pytest.mark.parametrize(
    ("end", "latest"), [(7, 9), ({"at": 3}, {"at": 4}), (None, None), ("x", "y")]
)
def test_other_sources_have_no_lag(end: Any, latest: Any) -> None:
    assert lag_of(progress(source(end, latest))) is None
