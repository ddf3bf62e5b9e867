"""The time limit of Rust tests: a binary that hangs is killed, and its test is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.time_limit import Watch

RUNNER = Path(__file__).parents[1] / "time_limit.py"

SLOW = "test room::tests::hangs has been running for over 60 seconds"


def test_a_test_that_takes_too_long_is_named() -> None:
    watch = Watch(now=0.0, limit_s=100.0)
    watch.line("running 2 tests", 0.0)
    watch.line(SLOW, 60.0)
    assert watch.verdict(99.0) is None
    assert watch.verdict(100.0) == "test room::tests::hangs takes longer than 100 s"


def test_a_slow_test_that_ends_is_no_failure() -> None:
    for end in ("test room::tests::hangs ... ok", "ok"):
        watch = Watch(now=0.0, limit_s=100.0)
        watch.line(SLOW, 60.0)
        watch.line(end, 90.0)
        assert watch.verdict(150.0) is None


def test_a_binary_that_falls_silent_is_killed() -> None:
    watch = Watch(now=0.0, limit_s=100.0)
    watch.line("test result: ok. 2 passed; 0 failed", 10.0)
    assert watch.verdict(169.0) is None
    assert watch.verdict(170.0) == "160 s without a line of output"


def test_the_runner_passes_on_output_and_exit_code() -> None:
    program = "import sys; print('running 0 tests'); sys.exit(3)"
    words = [sys.executable, str(RUNNER), sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (3, "running 0 tests\n")


def test_the_runner_kills_a_binary_whose_test_hangs() -> None:
    program = f"print({SLOW!r}, flush=True); input()"
    words = [sys.executable, str(RUNNER), sys.executable, "-c", program]
    done = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"KAFKALITE_TEST_LIMIT_S": "60", "PATH": ""},
    )
    # Its standard input stays open: only the runner ends it.
    try:
        assert done.wait(timeout=60) == 1
        assert done.stderr is not None
        assert "test room::tests::hangs takes longer than 60 s" in done.stderr.read()
    finally:
        done.kill()
        done.communicate()
