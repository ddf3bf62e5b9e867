"""Where stdout takes only a part, the rest follows, or the command says that it cannot."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

import kafkalite
from tests.harness.process import PATIENCE_S, Process
from tests.unit.test_command_line import told

_LIMIT = 50 * 1024
_RECORDS = 2_000
_LINE = 106


@pytest.fixture(params=["", "1"])
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    """With and without the variable that images of containers set."""
    return {**os.environ, "PYTHONUNBUFFERED": request.param}


@pytest.fixture(scope="module")
def filled(broker: Process) -> str:
    """A topic with one partition of numbered records."""
    name = f"short-{uuid.uuid4().hex[:8]}"
    with kafkalite.AdminClient(bootstrap_servers=broker.ready) as admin:
        admin.create_topic(name)
    with kafkalite.Producer(bootstrap_servers=broker.ready) as producer:
        producer.send_batch(name, [b"%05d" % at + b"x" * 100 for at in range(_RECORDS)])
    return name


def onto_a_full_disk(path: Path, environment: dict[str, str], *words: str) -> int:
    """The exit code of a command whose answer goes to a file that has no room for it."""
    limit = (_LIMIT, resource.RLIM_INFINITY)
    with path.open("wb") as answer:
        done = subprocess.run(
            [sys.executable, "-m", "kafkalite", *words],
            stdout=answer,
            stderr=subprocess.PIPE,
            env=environment,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
            check=False,
            timeout=120,
        )
    assert path.stat().st_size == _LIMIT
    assert done.stderr.startswith(b"error: the answer cannot be written\n"), done.stderr
    return done.returncode


def test_what_a_full_disk_does_not_take_is_not_committed(
    broker: Process, filled: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """With PYTHONUNBUFFERED it exited with 0, and committed what it had not written."""
    group = f"{filled}-{environment['PYTHONUNBUFFERED']}"
    reads = ("consume", filled, "--from-beginning", "-n", "500", "-b", broker.ready)
    assert onto_a_full_disk(tmp_path / "alone", environment, *reads) == 1
    assert onto_a_full_disk(tmp_path / "member", environment, *reads, "-g", group) == 1
    with kafkalite.AdminClient(bootstrap_servers=broker.ready) as admin:
        committed = [at.offset for at in admin.list_group_offsets(group).values()]
    assert committed in ([], [0])


def test_an_answer_that_a_full_disk_cuts_short_is_a_failure(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assert onto_a_full_disk(tmp_path / "keys", environment, "config", "list", "--json") == 1


def test_a_pipe_that_does_not_block_gets_every_byte(
    broker: Process, filled: str, environment: dict[str, str]
) -> None:
    """Without PYTHONUNBUFFERED it failed in the middle, and with it there were holes."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    reads = ("consume", filled, "--from-beginning", "-e", "-b", broker.ready)
    command = [sys.executable, "-m", "kafkalite", *reads]
    child = subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, env=environment)
    os.close(writer)
    read = b""
    # Pieces smaller than a page: the pipe is full again and again.
    while piece := os.read(reader, 1_000):
        read += piece
    os.close(reader)
    stderr = child.communicate(timeout=PATIENCE_S)[1]
    assert (child.returncode, stderr) == (0, b"")
    assert len(read) == _RECORDS * _LINE
    assert [line[:5] for line in read.splitlines()] == [b"%05d" % at for at in range(_RECORDS)]


def test_an_unbuffered_answer_is_whole() -> None:
    rows = told("config", "list", "--json", PYTHONUNBUFFERED="1").stdout
    assert json.loads(rows) == json.loads(told("config", "list", "--json").stdout)
