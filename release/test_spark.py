"""Both wheels beside a PySpark from its registry: batch, stream and sink wherever Spark runs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from examples.clusters import connect_server, standalone
from release.conftest import without_rust

ROOT = Path(__file__).parents[1]
#: The same versions that the connector's own tests run with.
PYSPARK = re.compile(r"^pyspark\S*$", re.MULTILINE)

Walk = Callable[..., str]


@pytest.fixture(scope="module")
def wheels(wheel: Path, request: pytest.FixtureRequest) -> list[str]:
    """Both wheels."""
    connector: Path | None = request.config.getoption("--spark-wheel")
    if connector is None:
        pytest.skip("no --spark-wheel was given")
    return [str(wheel), str(connector.resolve())]


def venv_of(place: Path, *wanted: str) -> Path:
    """Make a venv that has these; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    found = place / "bin" / "python"
    install = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *wanted], check=True, env=without_rust())
    return found


@pytest.fixture(scope="module")
def python(wheels: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh venv with ``kafkalite[spark]``, from the two wheels."""
    pinned = PYSPARK.findall((ROOT / "tests/spark/live/requirements.txt").read_text())
    links = [f"--find-links={Path(wheel).parent}" for wheel in wheels]
    place = tmp_path_factory.mktemp("spark") / "venv"
    return venv_of(place, *links, "kafkalite[spark]", *pinned)


@pytest.fixture(scope="module")
def packed(wheels: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of a venv that has both wheels and no Spark, beside that venv."""
    place = tmp_path_factory.mktemp("packed") / "environment"
    venv_of(place, *wheels)
    archive = place.with_suffix(".tar.gz")
    with tarfile.open(archive, "w:gz", compresslevel=1) as file:
        file.add(place, ".")
    return archive


@pytest.fixture(scope="module")
def home(python: Path) -> Path:
    """The folder of the Spark in it."""
    words = [str(python), "-c", "import pyspark; print(pyspark.__path__[0])"]
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=without_rust())
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def remote(home: Path, python: Path) -> Iterator[str]:
    """The URL of a Connect server."""
    with connect_server(home=home, python=python) as url:
        yield url


@pytest.fixture
def walk(python: Path, tmp_path: Path) -> Walk:
    """Run a copy of the walk, far from the checkout; return its last line."""
    program = shutil.copy(ROOT / "tests/spark/live/walk.py", tmp_path)

    def run(*words: str, cwd: Path = tmp_path, workers: str = str(python)) -> str:
        done = subprocess.run(
            [python, "-P", program, *words],
            cwd=cwd,
            env={**without_rust(), "PYSPARK_PYTHON": workers, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4_000:]
        last = done.stdout.splitlines()[-1]
        assert last.endswith(f"with kafkalite of {package_of(python)}")
        return last

    return run


def package_of(python: Path) -> Path:
    """Where the package is that must have been used."""
    (found,) = python.parents[1].glob("lib/python*/site-packages/kafkalite/__init__.py")
    return found


def test_no_jar_of_kafkas_is_there(home: Path) -> None:
    assert (home / "jars").is_dir()
    assert [jar.name for jar in (home / "jars").glob("*kafka*")] == []


def test_in_one_process(walk: Walk) -> None:
    assert "pyspark.sql.session" in walk("--master", "local[2]")


def test_on_executors_that_are_processes_of_their_own(walk: Walk) -> None:
    walk("--master", "local-cluster[2,1,1024]")


def test_on_a_standalone_cluster(walk: Walk, home: Path) -> None:
    with standalone(home=home) as master:
        walk("--master", master)


def test_from_an_archive_that_spark_ships_to_its_executors(
    walk: Walk, home: Path, packed: Path
) -> None:
    # No executor has such a folder but from the archive.
    with standalone(home=home) as master:
        words = ["--master", master, "--archive", f"{packed}#environment"]
        walk(*words, cwd=packed.parent, workers="./environment/bin/python")


def test_through_connect(walk: Walk, remote: str) -> None:
    assert "pyspark.sql.connect.session" in walk("--remote", remote)
