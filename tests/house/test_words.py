"""Plain English: hard words and long sentences are counted, and the counts may only fall."""

from __future__ import annotations

import json
from functools import cache

import pytest

from tests.house import words

#: Rows for readers who are new: no hard word and no long sentence is left in them.
CLEAN = (
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "README.md",
    "docs/guides",
    "docs/index.md",
    "docs/notes",
    "docs/quickstart.md",
    "docs/reference",
    "docs/scorecard.md",
    "docs/unsupported.md",
    "docs/why.md",
    "python/kafkalite/cli",
    "python/kafkalite/cli: messages",
    "python/kafkalite: messages",
    "spark_connector/kafkalite_spark: messages",
)

#: How far the table may be above the counts, so that small changes leave the table alone.
SLACK = 10

Counts = dict[str, dict[str, int]]


@cache
def found() -> tuple[words.Hit, ...]:
    """Every hit of the repository."""
    return tuple(words.hits())


def table() -> Counts:
    """The counts as they are checked in."""
    counts: Counts = json.loads(words.TABLE.read_text())
    return counts


def test_no_count_rises() -> None:
    allowed = table()
    risen = [
        f"{row}: {count} {what}, and {allowed.get(row, {}).get(what, 0)} are allowed. "
        f"To see them: python -m tests.house.words FILE..."
        for row, counts in words.counts(list(found())).items()
        for what, count in counts.items()
        if count > allowed.get(row, {}).get(what, 0)
    ]
    assert not risen, "\n".join(risen)


def test_the_table_follows_the_counts_down() -> None:
    counts = words.counts(list(found()))
    slack = [
        f"{row}: {count} {what}, and {allowed} are allowed. "
        f"To lower the table: python -m tests.house.words --write"
        for row, kinds in table().items()
        for what, allowed in kinds.items()
        if (count := counts.get(row, {}).get(what, 0)) == 0 or allowed - count > SLACK
    ]
    assert not slack, "\n".join(slack)


def test_texts_for_new_readers_have_no_row() -> None:
    assert [row for row in table() if row in CLEAN] == []


LONG = " ".join(["word"] * (words.LONGEST + 1))


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("a.md", f"A sentence of words.\n\n{LONG}.\n", [("sentences", 3)]),
        ("a.md", "One. `two` three. " * 20, []),
        ("a.md", f"```text\n{LONG}\nnobody\n```\n`nobody`\n\nNobody waits.\n", [("words", 7)]),
        ("a.md", f"| a cell | {LONG} |\n", [("sentences", 1)]),
        (
            "a.rs",
            f"fn x() {{}}\n// {LONG[:60]}\n// {LONG[60:]}\n",
            [("sentences", 2)],
        ),
        ("a.rs", "//! The client\n//! is told.\nlet quote = '\"';\n", [("words", 1)]),
        ("a.rs", 'let a = "read in vain"; struct DeadReign;', [("words", 1), ("words", 1)]),
        ("a.py", f'"""{LONG}."""\n', [("sentences", 1)]),
        ("a.py", 'x = 1  # told of\ny = f"{x} is told"\n', [("words", 2), ("words", 1)]),
        ("a.py", "x = ['nobody', '<p>nobody waits</p>', 'nobody waits']\n", [("words", 1)]),
        ("a.py", "def test_nobody_waits() -> None: ...\n", [("words", 1)]),
    ],
)
def test_hits_are_found_where_they_stand(
    name: str, source: str, expected: list[tuple[str, int]]
) -> None:
    assert [(hit.what, hit.line) for hit in words.hits_of(name, source)] == expected


def test_messages_have_a_row_of_their_own_but_in_tests() -> None:
    assert words.row_of("rust/log/src/file.rs", "messages") == "rust/log: messages"
    assert words.row_of("rust/log/src/file/tests.rs", "messages") == "rust/log"
    assert words.row_of("tests/unit/test_x.py", "messages") == "tests/unit"
    assert words.row_of("python/kafkalite/cli/log.py", "") == "python/kafkalite/cli"
