"""What a consumer that reads what left the page cache costs the producers beside it.

A paced producer (open loop: a latency counts from when its request was due) runs alone, beside a
replay of old records that are in the page cache, beside one whose files were dropped from it
before every pass, and beside a process that reads the same files as fast as that replay did, from
the disk, and has nothing to do with the broker: what that one costs is the machine's and not the
broker's. The replay reads and checks every record of a topic of its own. Rounds alternate; the
ratios are taken inside a round.

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
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from run import load
from servers import Server, serving, target_dir

GATE = 2.0
PARTITIONS = 4
PRODUCE = {"topic": "live", "acks": "-1", "batch-bytes": "16384", "in-flight": "5"}
KINDS = ("alone", "warm", "cold", "reader")
#: Reads files one after the other at so many bytes a second.
READER = """
import sys, time
rate, begin, done = float(sys.argv[1]), time.monotonic(), 0
for path in sys.argv[2:]:
    with open(path, "rb", buffering=0) as file:
        while length := len(file.read(1 << 20)):
            done += length
            time.sleep(max(0.0, begin + done / rate - time.monotonic()))
"""


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


def bytes_from_disk(server: Server) -> int:
    """What the broker has read from the disk since it started."""
    lines = Path(f"/proc/{server.pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


def replay(server: Server) -> list[str]:
    """The command that reads the old topic through the broker, once."""
    words = ["--mode", "verify", "--topic", "cold", "--partitions", str(PARTITIONS)]
    command = [str(target_dir() / "load"), "--address", server.address, *words]
    return [*command, "--fetch-bytes", str(1 << 20)]


class Passes:
    """Runs a command again and again until told to stop."""

    def __init__(self, command: list[str], before_each_pass: Callable[[], None]) -> None:
        """``before_each_pass`` may drop the files from the cache; the first time it does at once.

        Dropping gigabytes takes a core for a while, which is no part of a replay.
        """
        before_each_pass()
        self._stop = threading.Event()
        self._command, self._before = command, before_each_pass
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run)
        self.failure = ""
        self._thread.start()

    def _run(self) -> None:
        while True:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            _, said = self._process.communicate()
            if self._process.returncode > 0:
                self.failure = said
            if self._stop.is_set():
                return
            self._before()

    def stop(self) -> None:
        """End the pass under way; a pass that failed of its own accord is an error."""
        self._stop.set()
        if self._process is not None:
            self._process.terminate()
        self._thread.join()
        if self.failure:
            raise RuntimeError(self.failure)


class Neighbours:
    """What runs beside the producer, and what it came to."""

    def __init__(self, server: Server) -> None:
        """Nothing yet."""
        self._server = server
        #: Of each pass of files dropped from the cache, the share that really was out of it.
        self.shares: list[float] = []
        #: Bytes a second from the disk in the last cold replay.
        self.rate = 1e9

    def _drop(self) -> None:
        self.shares.append(drop_from_cache(self._server.data_dir))

    @contextmanager
    def beside(self, kind: str) -> Iterator[None]:
        """One of ``KINDS`` while the block runs."""
        if kind == "alone":
            yield
            return
        command = replay(self._server)
        if kind == "reader":
            files = sorted(map(str, self._server.data_dir.glob("cold-*/*.log")))
            command = [sys.executable, "-c", READER, str(self.rate), *files]
        passes = Passes(command, (lambda: None) if kind == "warm" else self._drop)
        before, begin = bytes_from_disk(self._server), time.monotonic()
        try:
            yield
        finally:
            if kind == "cold":
                seconds = time.monotonic() - begin
                self.rate = (bytes_from_disk(self._server) - before) / seconds
            passes.stop()


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
    p99: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with serving(asked.server) as server:
        fill = {"topic": "cold", "create": "true", "partitions": str(PARTITIONS)}
        fill |= {"connections": str(PARTITIONS), "batch-bytes": "131072", "seconds": "300"}
        load(server, fill | {"max-megabytes": asked.megabytes})
        os.sync()
        paced = PRODUCE | {"seconds": asked.seconds, "rate": asked.rate, "create": "true"}
        load(server, paced | {"seconds": "1"})
        neighbours = Neighbours(server)
        for number in range(asked.rounds):
            for kind in KINDS:
                with neighbours.beside(kind):
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
                "replayed_megabytes_per_second": neighbours.rate / 1e6,
                "least_share_out_of_cache": min(neighbours.shares),
                "cold_passes": len(neighbours.shares),
            },
            indent=2,
        )
    )
    return 1 if asked.gate and ratios["cold"] > GATE else 0


if __name__ == "__main__":
    sys.exit(main())
