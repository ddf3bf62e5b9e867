"""Names of metrics: ours are in base units, as Prometheus asks: seconds, bytes, shares of one.

Source: Prometheus's guide to the naming of metrics, and its list of base units.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Words of other units.
OTHER_UNITS = {
    *("ns", "us", "ms", "nanos", "micros", "millis", "minutes", "hours", "days"),
    *("nanoseconds", "microseconds", "milliseconds", "sec", "secs", "min", "mins"),
    *("bits", "kb", "mb", "gb", "kib", "mib", "gib", "kilobytes", "megabytes"),
    *("percent", "percentage"),
}
#: Words of times: such a name ends in ``_seconds``.
TIMES = {"age", "busy", "delay", "duration", "elapsed", "latency", "throttled", "time", "wait"}


def wrong_with(name: str) -> str | None:
    """What is wrong with the name of a metric, without ``_total`` and what a histogram adds."""
    name = re.sub(r"_(?:total|bucket|count)$", "", name)
    words = name.split("_")
    if others := OTHER_UNITS.intersection(words):
        return f"{name} is in {', '.join(sorted(others))}"
    if TIMES.intersection(words) and words[-1] != "seconds":
        return f"{name} is a time, and does not end in _seconds"
    return None


def names() -> dict[str, str]:
    """Every metric of ours that the broker names, and a file that does."""
    folder = ROOT / "rust" / "broker" / "src"
    return {
        name: str(path.relative_to(ROOT))
        for path in sorted(folder.rglob("*.rs"))
        for name in re.findall(r'"(kafkalite_[a-z0-9_]+)"', path.read_text())
    }


def test_our_metrics_are_in_base_units() -> None:
    found = names()
    assert {"kafkalite_stage_duration_seconds", "kafkalite_io_threads_busy_seconds"} <= set(found)
    wrong = [f"{path}: {what}" for name, path in found.items() if (what := wrong_with(name))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("name", "is_wrong"),
    [
        ("kafkalite_io_threads_busy_ns_total", True),
        ("kafkalite_cold_read_throttled_microseconds", True),
        ("kafkalite_request_queue_wait", True),
        ("kafkalite_disk_used_percent", True),
        ("kafkalite_io_threads_busy_seconds_total", False),
        ("kafkalite_stage_duration_seconds_bucket", False),
        ("kafkalite_network_bytes_in_total", False),
        ("kafkalite_zero_copy_share", False),
    ],
)
def test_a_name_in_another_unit_is_found(name: str, is_wrong: bool) -> None:
    assert (wrong_with(name) is not None) == is_wrong
