"""A broker to ask: the process that users start, on a free port of loopback."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.process import Elsewhere, Process, Processes

# The time limit of one test with its fixtures, in seconds; pytest-timeout reads it. A folder whose
# tests take longer says so in its own conftest.py.
os.environ.setdefault("PYTEST_TIMEOUT", "240")

# The contexts that the user of this machine has saved are not those of the tests.
os.environ["XDG_CONFIG_HOME"] = "/nonexistent"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell has its background jobs ignore Ctrl-C, and the programs that tests start would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # The same below nohup. Programs that are started lose a handler, and begin with the default.
    signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """For tests that start processes of their own."""
    started = Processes(tmp_path)
    yield started
    started.close()


@pytest.fixture(scope="session")
def broker(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Process]:
    """One broker for all tests that need nothing special of it, with the dev profile.

    With ``--kafkalite-external=HOST:PORT`` it is the one that runs there.
    """
    if external := pytestconfig.getoption("kafkalite_external", None):
        yield Elsewhere(external)
        return
    started = Processes(tmp_path_factory.mktemp("broker"))
    yield started.serve("--profile", "dev")
    started.close()
