"""A pytest suite of 200 tests, each with a fork of a seeded broker, or each with a fresh topic.

    python benches/fork_suite.py                  # 100 and 10,000 records; 1 and 2 processes
    python benches/fork_suite.py --records 1000 --rounds 1

Both suites are generated, and run by pytest with the fixtures of the plugin. A test begins with the
same records: in its fork they are there, and into its topic it writes them. It reads them all, and
appends one. The time is that of the whole process, from its start to its end; the median of the
rounds. Beside it stands the CPU time, which a busy machine lengthens less.

Each process counts its descriptors and threads, and the files in its temporary directory, after its
tenth test and after its last one. The command ends with 1 if there are more at the end, or if files
are left when the process has ended.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Tests of each suite, and bytes of a record.
TESTS, RECORD_BYTES = 200, 100
#: The test after which a process has its threads and connections: they start when they are used.
WARM = 10
#: How much more there may be at the end: a connection that is about to close has a descriptor.
SLACK = 3
#: The same of files: those of one fork are more.
FILES_SLACK = 10

CONFTEST = """
import json
import os
import tempfile

import pytest

import kafkalite as kl

# Each worker of xdist has its own.
tempfile.tempdir = tempfile.mkdtemp()
RECORDS = int(os.environ["SUITE_RECORDS"])
VALUES = [b"%0{size}d" % number for number in range(RECORDS)]
COUNTS = []


def fill(servers, topic):
    with kl.Producer(bootstrap_servers=servers) as producer:
        for value in VALUES:
            producer.send(topic, value)
        producer.flush()


def check(broker, topic):
    assert [record.value for record in broker.expect(topic, RECORDS)] == VALUES
    with kl.Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer:
        producer.send(topic, b"mine").result(timeout=30)
    assert broker.expect(topic, RECORDS + 1)[-1].value == b"mine"


@pytest.fixture(scope="session")
def kafkalite_seed():
    return lambda broker: fill(broker.bootstrap_servers, "orders")


@pytest.fixture(autouse=True)
def counted():
    # The first fixture of a test ends last.
    yield

    held = [len(os.listdir(f"/proc/self/{{what}}")) for what in ("fd", "task")]

    COUNTS.append([*held, sum(len(files) for _, _, files in os.walk(tempfile.gettempdir()))])


def pytest_sessionfinish():
    if COUNTS:
        with open(os.path.join(os.environ["SUITE_COUNTS"], str(os.getpid())), "w") as file:
            json.dump(COUNTS, file)
"""

FORKS = """
import pytest
from conftest import check


@pytest.mark.parametrize("number", range({tests}))
def test_with_a_fork(kafkalite_fork, number):
    check(kafkalite_fork, "orders")
"""

TOPICS = """
import pytest
from conftest import check, fill


@pytest.mark.parametrize("number", range({tests}))
def test_with_a_topic(kafkalite_broker, kafkalite_topic, number):
    fill(kafkalite_broker.bootstrap_servers, kafkalite_topic)
    check(kafkalite_broker, kafkalite_topic)
"""
SUITES = {"forks": FORKS, "topics": TOPICS}
#: What a process counts, in its order.
WHAT = ("descriptors", "threads", "files")


@dataclass(frozen=True)
class Ran:
    """A run of a suite."""

    seconds: float
    cpu_seconds: float
    #: Of each process: what it held after its tenth test, and after its last one.
    held: list[tuple[list[int], list[int]]]
    #: Files that are left.
    left: list[str]

    def leaks(self, name: str) -> Iterator[str]:
        """In words, what there is more of at the end."""
        for before, after in self.held:
            for what, warm, last in zip(WHAT, before, after, strict=True):
                # Deleted topics go from the disk a minute later, as in Kafka.
                slack = FILES_SLACK if what == "files" else SLACK
                if last > warm + slack and (name, what) != ("topics", "files"):
                    yield f"{what} of a process: {warm} after {WARM} tests, {last} at the end"
        if self.left:
            yield f"files are left: {self.left[:5]}"


def cpu_seconds() -> float:
    """CPU time of all processes that ended, user and system."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(name: str, records: int, processes: int, tests: int) -> Ran:
    """Run a suite by pytest, with a temporary directory of its own."""
    with tempfile.TemporaryDirectory() as folder:
        suite, counts, temporary = (Path(folder) / part for part in ("suite", "counts", "tmp"))
        for one in (suite, counts, temporary):
            one.mkdir()
        (suite / "conftest.py").write_text(CONFTEST.format(size=RECORD_BYTES))
        (suite / "pytest.ini").write_text("[pytest]\n")
        (suite / f"test_{name}.py").write_text(SUITES[name].format(tests=tests))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-n", str(processes)] if processes > 1 else []
        own = {"TMPDIR": str(temporary), "SUITE_COUNTS": str(counts), "SUITE_RECORDS": str(records)}
        began, cpu = time.perf_counter(), cpu_seconds()
        done = subprocess.run(
            command, cwd=suite, env=os.environ | own, capture_output=True, text=True, check=False
        )
        seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu
        if done.returncode != 0 or f"{tests} passed" not in done.stdout:
            raise SystemExit(f"{name} failed:\n{done.stdout[-3_000:]}{done.stderr[-1_000:]}")
        counted = [json.loads(file.read_text()) for file in sorted(counts.iterdir())]
        if len(counted) != processes:
            raise SystemExit(f"{len(counted)} of {processes} processes told their counts")
        left = [str(path.relative_to(temporary)) for path in temporary.rglob("*") if path.is_file()]
        return Ran(seconds, cpu, [(one[min(WARM, len(one)) - 1], one[-1]) for one in counted], left)


def main() -> int:
    """Run both suites in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, nargs="+", default=[100, 10_000])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tests", type=int, default=TESTS)
    options = parser.parse_args()
    leaks: list[str] = []
    print(f"{options.tests} tests; {os.getloadavg()[0]:.1f} is the load before\n")
    print("| records | processes | a fork each | a fresh topic each |\n|---|---|---|---|")
    for records in options.records:
        for processes in options.processes:
            rans: dict[str, list[Ran]] = {name: [] for name in SUITES}
            for _ in range(options.rounds):
                for name in SUITES:
                    ran = run(name, records, processes, options.tests)
                    rans[name].append(ran)
                    leaks += [f"{name}, {records} records: {leak}" for leak in ran.leaks(name)]
            cells = [
                f"{statistics.median(ran.seconds for ran in rans[name]):.1f} s, "
                f"CPU {statistics.median(ran.cpu_seconds for ran in rans[name]):.1f} s"
                for name in SUITES
            ]
            print(f"| {records:,} | {processes} | {' | '.join(cells)} |", flush=True)
    print("\n" + ("\n".join(leaks) or "nothing leaks: descriptors, threads, files"))
    return 1 if leaks else 0


if __name__ == "__main__":
    sys.exit(main())
