"""The source distribution: what builds the wheel, and no more."""

from __future__ import annotations

import json
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest

from release import licenses

ROOT = Path(__file__).parents[1]
MOST_BYTES = 2_000_000


@pytest.fixture(scope="module")
def sdist(request: pytest.FixtureRequest) -> Path:
    """The sdist to look at."""
    found: Path | None = request.config.getoption("--sdist")
    if found is None:
        pytest.skip("no --sdist was given")
    return found


def names(sdist: Path) -> set[str]:
    """The files in it, below its one folder."""
    with tarfile.open(sdist) as opened:
        return {name.partition("/")[2] for name in opened.getnames()}


def test_every_source_of_the_wheel_is_inside(sdist: Path) -> None:
    packages = licenses.reachable(licenses.PLATFORMS[0])
    folders = [Path(one["manifest_path"]).parent for one in packages if one["source"] is None]
    tracked = subprocess.run(
        ["git", "ls-files", "python", *folders],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    wanted = set(tracked.stdout.splitlines())
    files = {"LICENSE", "THIRD-PARTY-LICENSES.txt", "README.md", "Cargo.lock", "pyproject.toml"}
    assert (wanted | files) - names(sdist) == set()


def test_cargo_takes_it_with_the_versions_that_are_locked(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as opened:
        opened.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    command = ["cargo", "metadata", "--offline", "--format-version", "1"]
    done = subprocess.run(
        [*command, "--filter-platform", licenses.PLATFORMS[0]],
        cwd=unpacked,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    taken = {(one["name"], one["version"]) for one in json.loads(done.stdout)["packages"]}
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    assert len(taken) > 50
    assert taken <= {(one["name"], one["version"]) for one in locked}


def test_it_is_small_and_carries_no_recorded_answers(sdist: Path) -> None:
    assert sdist.stat().st_size <= MOST_BYTES
    assert not [name for name in names(sdist) if name.startswith(("tests/", "benches/", "docs/"))]
