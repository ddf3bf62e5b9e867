"""The wheel to try, and a venv that knows nothing but it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

#: Runs a program of the venv with these words, where there is no Rust; what it printed.
Run = Callable[..., str]


def pytest_addoption(parser: pytest.Parser) -> None:
    """What is tried."""
    parser.addoption("--wheel", type=Path, required=True, help="the wheel to try")
    parser.addoption("--sdist", type=Path, default=None, help="the sdist to look at")
    parser.addoption("--spark-wheel", type=Path, default=None, help="the connector's wheel to try")


@pytest.fixture(scope="session")
def wheel(request: pytest.FixtureRequest) -> Path:
    """The wheel to try."""
    found: Path = request.config.getoption("--wheel")
    return found.resolve()


@pytest.fixture(scope="session")
def venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh venv with the wheel in it; its folder of programs."""
    place = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    subprocess.run([str(place / "bin" / "python"), *install], check=True, env=without_rust())
    return place / "bin"


def without_rust() -> dict[str, str]:
    """An environment in which neither cargo nor our own sources are found."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    return {**kept, "PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "LC_ALL": "C"}


@pytest.fixture
def run(venv: Path, tmp_path: Path) -> Run:
    """Run a program of the venv in an empty directory."""

    def one(program: str, *words: str) -> str:
        done = subprocess.run(
            [str(venv / program), *words],
            cwd=tmp_path,
            env=without_rust(),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return one
