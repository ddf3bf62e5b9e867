"""``kafkalite perf stages``: where requests spend their time inside a broker of ours.

Read from its ``/metrics``: for each API and stage a histogram, cumulative, with bounds in
seconds. Two readings make the difference of a span; one is the sum since the start.
"""

from __future__ import annotations

import http.client
import re
import time
import urllib.request
from dataclasses import dataclass, field

import click

from .answers import answer_table, json_option, say
from .failures import CommandError, ExitCode
from .places import Seconds

_LINE = re.compile(
    r'kafkalite_stage_duration_seconds_(bucket|sum)\{stage="(\w+)",api="(\w+)"'
    r'(?:,le="([^"]+)")?\} (\S+)'
)

#: In the order a request meets them.
_ORDER = (
    "network",
    "request_queue",
    "local",
    "append",
    "remote",
    "cold_read",
    "response_queue",
    "response_send",
    "total",
)


@dataclass
class Durations:
    """A histogram: how many durations were up to each bound, in seconds."""

    sum_s: float = 0.0
    below: dict[float, float] = field(default_factory=dict)

    @property
    def count(self) -> float:
        """How many there are."""
        return self.below.get(float("inf"), 0.0)

    def since(self, before: Durations) -> Durations:
        """Return those that came after ``before`` was read."""
        below = {bound: n - before.below.get(bound, 0.0) for bound, n in self.below.items()}
        return Durations(self.sum_s - before.sum_s, below)

    def quantile(self, share: float) -> float:
        """Return the seconds below which that share of them lies, interpolated."""
        rank, low, under = share * self.count, 0.0, 0.0
        for bound, n in sorted(self.below.items()):
            if n >= rank and n > under:
                if bound == float("inf"):
                    return low
                return low + (bound - low) * (rank - under) / (n - under)
            low, under = bound, n
        return low


Stages = dict[tuple[str, str], Durations]


def parse(metrics: str) -> Stages:
    """Return the histograms of OpenMetrics text by API and stage."""
    found: Stages = {}
    for kind, stage, api, bound, value in _LINE.findall(metrics):
        durations = found.setdefault((api, stage), Durations())
        if kind == "sum":
            durations.sum_s = float(value)
        else:
            durations.below[float(bound)] = float(value)
    return found


def read(admin_url: str, timeout: float = 10.0) -> Stages:
    """Ask a broker.

    Raises:
        CommandError: It cannot be reached, or has no such metrics.
    """
    url = admin_url.rstrip("/") + "/metrics"
    try:
        if not url.startswith(("http://", "https://")):
            raise ValueError("not a URL of http")
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return parse(answer.read().decode())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise CommandError(
            f"cannot read {url}",
            why=[str(getattr(error, "reason", error)).lower()],
            hint="give what stands behind `admin:` when the broker starts, with --admin-url.",
            exit_code=ExitCode.UNREACHABLE,
        ) from None


def rows(stages: Stages, api: str | None = None) -> list[dict[str, object]]:
    """Return a row for each API and stage that has seen something; times in ms."""
    seen = [(key, at) for key, at in stages.items() if at.count and api in (None, key[0])]
    # A stage that a later broker has comes last.
    order = {stage: at for at, stage in enumerate(_ORDER)}
    seen.sort(key=lambda row: (row[0][0], order.get(row[0][1], len(order)), row[0][1]))
    return [
        {
            "api": key[0],
            "stage": key[1],
            "count": int(at.count),
            "mean_ms": round(at.sum_s / at.count * 1e3, 4),
            "p50_ms": round(at.quantile(0.5) * 1e3, 4),
            "p99_ms": round(at.quantile(0.99) * 1e3, 4),
        }
        for key, at in seen
    ]


@click.command("stages")
@click.option(
    "--admin-url",
    default="http://127.0.0.1:9644",
    show_default=True,
    help="Of the broker's metrics and health.",
)
@click.option("--api", help="Only this API: Produce, Fetch, ...")
@click.option("--seconds", type=Seconds(min_open=True), help="Only count the last SECONDS seconds.")
@json_option
def stages(admin_url: str, api: str | None, seconds: float | None, as_json: bool) -> None:
    """Tell where requests spend their time inside a broker."""
    found = read(admin_url)
    if seconds is not None:
        say(f"looking for {seconds:g} s ...")
        time.sleep(seconds)
        later = read(admin_url)
        found = {key: at.since(found.get(key, Durations())) for key, at in later.items()}
    columns = ["api", "stage", "count", "mean_ms", "p50_ms", "p99_ms"]
    answer_table(rows(found, api), columns, as_json=as_json)
