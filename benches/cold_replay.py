"""What a consumer that reads what left the page cache costs the producers beside it.

A paced producer (open loop: a latency counts from when its request was due) runs alone, beside a
replay of old records that are in the page cache, and beside one whose files were dropped from it
before every pass. The replay reads and checks every record of a topic of its own. Rounds alternate;
the ratio is taken inside a round.

    python benches/cold_replay.py            # prints medians; --gate exits with 1 above 2x

Dropping asks the kernel (``POSIX_FADV_DONTNEED``) after a sync; how much of the topic was really
out of the cache before each cold pass is printed with the figures, so that nobody is fooled.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from run import load
from servers import Server, serving, target_dir

GATE = 2.0
PARTITIONS = 4
PRODUCE = {"topic": "live", "acks": "-1", "batch-bytes": "16384", "in-flight": "5"}
KINDS = ("alone", "warm", "cold")


def drop_from_cache(directory: Path) -> float:
    """Drop the topic's files from the page cache; the share of its bytes that is out of it."""
    total = cached = 0
    for path in directory.glob("cold-*/*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
        done = subprocess.run(
            ["fincore", "--bytes", "--noheadings", "--output", "RES", str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
        cached += int(done.stdout or 0)
        total += path.stat().st_size
    return 1 - cached / total


class Replay:
    """Reads the old topic again and again until told to stop; counts its passes."""

    def __init__(self, server: Server, before_each_pass: Callable[[], None]) -> None:
        """``before_each_pass`` may drop the files from the cache."""
        self._stop = threading.Event()
        self._server, self._before = server, before_each_pass
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run)
        self.failure = ""
        self._thread.start()

    def _run(self) -> None:
        words = ["--mode", "verify", "--topic", "cold", "--partitions", str(PARTITIONS)]
        command = [str(target_dir() / "load"), "--address", self._server.address, *words]
        while not self._stop.is_set():
            self._before()
            self._process = subprocess.Popen(
                [*command, "--fetch-bytes", str(1 << 20)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            _, said = self._process.communicate()
            if self._process.returncode > 0:
                self.failure = said

    def stop(self) -> None:
        """End the pass under way; a pass that failed of its own accord is an error."""
        self._stop.set()
        if self._process is not None:
            self._process.terminate()
        self._thread.join()
        if self.failure:
            raise RuntimeError(self.failure)


@contextmanager
def beside(kind: str, server: Server, shares: list[float]) -> Iterator[None]:
    """Nothing, a warm or a cold replay while the block runs."""
    if kind == "alone":
        yield
        return

    def prepare() -> None:
        if kind == "cold":
            shares.append(drop_from_cache(server.data_dir))

    replay = Replay(server, prepare)
    try:
        yield
    finally:
        replay.stop()


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", default="4")
    parser.add_argument("--rate", default="300", help="produce requests a second")
    parser.add_argument("--megabytes", default="3000", help="size of the old topic")
    parser.add_argument("--server", default="kafkalite")
    parser.add_argument("--gate", action="store_true")
    asked = parser.parse_args()
    shares: list[float] = []
    p99: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with serving(asked.server) as server:
        fill = {"topic": "cold", "create": "true", "partitions": str(PARTITIONS)}
        fill |= {"connections": str(PARTITIONS), "batch-bytes": "131072", "seconds": "300"}
        load(server, fill | {"max-megabytes": asked.megabytes})
        os.sync()
        paced = PRODUCE | {"seconds": asked.seconds, "rate": asked.rate, "create": "true"}
        load(server, paced | {"seconds": "1"})
        for number in range(asked.rounds):
            for kind in KINDS:
                with beside(kind, server, shares):
                    figures = load(server, paced)
                p99[kind].append(figures["p99_us"])
                print(
                    f"round {number} {kind}: p50 {figures['p50_us']:.0f} us, p99 "
                    f"{figures['p99_us']:.0f} us, max {figures['max_us']:.0f} us",
                    file=sys.stderr,
                )
    ratios = {
        kind: statistics.median(b / a for a, b in zip(p99["alone"], p99[kind], strict=True))
        for kind in KINDS[1:]
    }
    print(
        json.dumps(
            {
                "p99_us": {kind: statistics.median(values) for kind, values in p99.items()},
                "ratio_to_alone": ratios,
                "least_share_out_of_cache": min(shares),
                "cold_passes": len(shares),
            },
            indent=2,
        )
    )
    return 1 if asked.gate and ratios["cold"] > GATE else 0


if __name__ == "__main__":
    sys.exit(main())
