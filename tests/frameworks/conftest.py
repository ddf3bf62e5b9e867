"""The brokers of the conformance suites, for tests that run in the frameworks' own venv."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.conftest import broker as broker
from tests.conformance.conftest import broker_kind as broker_kind
from tests.conformance.conftest import own_broker as own_broker
from tests.conformance.conftest import pytest_addoption as pytest_addoption
from tests.conformance.conftest import pytest_runtest_makereport as pytest_runtest_makereport
from tests.conformance.conftest import unique as unique

EXAMPLES = Path(__file__).parent / "examples"

#: Runs an example, or a program of a path without `.py`, with these words in an empty directory;
#: what it printed.
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run an example as its reader would."""

    def start(name: str, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / f"{name}.py"), *words],
            cwd=tmp_path,
            env=os.environ | {"NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return start
