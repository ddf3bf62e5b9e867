"""The repository explains itself: it names no place outside of itself."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Places of one machine, in pieces so that this file does not name them either.
FOREIGN = re.compile(
    "|".join(
        [
            "/work/" + r"(?:main|shared)",
            r"\.\./" + "shared",
            r"(?<![\w.$}/])/" + r"(?:home|Users|root)/\w",
            r"(?<![\w.$}/])/" + r"tmp/(?!kafka-logs|kraft)\w",
        ]
    )
)


@cache
def texts() -> dict[str, str]:
    """Every text file that is part of the repository, or about to be, by its path."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    kinds = {".rs", ".py", ".pyi", ".md", ".toml", ".schema", ".java", ".go", ".sh"}
    paths = [Path(line) for line in done.stdout.splitlines()]
    wanted = [path for path in paths if path.suffix in kinds or path.name in {"Makefile", "run"}]
    return {str(path): (ROOT / path).read_text() for path in wanted if (ROOT / path).is_file()}


def test_no_file_names_a_place_outside_of_the_repository() -> None:
    named = [
        f"{path}: {found[0]}" for path, text in texts().items() if (found := FOREIGN.search(text))
    ]
    assert not named, "\n".join(named)


def test_nothing_is_left_to_do_later() -> None:
    marker = "TO" + "DO"
    left = [path for path, text in texts().items() if marker in text]
    assert not left, "\n".join(left)


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        ("see /ho" + "me/somebody/x", True),
        ("`/t" + "mp/x`", True),
        ("tests/tmp/x and {root}/tmp/x", False),
        ("`/tmp/kafka-logs`", False),
    ],
)
def test_foreign_places_differ_from_our_own(text: str, foreign: bool) -> None:
    assert bool(FOREIGN.search(text)) == foreign


def imports(path: Path) -> set[str]:
    """The packages that a file cannot do without: what it imports outside of a ``try``."""
    tree = ast.parse(path.read_text())
    optional = {
        node
        for attempt in ast.walk(tree)
        if isinstance(attempt, ast.Try)
        for node in ast.walk(attempt)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in optional:
            continue
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def test_the_tests_import_nothing_but_what_make_test_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["dev"],
    ]
    names = {re.split(r"[^\w-]", line)[0].replace("-", "_") for line in wanted}
    known = (
        names
        | sys.stdlib_module_names
        | {"benches", "kafka", "kafkalite", "kafkalite_spark", "release", "tests"}
    )
    elsewhere = set(project["tool"]["pytest"]["ini_options"]["norecursedirs"])
    missing = [
        f"{path.relative_to(ROOT)}: {sorted(foreign)}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if not elsewhere & set(path.parts) and (foreign := imports(path) - known)
    ]
    assert not missing, "\n".join(missing)
