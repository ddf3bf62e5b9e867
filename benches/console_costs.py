"""What the console costs: CPU for each GB, with a reader of the live stream and without.

    python benches/console_costs.py                # prints the figures; 1 where a bound is missed
    python benches/console_costs.py --beside older/bin/python   # beside an older release
    python benches/console_costs.py --rounds 0     # the idle broker alone, without the load's noise

The reader is a process of its own, which reads ``/api/v1/live`` as the data plane page does. Rounds
alternate, in an order that changes, because a machine grows slower or faster over time. Each round
produces 1 KiB records with ``acks=all`` and reads them. The first round of each is not counted.
Before them an idle broker is measured, with a reader and without.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import kafkalite as kl  # noqa: E402
from benches.beside_kafka import VALUE_BYTES, claim_memory, consume, produce  # noqa: E402
from tests.harness import brokers  # noqa: E402

#: How much more CPU the broker may use with a reader.
MOST_TIMES = 1.03
READER = """
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1] + "/api/v1/live", timeout=60) as events:
    for line in events:
        if line.startswith(b"data:"):
            print("event", flush=True)
"""


@contextmanager
def reader(admin_url: str) -> Iterator[None]:
    """A reader of the stream, which has had its first event."""
    command = [sys.executable, "-c", READER, admin_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline() != "event\n":
                raise AssertionError("the stream has no event")
            yield
            if process.poll() is not None:
                raise AssertionError("the stream ended before the load did")
        finally:
            process.kill()


def cpu_seconds(pid: int) -> float:
    """CPU that the process has used so far, to the nanosecond."""
    # The kernel's number for the CPU clock of another process: clock_getcpuclockid(3).
    return time.clock_gettime(~pid << 3 | 2)


def load(broker: brokers.Kafkalite, records: int) -> float:
    """CPU seconds of the broker for each GB that is produced and read."""
    topic = f"load-{time.monotonic_ns()}"
    with kl.AdminClient(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topic(topic, partitions=1)
        claim_memory(broker.data_dir, 2 * records * VALUE_BYTES)
        before = cpu_seconds(broker.pid)
        produce(broker.bootstrap, topic, records)
        consume(broker.bootstrap, topic, records)
        used = cpu_seconds(broker.pid) - before
        admin.delete_topic(topic)
    return used / (records * VALUE_BYTES / 1e9)


def idle(broker: brokers.Kafkalite, kind: str, seconds: float) -> float:
    """CPU of the broker while nothing is asked of it, in ms for each second."""
    with reader(broker.admin_url()) if kind == "open" else nullcontext():
        before = cpu_seconds(broker.pid)
        time.sleep(seconds)
        return (cpu_seconds(broker.pid) - before) / seconds * 1e3


class Other(brokers.Kafkalite):
    """The broker of the release that another interpreter has installed."""

    def __init__(self, data_dir: Path, python: str) -> None:
        """``python`` is the path of the interpreter."""
        super().__init__(data_dir)
        self.python = python

    def command(self) -> list[str]:
        """The usual command, by that interpreter."""
        return [self.python, *super().command()[1:]]


def print_ratio(found: dict[str, list[float]], one: str, other: str) -> float:
    """Prints, and returns, the median of the ratios inside the rounds."""
    ratios = [a / b for a, b in zip(found[one], found[other], strict=True)]
    times = statistics.median(ratios)
    print(f"{one} against {other}, median of the rounds: {times:.3f} times")
    return times


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description="What the console costs.")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--records", type=int, default=1_000_000, help="records of a round")
    parser.add_argument("--idle", type=float, default=15.0, help="seconds of the idle broker")
    parser.add_argument("--beside", metavar="PYTHON", help="interpreter with another release")
    options = parser.parse_args()
    found: dict[str, list[float]] = {"closed": [], "open": []}
    with tempfile.TemporaryDirectory(prefix="kafkalite-bench-") as folder, ExitStack() as stack:
        broker = brokers.Kafkalite(Path(folder) / "data")
        broker.start()
        stack.callback(broker.stop)
        for kind in found:
            print(f"idle, {kind}: {idle(broker, kind, options.idle):.2f} ms of CPU in a second")
        if options.rounds == 0:
            return 0
        if options.beside:
            other = Other(Path(folder) / "other", options.beside)
            other.start()
            stack.callback(other.stop)
            found["other release"] = []
        for number in range(options.rounds + 1):
            # Each kind comes first, in between and last equally often.
            kinds = list(found)
            for kind in kinds[number % len(kinds) :] + kinds[: number % len(kinds)]:
                with reader(broker.admin_url()) if kind == "open" else nullcontext():
                    cost = load(other if kind == "other release" else broker, options.records)
                if number > 0:
                    found[kind].append(cost)
    for kind, costs in found.items():
        print(f"{kind}: {statistics.median(costs):.3f} CPU s/GB, cheapest {min(costs):.3f}")
    times = print_ratio(found, "open", "closed")
    if options.beside:
        print_ratio(found, "closed", "other release")
    print(json.dumps(found))
    return int(times > MOST_TIMES)


if __name__ == "__main__":
    sys.exit(main())
