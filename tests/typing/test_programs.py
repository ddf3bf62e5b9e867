"""Programs of users, judged by mypy in its strict mode and by pyright."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
WRONG = HERE / "wrong.py"
PACKAGE = HERE.parents[1] / "python"

#: A checker that is started for the first time reads the whole library of Python.
PATIENCE_S = 200


def mypy(*paths: Path) -> subprocess.CompletedProcess[str]:
    """What mypy says of these files, with none of our own settings."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=/dev/null"]
    return subprocess.run(
        [*command, "--follow-imports=silent", *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={"MYPYPATH": str(PACKAGE), "PATH": "/usr/bin:/bin"},
    )


def pyright(*paths: Path) -> list[tuple[str, int]]:
    """The errors that pyright finds: file and line, from 1."""
    program = shutil.which("pyright", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("pyright is not installed")
    done = subprocess.run(
        [program, "--outputjson", "--pythonpath", sys.executable, *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=HERE,
    )
    told = json.loads(done.stdout)["generalDiagnostics"]
    errors = [one for one in told if one["severity"] == "error"]
    return [(f"{Path(one['file']).name}: {one['message']}", line_of(one)) for one in errors]


def line_of(diagnostic: dict[str, dict[str, dict[str, int]]]) -> int:
    """The line of a diagnostic of pyright, from 1."""
    return diagnostic["range"]["start"]["line"] + 1


def wrong_lines() -> list[int]:
    """The lines with a mistake."""
    lines = WRONG.read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# error")]


def test_there_are_ten_programs() -> None:
    assert len(PROGRAMS) == 10


def test_programs_pass_mypy_in_its_strict_mode() -> None:
    done = mypy(*PROGRAMS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_programs_pass_pyright() -> None:
    assert pyright(*PROGRAMS) == []


def test_mypy_finds_wrong_keys_and_values() -> None:
    lines = [line for line in mypy(WRONG).stdout.splitlines() if ": error: " in line]
    assert [int(line.split(":")[1]) for line in lines] == wrong_lines(), "\n".join(lines)


def test_pyright_finds_wrong_keys_and_values() -> None:
    assert [line for _, line in pyright(WRONG)] == wrong_lines()
