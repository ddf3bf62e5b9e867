"""``python -m kafkalite`` as a process of its own, on free ports of loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

#: How long a process may take to say what a test waits for; on a loaded machine all is slow.
PATIENCE_S = 30.0
#: Until it serves.
READY_S = 120.0


@dataclass
class Process:
    """``python -m kafkalite`` with these words, and what it says."""

    words: list[str]
    cwd: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    ready: str = ""
    admin: str = ""

    def __post_init__(self) -> None:
        """Start it. The environment's own KAFKALITE_ variables do not reach it."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("KAFKALITE_")}
        self._log = (self.cwd / "stderr.txt").open("w+")
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "kafkalite", *self.words],
            cwd=self.cwd,
            env={**inherited, **self.environment},
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    @property
    def stderr(self) -> str:
        """What it said on stderr so far."""
        return (self.cwd / "stderr.txt").read_text()

    def wait_ready(self, admin: bool = True) -> Process:
        """Read its lines until it serves; it is killed where it says nothing."""
        assert self.popen.stdout is not None
        deadline = threading.Timer(READY_S, self.popen.kill)
        deadline.start()
        try:
            for line in self.popen.stdout:
                what, _, value = line.strip().partition(": ")
                if what == "ready":
                    self.ready = value
                if what == "admin":
                    self.admin = value
                if self.ready and (self.admin or not admin):
                    return self
        finally:
            deadline.cancel()
        code = self.popen.wait(PATIENCE_S)
        raise AssertionError(f"it did not serve, and ended with {code}: {self.stderr}")

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        if self.popen.poll() is None:
            self.popen.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end and return the exit code."""
        try:
            return self.popen.wait(PATIENCE_S)
        finally:
            self.close()

    def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
        if self.popen.stdout is not None:
            self.popen.stdout.close()
        self._log.close()


class Processes:
    """Starts processes in directories of their own and ends them with the test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[Process] = []

    def start(self, *words: str, environment: Mapping[str, str] | None = None) -> Process:
        """Start ``python -m kafkalite`` with these words."""
        cwd = self._directory / f"process-{len(self._started)}"
        cwd.mkdir()
        process = Process(list(words), cwd, environment or {})
        self._started.append(process)
        return process

    def serve(self, *words: str, data_dir: Path | None = None) -> Process:
        """Start a broker on free ports and wait until it serves."""
        directory = data_dir or self._directory / f"data-{len(self._started)}"
        common = ["--listen", "127.0.0.1:0", "--admin-port", "0", "--data-dir", str(directory)]
        return self.start("serve", *common, *words).wait_ready()

    def close(self) -> None:
        """End all of them."""
        for process in self._started:
            process.close()


class Elsewhere(Process):
    """A Kafka that runs already, in the place of a process of ours."""

    def __init__(self, address: str) -> None:
        self.ready = address

    @property
    def admin(self) -> str:  # type: ignore[override]
        """A test that looks into our broker has nothing to look into."""
        pytest.skip("this test asks a broker of ours")


def port_of(address: str) -> int:
    """The port of ``HOST:PORT``, or of a URL that ends in it."""
    found = re.search(r":(\d+)$", address)
    assert found, address
    return int(found[1])
