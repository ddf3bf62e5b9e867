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
from typing import Any

import click

from .answers import answer_table, json_option, say
from .failures import CommandError, ExitCode
from .helping import examples
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

    def in_ms(self) -> dict[str, float]:
        """Return the mean and two quantiles in ms."""
        return {
            "mean_ms": round(self.sum_s / self.count * 1e3, 4),
            "p50_ms": round(self.quantile(0.5) * 1e3, 4),
            "p99_ms": round(self.quantile(0.99) * 1e3, 4),
        }

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
            hint="pass the address that the broker prints after `admin:` with --admin-url.",
            exit_code=ExitCode.UNREACHABLE,
        ) from None


def rows(stages: Stages, api: str | None = None) -> list[dict[str, Any]]:
    """Return a row for each API and stage that has seen something; times in ms."""
    seen = [(key, at) for key, at in stages.items() if at.count and api in (None, key[0])]
    # A stage that a later broker has comes last.
    order = {stage: at for at, stage in enumerate(_ORDER)}
    seen.sort(key=lambda row: (row[0][0], order.get(row[0][1], len(order)), row[0][1]))
    return [
        {"api": key[0], "stage": key[1], "count": int(at.count)} | at.in_ms() for key, at in seen
    ]


def summaries(stages: Stages) -> list[dict[str, object]]:
    """Return a row for each API that has seen something, the busiest first; times in ms.

    What a request waits for (the stage ``remote``: other replicas, records that have still to
    come) keeps no thread busy, and does not count here.
    """
    totals = {api: at for (api, stage), at in stages.items() if stage == "total" and at.count}
    shares: dict[str, dict[str, float]] = {api: {} for api in totals}
    for (api, stage), at in stages.items():
        if api in totals and stage != "total" and at.count:
            shares[api][stage] = at.sum_s
    busy = {api: at.sum_s - shares[api].get("remote", 0.0) for api, at in totals.items()}
    return [
        {
            "api": api,
            "requests": int(totals[api].count),
            "busy_s": round(busy[api], 6),
            **totals[api].in_ms(),
            "stages_s": {stage: round(sum_s, 6) for stage, sum_s in shares[api].items()},
        }
        for api in sorted(totals, key=lambda api: -busy[api])
    ]


def _in_words(row: dict[str, Any]) -> dict[str, object]:
    """Return a summary with units, and with the stage that takes most of the time."""
    stages: dict[str, float] = row["stages_s"]
    longest = max(stages, key=lambda stage: stages[stage], default=None)
    whole = sum(stages.values())
    share = "" if longest is None or not whole else f"{longest} {stages[longest] / whole:.0%}"
    times = {name: _duration(row[f"{name}_ms"]) for name in ("mean", "p50", "p99")}
    return row | times | {"busy": _duration(row["busy_s"] * 1e3), "longest_stage": share}


def _duration(ms: float) -> str:
    """Return a time with its unit: three digits are enough."""
    if ms < 1:
        return f"{ms * 1e3:.0f} µs"
    number, unit = (ms, "ms") if ms < 1_000 else (ms / 1e3, "s")
    digits = 2 if number < 10 else 1 if number < 100 else 0
    return f"{number:.{digits}f} {unit}"


@click.command(
    "stages",
    epilog=examples(
        "kafkalite perf stages",
        "kafkalite perf stages --seconds 10 --top 3",
        "kafkalite perf stages --api Produce",
    ),
)
@click.option(
    "--admin-url",
    default="http://127.0.0.1:9644",
    show_default=True,
    help="Admin address of the broker, as `serve` prints it after `admin:`.",
)
@click.option("--api", help="API to show stage by stage: Produce, Fetch, ...")
@click.option(
    "--top", type=click.IntRange(1), default=10, show_default=True, help="Number of APIs to show."
)
@click.option("--seconds", type=Seconds(min_open=True), help="Only count the last SECONDS seconds.")
@json_option
def stages(admin_url: str, api: str | None, top: int, seconds: float | None, as_json: bool) -> None:
    """Show the busiest APIs of a broker, and the stages where their requests spend time.

    busy is the time of all requests without their waits for replicas and new records. mean, p50 and
    p99 are times of a whole request.
    """
    found = read(admin_url)
    if seconds is not None:
        say(f"looking for {seconds:g} s ...")
        time.sleep(seconds)
        later = read(admin_url)
        found = {key: at.since(found.get(key, Durations())) for key, at in later.items()}
    if api is None:
        told = summaries(found)[:top]
        shown = told if as_json else [_in_words(row) for row in told]
        columns = ["api", "requests", "busy", "mean", "p50", "p99", "longest_stage"]
        return answer_table(shown, columns, as_json=as_json)
    names = {name.lower(): name for name, _ in found}
    known = names.get(api.lower())
    if known is None:
        raise _unknown(api, names)
    columns = ["stage", "count", "mean", "p50", "p99"]
    lines: list[dict[str, Any]] = rows(found, known)
    if not as_json:
        for row in lines:
            row |= {name: _duration(row[f"{name}_ms"]) for name in columns[2:]}
    return answer_table(lines, columns, as_json=as_json)


def _unknown(api: str, names: dict[str, str]) -> CommandError:
    from ..config_table import nearest

    meant = nearest(api.lower(), sorted(names))
    return CommandError(
        f"the broker has seen no request of {api}",
        hint=f"did you mean {names[meant]}?" if meant else "without --api the APIs are listed.",
        exit_code=ExitCode.NOT_FOUND,
    )
