"""One command for all suites, with a bound on the time of each.

``python -m tests.conformance.run`` runs everything against our broker; ``--slice`` runs what fits
into CI; ``--suite NAME`` picks suites; ``--broker kafka`` judges the judges. ``--results FILE``
adds the counts of each suite to the file. What follows ``--`` goes to pytest. Exit status: 0 all
passed, 1 something failed or took too long, 2 usage.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.conformance import prerequisites, results
from tests.harness import places


@dataclass(frozen=True)
class Suite:
    """Some test files, and the seconds they may take: in full and in the slice."""

    files: tuple[str, ...]
    seconds: int
    slice_seconds: int
    #: Runs with the frameworks' own venv: they pin clients that the other suites have newer.
    frameworks: bool = False


#: Seconds for all of the slice. It is less than the 30 minutes in `.ci/run`, so that a suite that
#: hangs is named.
SLICE_SECONDS = 1_740

#: A suite's seconds in the slice are about twice what two idle cores need. What suites leave over
#: goes to those after them: a busy machine is slow in all of them, a hang is in one.
SUITES: dict[str, Suite] = {
    "checker": Suite(("test_checker.py", "test_wire.py"), 60, 30),
    "differential": Suite(("test_differential.py",), 300, 180),
    "kcat": Suite(("test_kcat.py",), 180, 60),
    "python": Suite(("test_confluent.py", "test_aiokafka.py", "test_kafka_python.py"), 300, 120),
    "java": Suite(
        ("test_java_tools.py", "test_client_metrics.py", "test_java_cluster.py"), 600, 300
    ),
    "streams": Suite(("test_streams.py",), 300, 120),
    "interop": Suite(("test_interop.py",), 300, 90),
    "segments": Suite(("test_segments.py",), 300, 120),
    "kgo": Suite(("test_kgo.py",), 2_400, 200),
    "go-clients": Suite(("test_go_clients.py",), 300, 60),
    "sarama": Suite(("test_sarama.py",), 900, 90),
    "kafkajs": Suite(("test_kafkajs.py",), 120, 60),
    "flights": Suite(("test_flights.py",), 1_500, 120),
    "crash": Suite(("test_crash.py",), 900, 120),
    "chase": Suite(("test_chase.py",), 1_200, 150),
    "failover": Suite(("test_failover.py",), 900, 120),
    "partitions": Suite(("test_partitions.py",), 900, 90),
    "chaos": Suite(("test_chaos.py",), 1_200, 90),
    "faults": Suite(("test_fault_rows.py", "test_stuck.py"), 600, 150),
    "rolling-upgrade": Suite(("test_rolling_upgrade.py",), 300, 120),
    "examples": Suite(("test_examples.py",), 180, 60),
    "hostile": Suite(("test_hostile.py",), 900, 220),
    "frameworks": Suite(("../frameworks",), 600, 150, frameworks=True),
}


def bound_in_slice(seconds_left: float, name: str, later: list[str]) -> float:
    """Seconds for a suite in the slice: all that are left but what those after it will need."""
    needed = sum(SUITES[other].slice_seconds / 2 for other in later)
    return max(SUITES[name].slice_seconds / 2, seconds_left - needed)


def run_suite(
    name: str, bound: float, options: argparse.Namespace, rest: list[str], folder: str
) -> str:
    """Run one suite in a process group of its own for ``bound`` seconds; return the outcome."""
    suite = SUITES[name]
    files = [str((places.CONFORMANCE / file).resolve()) for file in suite.files]
    python, environment = sys.executable, dict(os.environ)
    if suite.frameworks:
        python = str(places.FRAMEWORKS_PYTHON)
        environment["PYTHONPATH"] = str(places.CHECKOUT / "python")
    command = [python, "-m", "pytest", "-q", "--broker", options.broker, *files]
    if options.slice:
        command.append("--slice")
    report = Path(folder) / f"{name}.xml"
    # The family that has properties, which are counts of steps.
    command += [f"--junitxml={report}", "-o", "junit_family=xunit1"]
    process = subprocess.Popen(
        [*command, *rest], cwd=places.CHECKOUT, env=environment, start_new_session=True
    )
    try:
        status = process.wait(bound)
    except subprocess.TimeoutExpired:
        # The group holds pytest and every broker it started.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"not done after {bound:.0f} s"
    if options.results and report.exists():
        results.add(options.results, options.broker, name, report, is_slice=options.slice)
    return "passed" if status == 0 else f"failed ({status})"


def run_suites(
    options: argparse.Namespace, rest: list[str], folder: str
) -> dict[str, tuple[str, float]]:
    """Run the chosen suites one after the other; return the outcome and the seconds of each."""
    outcomes: dict[str, tuple[str, float]] = {}
    chosen = options.suite or list(SUITES)
    ends = time.monotonic() + min(SLICE_SECONDS, sum(SUITES[name].slice_seconds for name in chosen))
    for number, name in enumerate(chosen, 1):
        print(f"== {name} against {options.broker}", flush=True)
        before = time.monotonic()
        bound: float = SUITES[name].seconds
        if options.slice:
            bound = bound_in_slice(ends - before, name, chosen[number:])
        outcome = run_suite(name, bound, options, rest, folder)
        outcomes[name] = (outcome, time.monotonic() - before)
    return outcomes


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen suites and print the outcome of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", default="kafkalite", help="kafkalite, kafka or HOST:PORT")
    parser.add_argument("--slice", action="store_true", help="bounded counts, for CI")
    parser.add_argument("--suite", action="append", choices=list(SUITES), default=[])
    parser.add_argument("--results", type=Path, help="JSON file to add the counts to")
    parser.add_argument("--install", action="store_true", help="install prerequisites first")
    given = sys.argv[1:] if arguments is None else arguments
    split = given.index("--") if "--" in given else len(given)
    options = parser.parse_args(given[:split])
    rest = given[split + 1 :]
    if options.install:
        prerequisites.main(["--install"])
    else:
        prerequisites.report(prerequisites.missing_tools() + prerequisites.missing_downloads())
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_suites(options, rest, folder)
    print("\nsuite          seconds  outcome")
    for name, (outcome, seconds) in outcomes.items():
        print(f"{name:<14} {seconds:>7.1f}  {outcome}")
    return 0 if all(outcome == "passed" for outcome, _ in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
