"""Cargo's runner of test binaries: kills one in which a test takes too long, and names the test.

``cargo --config 'target."cfg(all())".runner = ["python3", "tests/time_limit.py"]' test``

A Rust test has no time limit of its own. libtest says once that a test ``has been running for over
60 seconds``; this program takes the time from there. A binary that says nothing at all for longer
is killed, too: it hangs where no test is to blame, at its end for one.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import IO

#: How long a test may take, in seconds. On a loaded machine everything is slow.
LIMIT_S = float(os.environ.get("KAFKALITE_TEST_LIMIT_S", "240"))

#: When libtest first says that a test is slow, in seconds.
_SLOW_S = 60.0

_SLOW = re.compile(r"test (\S+) has been running for over 60 seconds")
_ENDED = re.compile(r"test (\S+)(?: - .*)? \.\.\. (?:ok|FAILED|ignored)")


class Watch:
    """What runs for too long, by what the binary prints."""

    def __init__(self, now: float, limit_s: float = LIMIT_S) -> None:
        """Begin at ``now``, in seconds of a clock that only grows."""
        self._limit_s = limit_s
        self._since: dict[str, float] = {}
        self._last_line = now

    def line(self, text: str, now: float) -> None:
        """Take notice of a line."""
        self._last_line = now
        if slow := _SLOW.search(text):
            self._since[slow[1]] = now - _SLOW_S
        elif ended := _ENDED.search(text):
            self._since.pop(ended[1], None)
        elif text.strip() in ("ok", "FAILED"):
            # With one thread a test's result stands on a line of its own.
            self._since.clear()

    def verdict(self, now: float) -> str | None:
        """Why to kill the binary, or ``None``."""
        for test, since in self._since.items():
            if now - since >= self._limit_s:
                return f"test {test} takes longer than {self._limit_s:.0f} s"
        if now - self._last_line >= self._limit_s + _SLOW_S:
            return f"{self._limit_s + _SLOW_S:.0f} s without a line of output"
        return None


def main(command: list[str]) -> int:
    """Run the binary; return what it exits with, or 1 where it had to be killed."""
    binary = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert binary.stdout is not None
    watch, lock = Watch(time.monotonic()), threading.Lock()
    reader = threading.Thread(target=_copy, args=(binary.stdout, watch, lock), daemon=True)
    reader.start()
    try:
        while True:
            try:
                code = binary.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                with lock:
                    why = watch.verdict(time.monotonic())
                if why is None:
                    continue
                print(f"\n{command[0]}: {why}", file=sys.stderr, flush=True)
                _show_stacks(binary.pid)
                return 1
            # A process that the binary left behind may hold the pipe.
            reader.join(timeout=5.0)
            return code if code >= 0 else 128 - code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        binary.kill()
        binary.wait()


def _copy(lines: IO[bytes], watch: Watch, lock: threading.Lock) -> None:
    for line in lines:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        with lock:
            watch.line(line.decode(errors="replace"), time.monotonic())


def _show_stacks(pid: int) -> None:
    """Print where the threads of a process are, if there is a debugger."""
    debugger = shutil.which("gdb")
    if debugger is None:
        return
    words = [debugger, "--batch", "-p", str(pid), "-ex", "thread apply all backtrace 30"]
    try:
        subprocess.run(words, stdout=sys.stderr, stderr=subprocess.DEVNULL, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
