"""``kafkalite top`` and ``kafkalite console``: the admin port from the command line."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalite.cli.top import busy_bar, in_words, rate
from tests.harness.process import PATIENCE_S, Process, Processes
from tests.unit.test_command_line import told


def test_top_prints_every_stage(broker: Process) -> None:
    done = told("top", "--admin-url", broker.admin, "-n", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Request queue") == done.stdout.count("Commit log") == 2


def test_top_prints_events_for_programs(broker: Process) -> None:
    done = told("top", "--admin-url", broker.admin, "-n", "2", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["number"] for event in events] == [0, 1]


class Terminal:
    """``python -m kafkalite`` on a terminal of 100 columns and 40 lines."""

    def __init__(self, *words: str) -> None:
        self.end, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kafkalite", *words],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={**os.environ, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(inner)
        self.shown = ""

    def read_until(self, text: str) -> None:
        """Read what it shows until the text is there."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            left = max(0.0, deadline - time.monotonic())
            assert select.select([self.end], [], [], left)[0], self.shown
            self.shown += os.read(self.end, 65_536).decode(errors="replace")

    def close(self) -> None:
        """End it if it runs still."""
        self.process.kill()
        self.process.wait()
        os.close(self.end)


@pytest.fixture
def terminal(broker: Process) -> Iterator[Terminal]:
    """Top on a terminal."""
    opened = Terminal("top", "--admin-url", broker.admin)
    yield opened
    opened.close()


def test_top_fills_a_terminal_and_gives_it_back(terminal: Terminal) -> None:
    other_screen, first_screen = "\x1b[?1049h", "\x1b[?1049l"
    terminal.read_until("Socket send")
    assert terminal.shown.index(other_screen) < terminal.shown.index("Request queue")
    terminal.shown = ""
    # It is drawn again, in the same place.
    terminal.read_until("Socket send")
    assert "\x1b[H" in terminal.shown
    assert first_screen not in terminal.shown
    terminal.process.send_signal(signal.SIGINT)
    terminal.read_until(first_screen)
    assert terminal.process.wait(PATIENCE_S) in (0, 130)
    assert "Traceback" not in terminal.shown


@pytest.mark.parametrize("words", [(), ("-n", "1000"), ("--json",)])
def test_top_says_that_its_broker_ended(processes: Processes, words: tuple[str, ...]) -> None:
    """It ended with exit code 0 and no word."""
    broker = processes.serve()
    top = processes.start("top", "--admin-url", broker.admin, *words)
    assert top.popen.stdout is not None
    assert top.popen.stdout.readline()
    assert broker.end() == 0
    assert top.wait() == 3
    assert f"error: the stream of {broker.admin} ended" in top.stderr
    assert "hint: look whether the broker runs." in top.stderr


@pytest.mark.parametrize("command", ["top", "console"])
def test_an_address_without_a_broker_gets_a_hint(command: str) -> None:
    done = told(command, "--admin-url", "http://127.0.0.1:1")
    assert done.returncode == 3
    assert done.stderr.startswith("error: cannot read http://127.0.0.1:1/api/v1/")
    assert "--admin-url" in done.stderr


def test_the_address_of_the_console_is_printed(broker: Process) -> None:
    done = told("console", "--admin-url", broker.admin)
    assert done.stdout == f"{broker.admin}/console\n"
    told_json = json.loads(told("console", "--admin-url", broker.admin, "--json").stdout)
    assert told_json == {"url": f"{broker.admin}/console", "broker_id": 1}


@pytest.mark.parametrize("exit_code", [0, 3])
def test_a_browser_opens_the_console(broker: Process, tmp_path: Path, exit_code: int) -> None:
    """Nothing was said where no browser could be started."""
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$@" > {opened}\nexit {exit_code}\n')
    browser.chmod(0o755)
    # No other browser of this machine is found.
    environment = {"BROWSER": str(browser), "PATH": str(tmp_path)}
    done = told("console", "--open", "--admin-url", broker.admin, **environment)
    assert (done.returncode, done.stdout) == (0, f"{broker.admin}/console\n")
    assert opened.read_text() == done.stdout
    assert ("no browser was found" in done.stderr) == (exit_code != 0)


def test_a_token_is_sent_and_its_absence_is_explained(processes: Processes) -> None:
    secret = uuid.uuid4().hex
    broker = processes.serve("--set", f"kafkalite.admin.token={secret}")
    done = told("console", "--admin-url", broker.admin)
    assert done.returncode == 1
    assert "token" in done.stderr
    assert told("console", "--admin-url", broker.admin, "--token", secret).returncode == 0


def test_figures_have_their_units() -> None:
    assert [in_words(ms) for ms in (None, 0.0123, 4.26, 1_500)] == ["-", "12 µs", "4.3 ms", "1.5 s"]
    assert [rate(n) for n in (0, 0.25, 42, 12_340, 2.5e6)] == ["0", "0.2", "42", "12.3k", "2.5M"]
    assert busy_bar(0.31) == "███·······  31%"
    assert busy_bar(None) == ""
