"""Run the broker against the ceiling, A B A B, and judge the ratios.

    python benches/run.py                     # the broker against the ceiling, all workloads
    python benches/run.py --candidate ceiling:queued --only produce-16k
    python benches/run.py --gate              # exit with 1 when a ratio misses its gate

Each round starts both servers one after the other on fresh directories, drives them with the same
load and reads every record back. The ratio is taken inside a round; medians are over the rounds. A
round during which other processes took much of the machine is measured again. MB/s moves with the
machine, CPU seconds per GB and syscalls per request hardly do: trust those first.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import startup
from servers import Server, serving, target_dir

ROOT = Path(__file__).resolve().parent.parent
PERF_EVENTS = "raw_syscalls:sys_enter,context-switches"
Figures = dict[str, Any]


@dataclass(frozen=True)
class Workload:
    """One load, the ceiling's mode it is compared with, and the gates on the ratios."""

    name: str
    baseline: str
    flags: dict[str, str]
    min_ratio: float
    max_cpu_ratio: float | None = None
    partitions: int = 1
    fill: dict[str, str] = field(default_factory=dict)


def _produce(batch_bytes: int, connections: int, **more: str) -> dict[str, str]:
    flags = {"batch-bytes": str(batch_bytes), "connections": str(connections), "in-flight": "5"}
    # 1 GB at most: more dirty pages and the kernel would measure its own throttling.
    return flags | {"seconds": "1.5", "max-megabytes": "1000"} | more


WORKLOADS = [
    Workload("produce-16k", "ceiling:inline", _produce(16_384, 1), min_ratio=0.7),
    Workload("produce-1k", "ceiling:inline", _produce(1024, 1), min_ratio=0.7),
    Workload("produce-128k", "ceiling:queued", _produce(131_072, 4), 0.65, partitions=4),
    Workload(
        "fetch-1m",
        "ceiling:inline",
        {"mode": "fetch", "fetch-bytes": str(1 << 20), "in-flight": "2", "seconds": "1"}
        # 16 offsets in turn, each 16 batches of 16 records after the one before.
        | {"fetch-stride": "256", "warm-up": "200"},
        min_ratio=0.6,
        max_cpu_ratio=2.0,
        fill=_produce(16_384, 1, **{"max-megabytes": "64"}),
    ),
]


def load(server: Server, flags: dict[str, str]) -> Figures:
    """Run the load once and return its figures, among them what the server's process used."""
    return load_at(server.address, flags | {"server-pid": str(server.pid)})


def load_at(address: str, flags: dict[str, str]) -> Figures:
    """Run the load once and return its own figures."""
    words = [word for name, value in flags.items() for word in (f"--{name}", value)]
    command = [str(target_dir() / "load"), "--address", address, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    figures: Figures = json.loads(done.stdout)
    return figures


def counted(server: Server, flags: dict[str, str]) -> Figures:
    """Syscalls and context switches a request, from a short run of its own under ``perf``.

    Counting costs time, so it never happens in the run that is timed. Without ``perf`` or the right
    to use it the result is empty.
    """
    if shutil.which("perf") is None:
        return {}
    output = server.data_dir.with_suffix(".perf")
    command = ["perf", "stat", "-x,", "-o", str(output), "-e", PERF_EVENTS, "-p", str(server.pid)]
    perf = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.3)
    figures = load(server, flags | {"seconds": "0.5"})
    perf.send_signal(signal.SIGINT)
    perf.wait(timeout=10)
    lines = output.read_text().splitlines() if output.exists() else []
    output.unlink(missing_ok=True)
    counts = [line.split(",")[0] for line in lines if "," in line and not line.startswith("#")]
    if len(counts) != 2 or not all(count.isdigit() for count in counts):
        return {}
    requests = figures["requests_with_warm_up"]
    syscalls, switches = (int(count) / requests for count in counts)
    return {
        "syscalls_per_request": syscalls,
        "context_switches_per_request": switches,
        "records_with_warm_up": figures["records_with_warm_up"],
    }


def measure(server_name: str, workload: Workload) -> Figures:
    """One server, one workload: the timed run, the counted run, and every record read back."""
    with serving(server_name) as server:
        ceiling = server_name.startswith("ceiling:")
        where = {"partitions": str(workload.partitions)}
        create = {} if ceiling else {"create": "true"}
        records = 0.0
        if workload.fill:
            records += load(server, workload.fill | where | create)["records_with_warm_up"]
            create = {}
        figures = load(server, workload.flags | where | create)
        counts = counted(server, workload.flags | where)
        records += figures["records_with_warm_up"] + counts.pop("records_with_warm_up", 0)
        check = {"mode": "verify", "records": str(int(records)), "fetch-bytes": str(8 << 20)}
        load(server, check | where)
        return figures | counts | {"peak_rss_mib": server.memory_kib("VmHWM") / 1024}


