"""The blocks of the README and of the guides run.

A block of ``python`` runs as a program in an empty directory. If its first line names a file, it is
written to that file, and pytest runs it. A block of ``sh`` runs beside a broker, whose addresses
are in ``$BOOTSTRAP`` and ``$ADMIN``. Blocks of ``console`` are for reading.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalite import _native
from kafkalite.cli.program import COMMANDS

if TYPE_CHECKING:
    from tests.harness.process import Process

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"

#: Pages with names of other programs.
FOREIGN = {"from-confluent-kafka", "from-kafka-python", "from-aiokafka", "spark", "spark-tuning"}

PAGES = [README, DOCS / "index.md", DOCS / "quickstart.md", *sorted((DOCS / "guides").glob("*.md"))]

#: A block with this word needs Spark, which is not installed here: `tests/spark/live` runs it.
SPARK = re.compile(r"\b(?:spark|pyspark|kafkalite_spark)\b")

#: How long a block may take; on a loaded machine all is slow.
PATIENCE_S = 120


def blocks_of(page: Path, language: str) -> list[str]:
    """The blocks of that language, in order, without those for Spark."""
    found = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [block for block in found if not SPARK.search(block)]


def all_blocks(language: str) -> list[object]:
    """Every block of that language, named by its page and place."""
    return [
        pytest.param(block, id=f"{page.stem}-{number}")
        for page in PAGES
        if page.exists()
        for number, block in enumerate(blocks_of(page, language), 1)
    ]


def run(words: list[str], cwd: Path, environment: dict[str, str] | None = None) -> str:
    """Run it; what it printed."""
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_readme_begins_with_the_two_commands() -> None:
    first = blocks_of(README, "console")[0].splitlines()
    assert [line.split("#")[0].strip() for line in first] == ["make serve", "make test"]


def test_the_readme_links_to_files_that_are_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text())
    assert len(links) >= 3
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("block", all_blocks("sh"))
def test_a_shell_block_runs(broker: Process, tmp_path: Path, block: str) -> None:
    if "curl" in block and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"BOOTSTRAP": broker.ready, "ADMIN": broker.admin, "PATH": programs}
    assert run(["bash", "-euo", "pipefail", "-c", block], tmp_path, environment)


@pytest.mark.parametrize("block", all_blocks("python"))
def test_a_python_block_runs(tmp_path: Path, block: str) -> None:
    file = re.match(r"# (\w+\.py)\n", block)
    if file is None:
        run([sys.executable, "-W", "error", "-c", block], tmp_path)
        return
    (tmp_path / file[1]).write_text(block)
    if not file[1].startswith("test_"):
        (tmp_path / "test_it.py").write_text(
            "def test_it(kafkalite_broker):\n    assert kafkalite_broker.bootstrap_servers\n"
        )
    # This run's own plugins and options do not apply.
    environment = {"PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": ""}
    run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], tmp_path, environment)


def codes_of_the_broker() -> set[str]:
    """The error codes that stand in the broker's sources, as Rust spells them."""
    sources = [*(ROOT / "rust/broker/src").rglob("*.rs"), *(ROOT / "rust/log/src").rglob("*.rs")]
    # A fault may have any error of Kafka.
    apart = {"tests", "test_control"}
    texts = [path.read_text() for path in sources if apart.isdisjoint(path.parts)]
    return {name for text in texts for name in re.findall(r"\bErrorCode::([A-Z]\w+)", text)}


def test_the_error_reference_explains_every_code_of_the_broker() -> None:
    page = (DOCS / "reference" / "errors.md").read_text()
    known = {name for _, name, _, _ in _native.error_codes()}
    explained = set(re.findall(r"`([A-Z_]{5,})`", page))
    assert explained <= known
    spelled = {name.replace("_", "").lower(): name for name in known}
    given = {spelled[name.lower()] for name in codes_of_the_broker() if name.lower() in spelled}
    assert len(given) > 50
    assert given - explained == {"NONE"}


#: Names that are no keys of ours: refused, of other clients, or files.
NAMED_ALL_THE_SAME = {"transactional.id", "py.typed"}
#: Kafka's, which a running broker keeps as given or refuses to change.
NAMED_ALL_THE_SAME |= {
    "background.threads",
    "cordoned.log.dirs",
    "internal.segment.bytes",
    "log.local.retention.bytes",
    "log.local.retention.ms",
    "max.connection.creation.rate",
    "max.connections.per.ip.overrides",
    "metric.reporters",
    "num.replica.alter.log.dirs.threads",
    "num.replica.fetchers",
    "principal.builder.class",
}
#: Features of a cluster, which have levels and no values.
NAMED_ALL_THE_SAME |= {"kafkalite.record.version", "metadata.version"}
#: Of a client that is not ours, and of a `client-metrics` subscription.
NAMED_ALL_THE_SAME |= {"socket.timeout.ms", "interval.ms"}


def prose() -> dict[str, str]:
    """The text of the pages, without decisions: these are about their time."""
    pages = [README, *DOCS.glob("*.md"), *DOCS.glob("[!a]*/*.md")]
    return {page.stem: page.read_text() for page in pages if page.stem not in FOREIGN}


def test_every_key_that_the_docs_name_exists() -> None:
    keys = {key.name for key in _native.config_keys()} | {key[0] for key in _native.client_keys()}
    shape = re.compile(r"`([a-z]+(?:\.[a-z]+)+)(?:=[^`]*)?`")
    named = {name for text in prose().values() for name in shape.findall(text)}
    files = {name for name in named if name.endswith((".md", ".py", ".rs", ".properties", ".toml"))}
    assert len(named & keys) > 40
    assert named - files - keys == NAMED_ALL_THE_SAME


def test_a_promise_for_any_kafka_leaves_out_tls() -> None:
    folders = (DOCS.parent / "python", DOCS.parent / "spark_connector")
    sources = [path for folder in folders for path in folder.rglob("*.py")]
    sources.append(DOCS.parent / "spark_connector" / "README.md")
    texts = [*prose().values(), *(path.read_text() for path in sources)]
    promises = [word for text in texts for word in re.findall(r"any Kafka(.{0,12})", text)]
    assert len(promises) > 5
    assert {word for word in promises if not word.startswith(" without TLS")} == set()


def test_every_command_that_the_docs_name_exists() -> None:
    named = {
        verb for text in prose().values() for verb in re.findall(r"`kafkalite ([a-z-]+[a-z])", text)
    }
    assert len(named) >= 5
    assert named <= set(COMMANDS)
