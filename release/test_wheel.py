"""The wheel as a user gets it: its name, its size, what is in it, and that it runs."""

from __future__ import annotations

import re
import signal
import subprocess
import zipfile
from pathlib import Path

import pytest

from release.conftest import Run, without_rust

ROOT = Path(__file__).parents[1]
MOST_BYTES = 8_000_000


def test_one_wheel_serves_every_python_from_3_11_on(wheel: Path) -> None:
    assert re.fullmatch(r"kafkalite-[^-]+-cp311-abi3-\w+\.whl", wheel.name)


def test_it_is_small(wheel: Path, request: pytest.FixtureRequest) -> None:
    if wheel.parent.name == "ci":
        pytest.skip("not optimised for size: it carries what debuggers read")
    assert wheel.stat().st_size <= MOST_BYTES


def test_it_holds_all_of_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = {Path(name) for name in opened.namelist() if "dist-info" not in name}
    tracked = subprocess.run(
        ["git", "ls-files", "python"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    wanted = {Path(line).relative_to("python") for line in tracked.stdout.splitlines()}
    assert names == wanted | {Path("kafkalite/_native.abi3.so")}


def test_a_backtrace_of_it_has_names(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        binary = opened.read("kafkalite/_native.abi3.so")
    # As the table of symbols spells our functions: each word after its length.
    assert b"16kafkalite_broker8handlers" in binary


def test_our_licence_and_those_of_others_are_inside(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        inside = {Path(name).name: name for name in opened.namelist() if "licenses/" in name}
        for file in ("LICENSE", "THIRD-PARTY-LICENSES.txt"):
            assert opened.read(inside[file]) == (ROOT / file).read_bytes()


def test_it_tells_its_version(run: Run, wheel: Path) -> None:
    version = wheel.name.split("-")[1]
    assert version in run("kafkalite", "--version")
    assert version in run("python", "-m", "kafkalite", "--version")


def test_a_broker_serves_and_stops(venv: Path, tmp_path: Path) -> None:
    words = ["serve", "--listen", "127.0.0.1:0", "--admin-port", "-1", "--data-dir", "data"]
    process = subprocess.Popen(
        [str(venv / "python"), "-m", "kafkalite", *words],
        cwd=tmp_path,
        env=without_rust(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert re.fullmatch(r"ready: 127\.0\.0\.1:\d+\n", process.stdout.readline())
    finally:
        process.send_signal(signal.SIGTERM)
        process.stdout.close()
        assert process.wait(30) == 0


def test_a_broker_lives_in_a_python_process(run: Run) -> None:
    script = "import kafkalite as kl\nwith kl.Broker() as b:\n    print(b.bootstrap_servers)"
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", run("python", "-c", script))


def test_the_table_of_keys_is_inside(run: Run) -> None:
    assert "retention.ms" in run("kafkalite", "config", "explain", "retention.ms")
