"""A fork of a broker: how long it takes, and what 1,000 of them leave behind.

    python benches/forks.py            # 50 forks of 100 MiB in 10 partitions, then 1,000 forks
    python benches/forks.py --forks 0  # without the 1,000 forks

A fork is timed from the call to a broker that serves; with a snapshot at hand, and with the
snapshot that the call takes. ``fork_suite.py`` has the time of a suite of tests with a fork each.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import kafkalite as kl
from kafkalite.snapshots import Snapshot

PARTITIONS = 10
VALUE = b"v" * 10_240
RECORDS = 100 * (1 << 20) // len(VALUE)
ROUNDS = 50


def median_ms(act: Callable[[], object], rounds: int) -> float:
    """Call it some times, and return the median time in ms; the first two do not count."""
    times = []
    for _ in range(rounds + 2):
        began = time.perf_counter()
        act()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times[2:])


def forked_ms(broker: kl.Broker, snapshot: Snapshot | None) -> float:
    """Return the median time of a fork; its end is not counted."""
    times = []
    for _ in range(ROUNDS + 2):
        began = time.perf_counter()
        fork = broker.fork(snapshot)
        times.append((time.perf_counter() - began) * 1e3)
        fork.close()
    return statistics.median(times[2:])


def held() -> tuple[int, int]:
    """Count descriptors and threads of this process."""
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


@contextmanager
def seeded(directory: Path) -> Iterator[kl.Broker]:
    """Run a broker with 100 MiB in 10 partitions."""
    with kl.Broker(topics={"load": PARTITIONS}, data_dir=directory / "data") as broker:
        with kl.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(RECORDS):
                producer.send("load", VALUE, partition=number % PARTITIONS)
            producer.flush()
        yield broker


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--forks", type=int, default=1_000)
    forks = parser.parse_args().forks
    with tempfile.TemporaryDirectory() as temporary, seeded(Path(temporary)) as broker:
        print(f"snapshot           {median_ms(lambda: broker.snapshot().delete(), ROUNDS):8.2f} ms")
        print(f"fork               {forked_ms(broker, None):8.2f} ms")
        with broker.snapshot() as snapshot:
            print(f"fork of a snapshot {forked_ms(broker, snapshot):8.2f} ms")
            print(f"reset              {median_ms(lambda: broker.reset(snapshot), ROUNDS):8.2f} ms")
            before, entries = held(), len(os.listdir(temporary))
            for _ in range(forks):
                broker.fork(snapshot).close()
            after, left = held(), len(os.listdir(temporary)) - entries
            print(
                f"{forks} forks: descriptors and threads {before} -> {after}, directories {left:+}"
            )


if __name__ == "__main__":
    main()
