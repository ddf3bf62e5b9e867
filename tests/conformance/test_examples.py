"""The examples that other languages copy: each starts a broker, and its client outlives a fault."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import places

PATIENCE_S = 90


def run(command: list[str], cwd: Path) -> str:
    """Run an example with the checkout's ``kafkalite`` on its path; what it printed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=cwd,
        env=dict(os.environ, PATH=path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def needs(what: Path) -> Path:
    if not what.exists():
        pytest.skip(f"{what.name} is missing: python tests/conformance/prerequisites.py --install")
    return what


def test_the_example_in_go_passes(tmp_path: Path) -> None:
    told = run([str(needs(places.GO_BINARIES / "faults.test")), "-test.v"], tmp_path)
    assert "PASS: TestTheProducerSurvivesALeaderThatMoves" in told


def test_the_example_in_node_passes(tmp_path: Path) -> None:
    modules = needs(places.KAFKAJS_INSTALLED / "node_modules")
    (tmp_path / "node_modules").symlink_to(modules)
    shutil.copy(places.EXAMPLES / "faults.mjs", tmp_path)
    assert "the third produce was sent again" in run(["node", "faults.mjs"], tmp_path)


def test_the_example_in_java_passes(tmp_path: Path) -> None:
    needs(places.junit_jar())
    java = places.java()
    assert java
    jars = f"{places.JARS}/*"
    source = str(places.EXAMPLES / "FaultsTest.java")
    run([str(Path(java).with_name("javac")), "-d", ".", "-cp", jars, source], tmp_path)
    launcher = "org.junit.platform.console.ConsoleLauncher"
    chosen = ["execute", "--select-class", "FaultsTest", "--details=summary"]
    told = run([java, "-cp", f".{os.pathsep}{jars}", launcher, *chosen], tmp_path)
    assert "[         1 tests successful      ]" in told


def test_the_example_in_rust_passes(tmp_path: Path) -> None:
    told = run([str(needs(places.RUST_EXAMPLES / "debug" / "faults"))], tmp_path)
    assert "the third produce was sent again" in told
