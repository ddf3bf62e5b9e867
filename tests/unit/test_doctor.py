"""``kafkalite doctor``: each step, and what is said when it fails."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.harness.patience import ended
from tests.harness.process import Process, Processes
from tests.unit.test_command_line import told

STEPS = ["dns", "tcp", "apiversions", "login", "metadata"]


@contextmanager
def server(answer: bytes) -> Iterator[str]:
    """Something that answers every connection with these bytes and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(1000)
                    peer.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        ended(thread)


def test_a_sound_cluster_passes_every_step_for_every_address(broker: Process) -> None:
    done = told("doctor", broker.ready, "--json")
    checks = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert [check["step"] for check in checks] == STEPS * 2
    assert [check["broker"] for check in checks] == [None] * 5 + [1] * 5
    assert all(check["is_well"] for check in checks)
    assert "none is asked for" in told("doctor", broker.ready).stdout


def test_an_address_that_is_advertised_and_does_not_work_is_shown(processes: Processes) -> None:
    process = processes.serve("--advertise", "127.0.0.1:1")
    done = told("doctor", process.ready)
    assert done.returncode == 4
    assert done.stderr == (
        "error: some advertised addresses cannot be used\n"
        "  127.0.0.1:1  tcp: 127.0.0.1 connection refused\n"
        "hint: broker 1 sends clients to 127.0.0.1:1, and nothing listens there for this "
        "machine: look at its advertised.listeners.\n"
    )


@pytest.mark.parametrize("source", ["argument", "option", "variable"])
def test_the_address_is_an_argument_an_option_or_a_variable(broker: Process, source: str) -> None:
    nowhere = {"KAFKALITE_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    words: tuple[str, ...] = {
        "argument": (broker.ready, "-b", "127.0.0.1:1"),
        "option": ("-b", broker.ready),
        "variable": (),
    }[source]
    if source == "variable":
        nowhere = {"KAFKALITE_BOOTSTRAP_SERVERS": broker.ready}
    done = told("doctor", *words, "--json", **nowhere)
    assert (done.returncode, done.stderr) == (0, "")
    assert {check["address"] for check in json.loads(done.stdout)} == {broker.ready}


def test_of_several_addresses_each_is_checked(broker: Process) -> None:
    done = told("doctor", f"127.0.0.1:1,{broker.ready}")
    assert done.returncode == 4
    assert done.stderr.startswith("error: cannot use 127.0.0.1:1\n")
    assert f"advertised by broker 1: {broker.ready}" in done.stdout


@pytest.mark.parametrize(
    ("address", "step", "hint"),
    [
        ("127.0.0.1:1", "tcp: 127.0.0.1 connection refused", "nothing listens there."),
        ("no.such.host.invalid:9092", "dns: the name no.such.host.invalid", "look for a typing"),
        ("9092", "dns: 9092 is not HOST:PORT", "write it as"),
    ],
)
def test_the_step_that_fails_has_a_hint(address: str, step: str, hint: str) -> None:
    done = told("doctor", address)
    assert done.returncode == 3
    lines = done.stderr.splitlines()
    assert lines[0] == f"error: cannot use {address}"
    assert lines[1].startswith(f"  {address}  {step}")
    assert lines[-1].startswith(f"hint: {hint}")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "something that is not Kafka's protocol"),
        (b"", "it closed the connection"),
        (bytes.fromhex("0000000a 00000001 0000 00000001"), "its answer is cut short"),
    ],
)
def test_a_server_that_is_no_broker_is_an_error(answer: bytes, why: str) -> None:
    with server(answer) as address:
        done = told("doctor", address)
    assert done.returncode == 3
    assert why in done.stderr
