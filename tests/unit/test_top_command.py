"""``kafkalite top`` and ``kafkalite console``: the admin port from the command line."""

from __future__ import annotations

import json
import uuid

import pytest

from kafkalite.cli.top import busy_bar, in_words, rate
from tests.harness.process import Process, Processes
from tests.unit.test_command_line import told


def test_top_prints_every_stage(broker: Process) -> None:
    done = told("top", "--admin-url", broker.admin, "-n", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Request queue") == done.stdout.count("Commit log") == 2


def test_top_prints_events_for_programs(broker: Process) -> None:
    done = told("top", "--admin-url", broker.admin, "-n", "2", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["number"] for event in events] == [0, 1]


def test_top_ends_with_its_broker(processes: Processes) -> None:
    broker = processes.serve()
    top = processes.start("top", "--admin-url", broker.admin)
    assert top.popen.stdout is not None
    assert top.popen.stdout.readline().startswith("broker 1")
    assert broker.end() == 0
    # The end of the stream, or of its connection: either way there is no more to show.
    assert top.wait() in (0, 3)


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