@dataclass
class Result:
    """All rounds of one workload."""

    workload: Workload
    rounds: list[tuple[Figures, Figures]]
    noisy: int

    def ratios(self, figure: str) -> list[float]:
        """Candidate to baseline, round by round."""
        return [b[figure] / a[figure] for a, b in self.rounds if a.get(figure)]

    def passes(self) -> bool:
        """Whether the medians meet the gates."""
        fast = statistics.median(self.ratios("megabytes_per_second")) >= self.workload.min_ratio
        limit = self.workload.max_cpu_ratio
        cpu = statistics.median(self.ratios("server_cpu_seconds_per_gb"))
        return fast and (limit is None or cpu <= limit)


def compare(workload: Workload, candidate: str, rounds: int, max_foreign: float) -> Result:
    """Alternate baseline and candidate; who begins alternates too."""
    result = Result(workload, [], 0)
    attempts = 0
    while len(result.rounds) < rounds:
        names = [workload.baseline, candidate]
        order = names if attempts % 2 == 0 else names[::-1]
        attempts += 1
        measured = [measure(name, workload) for name in order]
        noisy = max(figures["foreign_cpu_percent"] for figures in measured) > max_foreign
        # Twice the rounds may be noisy; a machine that is never quiet is measured as it is.
        if noisy and result.noisy < 2 * rounds:
            result.noisy += 1
            continue
        baseline, own = measured if order == names else measured[::-1]
        result.rounds.append((baseline, own))
    return result


def spread(values: list[float]) -> str:
    """Median with minimum and maximum."""
    if not values:
        return "-"
    digits = 2 if max(values) < 100 else 0
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f} [{low:.{digits}f}-{high:.{digits}f}]"


FIGURES = [
    "megabytes_per_second",
    "requests_per_second",
    "p50_us",
    "p99_us",
    "p999_us",
    "server_cpu_seconds_per_gb",
    "server_cpu_us_per_request",
    "syscalls_per_request",
    "context_switches_per_request",
    "server_file_syscalls_per_request",
    "peak_rss_mib",
]


def report(result: Result, candidate: str) -> str:
    """A table in Markdown, one figure a line."""
    workload = result.workload
    verdict = "pass" if result.passes() else "MISSED"
    gate = f"throughput >= {workload.min_ratio}"
    if workload.max_cpu_ratio is not None:
        gate += f", CPU <= {workload.max_cpu_ratio}"
    noise = f"{len(result.rounds)} rounds, {result.noisy} measured again"
    lines = [
        f"\n### {workload.name}: {verdict} ({gate}; {noise})\n",
        f"| figure | {workload.baseline} | {candidate} | ratio |",
        "|---|---|---|---|",
    ]
    for figure in FIGURES:
        sides = [[r[side][figure] for r in result.rounds if figure in r[side]] for side in (0, 1)]
        cells = [spread(sides[0]), spread(sides[1]), spread(result.ratios(figure))]
        lines.append(f"| {figure} | {' | '.join(cells)} |")
    return "\n".join(lines)


def environment(arguments: list[str]) -> Figures:
    """What a figure means nothing without."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    congestion = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    models = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "commit": commit.stdout.strip(),
        "kernel": platform.release(),
        "cpu": f"{os.cpu_count()} x {models[0] if models else platform.machine()}",
        "congestion_control": congestion,
        "command": " ".join(["benches/run.py", *arguments]),
    }


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--candidate", default="kafkalite", help="kafkalite, ceiling:MODE, command")
    parser.add_argument("--rounds", type=int, default=5)
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument("--only", nargs="*", choices=[*names, "startup"], default=[])
    parser.add_argument("--max-foreign-percent", type=float, default=10.0)
    parser.add_argument("--output", type=Path, help="also write everything as JSON")
    parser.add_argument("--gate", action="store_true", help="exit with 1 when a gate is missed")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Build the programs, run what was asked for, print and judge."""
    options = parse(arguments)
    build = ["cargo", "build", "--release", "-p", "kafkalite-benches", "--bins", "--quiet"]
    subprocess.run(build, cwd=ROOT, check=True)
    about = environment(arguments)
    print("\n".join(f"- {name}: {value}" for name, value in about.items()), flush=True)
    wanted = [w for w in WORKLOADS if not options.only or w.name in options.only]
    results = []
    for workload in wanted:
        # The first round on a machine pays for memory that it never touched before.
        measure(workload.baseline, workload)
        result = compare(workload, options.candidate, options.rounds, options.max_foreign_percent)
        results.append(result)
        print(report(result, options.candidate), flush=True)
    started: dict[str, dict[str, float]] = {}
    if not options.only or "startup" in options.only:
        started = startup.measure(options.candidate, max(options.rounds, 5))
        print(f"\n### start-up and memory\n\n{startup.table(started)}")
    if options.output:
        rows = [asdict(result) for result in results]
        options.output.write_text(json.dumps([about, rows, started], indent=1) + "\n")
    return int(options.gate and not all(result.passes() for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
