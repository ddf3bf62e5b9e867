"""``kafkalite cluster features``: levels are shown, checked, raised and lowered."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.harness.process import Process, Processes
from tests.unit.test_command_line import told

RECORDS, METADATA = "kafkalite.record.version", "metadata.version"


@pytest.fixture
def upgraded(processes: Processes, tmp_path: Path) -> Process:
    """A broker of this release, whose data directory has the levels of an earlier one."""
    older = processes.serve("--test-record-version", "1", data_dir=tmp_path / "data")
    older.end(signal.SIGTERM)
    return processes.serve(data_dir=tmp_path / "data")


def levels(servers: str) -> dict[str, tuple[int, int, int]]:
    """The finalized level of each feature, and the supported levels."""
    shown = told("cluster", "features", "--json", "-b", servers)
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert document["epoch"] >= 0
    return {
        row["feature"]: (row["finalized"], row["min_supported"], row["max_supported"])
        for row in document["features"]
    }


def change(servers: str, *words: str) -> tuple[int, Any, str]:
    """The exit code of a change, its JSON, and what it says on stderr."""
    done = told("cluster", "features", *words, "--json", "-b", servers)
    return done.returncode, json.loads(done.stdout or "null"), done.stderr


def test_the_table_has_each_feature_with_its_levels(broker: Process) -> None:
    shown = told("cluster", "features", "-b", broker.ready).stdout.splitlines()
    assert [line.split() for line in shown] == [
        ["feature", "finalized", "min", "supported", "max", "supported"],
        [RECORDS, "2", "1", "2"],
        [METADATA, "30", "7", "30"],
    ]


def test_a_level_is_checked_and_then_raised(upgraded: Process) -> None:
    servers = upgraded.ready
    assert levels(servers)[RECORDS] == (1, 1, 2)
    code, rows, said = change(servers, "--upgrade", f"{RECORDS}=2", "--dry-run")
    assert (code, rows) == (0, [{"feature": RECORDS, "before": 1, "finalized": 2}])
    assert said == "nothing was changed (--dry-run)\n"
    assert levels(servers)[RECORDS] == (1, 1, 2)
    code, rows, said = change(servers, "--upgrade", f"{RECORDS}=2", "--yes")
    assert (code, rows, said) == (0, [{"feature": RECORDS, "before": 1, "finalized": 2}], "")
    assert levels(servers)[RECORDS] == (2, 1, 2)


@pytest.mark.parametrize("dry_run", [["--dry-run"], ["--yes"]], ids=["dry run", "change"])
@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([f"--upgrade={RECORDS}=3"], "only supports versions 1-2"),
        (["--upgrade=no.such.feature=1"], "does not support this feature"),
        ([f"--upgrade={RECORDS}=1"], "without setting the upgrade type"),
        ([f"--downgrade={RECORDS}=1"], "might delete metadata information"),
        ([f"--downgrade={RECORDS}=1", "--unsafe"], "Unsafe metadata downgrade is not supported"),
        ([f"--upgrade={METADATA}=30", f"--upgrade={RECORDS}=9"], "only supports versions 1-2"),
    ],
)
def test_a_level_that_cannot_be_is_refused_with_the_brokers_words(
    broker: Process, words: list[str], why: str, dry_run: list[str]
) -> None:
    code, rows, said = change(broker.ready, *words, *dry_run)
    assert (code, rows) == (1, None)
    assert said.startswith("error: INVALID_UPDATE_VERSION: ")
    assert why in said
    assert "hint: `kafkalite cluster features` shows" in said


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--upgrade", RECORDS], "is not a feature and a level"),
        (["--upgrade", "a=32768"], "is not a feature and a level"),
        (["--upgrade", "a=-1"], "is not a feature and a level"),
        (["--upgrade", "=1"], "is not a feature and a level"),
        (["--upgrade", "a=1", "--upgrade", "a=2"], "a feature is named twice"),
        (["--upgrade", "a=1", "--downgrade", "b=1"], "give --upgrade or --downgrade, not both"),
        (["--upgrade", "a=1", "--unsafe"], "--unsafe wants --downgrade"),
        (["--dry-run"], "--dry-run wants --upgrade or --downgrade"),
        (["--upgrade", f"{METADATA}=30"], f"not confirmed: Finalize {METADATA} 30?"),
    ],
)
def test_words_that_name_no_change_are_a_usage_error(
    broker: Process, words: list[str], error: str
) -> None:
    code, rows, said = change(broker.ready, *words)
    assert (code, rows) == (2, None)
    assert error in said
    assert "hint: " in said
