"""The README's blocks do what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Process

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    """The blocks of that language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def test_it_begins_with_the_two_commands() -> None:
    first = blocks("console")[0].splitlines()
    assert [line.split("#")[0].strip() for line in first] == ["make serve", "make test"]


@pytest.mark.parametrize("block", blocks("sh"))
def test_a_shell_block_runs(broker: Process, tmp_path: Path, block: str) -> None:
    if "curl" in block and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    python = str(Path(sys.executable).parent)
    environment = os.environ | {
        "BOOTSTRAP": broker.ready,
        "ADMIN": broker.admin,
        "PATH": f"{python}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


@pytest.mark.parametrize("block", blocks("python"))
def test_a_python_block_runs(tmp_path: Path, block: str) -> None:
    subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True, timeout=120)
