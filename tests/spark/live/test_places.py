"""Batch, stream and sink wherever Spark runs: executors of their own, clusters, Spark Connect."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from examples.clusters import connect_server, standalone

WALK = Path(__file__).with_name("walk.py")


def walk(tmp_path: Path, *words: str) -> str:
    """Run the walk in a process of its own; return its last line."""
    done = subprocess.run(
        [sys.executable, "-P", str(WALK), *words],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4_000:]
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def remote() -> Iterator[str]:
    """Return the URL of a Connect server."""
    with connect_server() as url:
        yield url


def test_on_executors_that_are_processes_of_their_own(tmp_path: Path) -> None:
    try:
        assert "with kafkalite of" in walk(tmp_path, "--master", "local-cluster[2,1,1024]")
    finally:
        # Its workers write into the installed package.
        shutil.rmtree(Path(pyspark.__file__).parent / "work", ignore_errors=True)


@pytest.mark.slice
def test_on_a_standalone_cluster(tmp_path: Path) -> None:
    with standalone() as master:
        assert "with kafkalite of" in walk(tmp_path, "--master", master)


@pytest.mark.slice
def test_through_connect_by_name(remote: str, tmp_path: Path) -> None:
    told = walk(tmp_path, "--remote", remote)
    assert "pyspark.sql.connect" in told
    assert "with kafkalite of" in told


def test_through_connect_by_register(remote: str, tmp_path: Path) -> None:
    assert "with by_hand of" in walk(tmp_path, "--remote", remote, "--register")


def test_by_register_without_connect(tmp_path: Path) -> None:
    assert "with by_hand of" in walk(tmp_path, "--master", "local[2]", "--register")
