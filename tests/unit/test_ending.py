"""SIGTERM and SIGHUP: a command tidies up before it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kafkalite
from tests.harness.process import PATIENCE_S, Process, Processes

_ENDS = [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]


@pytest.fixture
def topic(broker: Process) -> str:
    """A topic with one record."""
    name = f"ending-{uuid.uuid4().hex[:8]}"
    with kafkalite.AdminClient(bootstrap_servers=broker.ready) as admin:
        admin.create_topic(name)
    with kafkalite.Producer(bootstrap_servers=broker.ready) as producer:
        producer.send(name, b"first").result(timeout=PATIENCE_S)
    return name


def reading(processes: Processes, topic: str, broker: Process) -> Process:
    """A member of a group that has written the first record."""
    words = ("consume", topic, "-g", topic, "--from-beginning", "-b", broker.ready)
    reads = processes.start(*words)
    assert reads.popen.stdout is not None
    assert reads.popen.stdout.readline() == "first\n"
    return reads


@pytest.mark.parametrize(("number", "exit_code"), _ENDS)
def test_a_member_leaves_its_group_when_a_signal_ends_it(
    processes: Processes, broker: Process, topic: str, number: signal.Signals, exit_code: int
) -> None:
    """It stayed in the group, and the next member waited until it counted as dead."""
    reads = reading(processes, topic, broker)
    assert reads.end(number) == exit_code
    assert reads.stderr in ("", "\n")
    with kafkalite.AdminClient(bootstrap_servers=broker.ready) as admin:
        assert admin.describe_group(topic).members == ()


def test_a_signal_that_comes_twice_at_once_is_one(
    processes: Processes, broker: Process, topic: str
) -> None:
    """`timeout` sends it to the command, and to its group."""
    reads = reading(processes, topic, broker)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGTERM):
        reads.popen.send_signal(number)
    assert reads.wait() in (143, 129)
    with kafkalite.AdminClient(bootstrap_servers=broker.ready) as admin:
        assert admin.describe_group(topic).members == ()


@contextmanager
def started(*words: str, ignores_sighup: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """A command whose stdout is a pipe; it is gone at the end."""

    def prepare() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignores_sighup else signal.SIG_DFL)

    command = [sys.executable, "-m", "kafkalite", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=prepare) as child:
        try:
            yield child
        finally:
            child.kill()


def test_a_reader_that_does_not_read_holds_no_end(broker: Process, topic: str) -> None:
    with kafkalite.Producer(bootstrap_servers=broker.ready) as producer:
        producer.send_batch(topic, [b"x" * 1_000] * 1_000)
    with started("consume", topic, "--from-beginning", "-b", broker.ready) as child:
        assert child.stdout is not None
        assert child.stdout.read(6) == b"first\n"
        child.terminate()
        assert child.wait(PATIENCE_S) == 143


def test_what_nohup_started_goes_on_after_sighup(broker: Process, topic: str) -> None:
    words = ("consume", topic, "--from-beginning", "-b", broker.ready)
    with started(*words, ignores_sighup=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"first\n"
        child.send_signal(signal.SIGHUP)
        with kafkalite.Producer(bootstrap_servers=broker.ready) as producer:
            producer.send(topic, b"second").result(timeout=PATIENCE_S)
        assert child.stdout.readline() == b"second\n"
        child.terminate()
        assert child.wait(PATIENCE_S) == 143


@pytest.mark.parametrize(("number", "exit_code"), _ENDS)
def test_a_load_leaves_no_broker_behind(
    processes: Processes, tmp_path: Path, number: signal.Signals, exit_code: int
) -> None:
    """Its directory stayed, with all that was sent."""
    directory = tmp_path / "of-load"
    directory.mkdir()
    words = ("perf", "produce", "-n", "1000000000")
    load = processes.start(*words, environment={"TMPDIR": str(directory)})
    deadline = time.monotonic() + PATIENCE_S
    while "a broker of its own" not in load.stderr:
        assert time.monotonic() < deadline
    assert load.end(number) == exit_code
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize(("number", "exit_code"), _ENDS)
def test_a_load_leaves_no_topic_behind(
    processes: Processes, broker: Process, number: signal.Signals, exit_code: int
) -> None:
    load = processes.start("perf", "produce", "-n", "1000000000", "-b", broker.ready)
    with kafkalite.AdminClient(bootstrap_servers=broker.ready) as admin:

        def topics() -> list[str]:
            names = [one.name for one in admin.list_topics()]
            return [name for name in names if name.startswith("kafkalite-perf-")]

        assert topics() == []
        deadline = time.monotonic() + PATIENCE_S
        while not topics():
            assert time.monotonic() < deadline
        assert load.end(number) == exit_code
        assert topics() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_broker_to_try_out_ends_with_0_and_leaves_nothing(
    processes: Processes, tmp_path: Path, number: signal.Signals
) -> None:
    directory = tmp_path / "of-dev"
    directory.mkdir()
    dev = processes.start(
        "dev", "-q", "--listen", "127.0.0.1:0", environment={"TMPDIR": str(directory)}
    )
    dev.wait_ready()
    assert dev.end(number) == 0
    assert list(directory.iterdir()) == []
