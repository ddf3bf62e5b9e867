"""One command for all suites, with a bound on the time of each.

``python -m tests.conformance.run`` runs everything against our broker; ``--slice`` runs what fits
into CI; ``--suite NAME`` picks suites; ``--broker kafka`` judges the judges. ``--at-once 2`` runs
two suites side by side, and prints what they print when they end. ``--results FILE`` adds the
counts of each suite to the file. What follows ``--`` goes to pytest. Exit status: 0 all
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
from contextlib import nullcontext
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
        (
            "test_java_tools.py",
            "test_client_metrics.py",
            "test_java_cluster.py",
            "test_java_log_dirs.py",
        ),
        600,
        300,
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


def bound_in_slice(seconds_left: float, name: str, later: list[str], at_once: int) -> float:
    """Seconds for a suite in the slice: all that are left but what those after it will need."""
    needed = sum(SUITES[other].slice_seconds / 2 for other in later) / at_once
    return max(SUITES[name].slice_seconds / 2, seconds_left - needed)


class Run:
    """One run of a suite, in a process group of its own.

    With ``prints_later`` its output is shown when it has ended, and not before.
    """

    def __init__(
        self, name: str, bound: float, command: list[str], folder: str, *, prints_later: bool
    ) -> None:
        suite = SUITES[name]
        self._bound, self._began = bound, time.monotonic()
        self.name, self.outcome, self.seconds = name, "", 0.0
        self.report = Path(folder, f"{name}.xml")
        self._printed = Path(folder, f"{name}.txt") if prints_later else None
        python, environment = sys.executable, dict(os.environ)
        if suite.frameworks:
            python = str(places.FRAMEWORKS_PYTHON)
            environment["PYTHONPATH"] = str(places.CHECKOUT / "python")
        files = [str((places.CONFORMANCE / file).resolve()) for file in suite.files]
        # The family that has properties, which are counts of steps.
        report = [f"--junitxml={self.report}", "-o", "junit_family=xunit1"]
        with self._printed.open("w") if self._printed else nullcontext() as printed:
            self._process = subprocess.Popen(
                [python, "-m", "pytest", "-q", *files, *report, *command],
                cwd=places.CHECKOUT,
                env=environment,
                start_new_session=True,
                stdout=printed,
                stderr=subprocess.STDOUT if printed else None,
            )

    def is_over(self) -> bool:
        """Whether it has ended, or had to be killed: ``outcome`` and ``seconds`` say how."""
        self.seconds = time.monotonic() - self._began
        if (status := self._process.poll()) is not None:
            self.outcome = "passed" if status == 0 else f"failed ({status})"
        elif self.seconds > self._bound:
            self.kill()
            self.outcome = f"not done after {self._bound:.0f} s"
        return bool(self.outcome)

    def kill(self) -> None:
        """End it, with every broker that it started: they are in its group."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def show(self) -> None:
        """Print what it has not printed yet."""
        if self._printed:
            print(f"== {self.name}: {self.outcome}\n{self._printed.read_text()}", flush=True)


def start(
    name: str, bound: float, options: argparse.Namespace, rest: list[str], folder: str
) -> Run:
    """Begin one suite with the options of the command line."""
    print(f"== {name} against {options.broker}", flush=True)
    command = ["--broker", options.broker, *(["--slice"] if options.slice else []), *rest]
    return Run(name, bound, command, folder, prints_later=options.at_once > 1)


def run_suites(options: argparse.Namespace, rest: list[str], folder: str) -> list[Run]:
    """Run the chosen suites, ``--at-once`` of them side by side; return how each went."""
    waiting = options.suite or list(SUITES)
    if options.at_once > 1:
        # The longest first, so that none of them is left to run alone at the end.
        waiting = sorted(waiting, key=lambda name: -SUITES[name].slice_seconds)
    ends = time.monotonic() + min(SLICE_SECONDS, sum(SUITES[n].slice_seconds for n in waiting))
    running: list[Run] = []
    over: dict[str, Run] = {}
    try:
        while waiting or running:
            while waiting and len(running) < options.at_once:
                name, *waiting = waiting
                bound: float = SUITES[name].seconds
                if options.slice:
                    left = ends - time.monotonic()
                    bound = bound_in_slice(left, name, waiting, options.at_once)
                running.append(start(name, bound, options, rest, folder))
            time.sleep(0.1)
            for run in [run for run in running if run.is_over()]:
                running.remove(run)
                over[run.name] = run
                run.show()
                if options.results and run.report.exists():
                    judged = options.results, options.broker, run.name
                    results.add(*judged, run.report, is_slice=options.slice)
    finally:
        for run in running:
            run.kill()
    return [over[name] for name in SUITES if name in over]


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen suites and print the outcome of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", default="kafkalite", help="kafkalite, kafka or HOST:PORT")
    parser.add_argument("--slice", action="store_true", help="bounded counts, for CI")
    parser.add_argument("--at-once", type=int, default=1, metavar="N",
                        help="suites that run side by side (default: 1)")  # fmt: skip
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
        runs = run_suites(options, rest, folder)
    print("\nsuite          seconds  outcome")
    for run in runs:
        print(f"{run.name:<14} {run.seconds:>7.1f}  {run.outcome}")
    return 0 if all(run.outcome == "passed" for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
