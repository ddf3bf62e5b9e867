"""Two listeners: each tells its clients its own address."""

from __future__ import annotations

import json

import pytest

from tests.harness.process import Process, Processes
from tests.harness.session import Session

ADVERTISED = {"INSIDE": ("inside.example", 1111), "OUTSIDE": ("outside.example", 2222)}


def bound(process: Process) -> dict[str, str]:
    """Each listener's name and the address it listens at, as the log tells."""
    lines = [json.loads(line) for line in process.stderr.splitlines() if line.startswith("{")]
    return {line["listener"]: line["address"] for line in lines if line["message"] == "serving"}


@pytest.fixture
def running(processes: Processes) -> Process:
    """A broker with two listeners on free ports."""
    settings = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "advertised.listeners": "INSIDE://inside.example:1111,OUTSIDE://outside.example:2222",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return processes.start("serve", "--admin-port", "0", *words).wait_ready()


@pytest.mark.parametrize("listener", ADVERTISED)
def test_clients_are_sent_to_the_address_of_the_listener_they_came_in_by(
    running: Process, listener: str
) -> None:
    s = Session(bound(running)[listener], "listeners")
    told = [
        s.call("Metadata", 12, Topics=[])["Brokers"][0],
        s.call("DescribeCluster", 1)["Brokers"][0],
        s.call("FindCoordinator", 4, KeyType=0, CoordinatorKeys=["g"])["Coordinators"][0],
        s.call("FindCoordinator", 3, KeyType=0, Key="g"),
    ]
    assert [(one["Host"], one["Port"]) for one in told] == [ADVERTISED[listener]] * 4
    s.close()
