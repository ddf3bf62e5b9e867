"""Verbs that only tell: help, version, the table of keys."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kafkalite


def told(*words: str) -> subprocess.CompletedProcess[str]:
    """What ``python -m kafkalite`` with these words says."""
    command = [sys.executable, "-m", "kafkalite", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version_is_that_of_the_package() -> None:
    assert told("--version").stdout == f"kafkalite {kafkalite.__version__}\n"


@pytest.mark.parametrize("words", [(), ("--help",), ("serve", "--help"), ("config", "--help")])
def test_help_goes_to_stdout(words: tuple[str, ...]) -> None:
    done = told(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: kafkalite")


def test_config_list_tells_keys_of_brokers_and_topics() -> None:
    lines = told("config", "list").stdout.splitlines()
    assert "  offsets.topic.replication.factor (short, 1)" in lines
    assert "  retention.ms (long, the broker's log.retention.ms)" in lines


@pytest.mark.parametrize(
    ("key", "exit_code", "stderr"),
    [
        ("retention.ms", 0, ""),
        (
            "retention.msx",
            5,
            "error: unknown key retention.msx\nhint: did you mean retention.ms?\n",
        ),
    ],
)
def test_config_explain_tells_one_key(key: str, exit_code: int, stderr: str) -> None:
    done = told("config", "explain", key)
    assert (done.returncode, done.stderr) == (exit_code, stderr)


def test_the_package_imports_nothing_heavy() -> None:
    heavy = "{'asyncio', 'json', 'dataclasses', 'click', 'tempfile', 'socket'}"
    program = f"import sys, kafkalite.__main__; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_public_names_are_sorted_and_exist() -> None:
    assert list(kafkalite.__all__) == sorted(kafkalite.__all__)
    for name in kafkalite.__all__:
        assert getattr(kafkalite, name) is not None
    with pytest.raises(AttributeError):
        _ = kafkalite.nothing
