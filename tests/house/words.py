"""Counts hard words and long sentences, folder by folder.

    python -m tests.house.words                  # every folder with its counts
    python -m tests.house.words README.md docs   # each hit below these paths, with its line
    python -m tests.house.words --write          # lowers word_counts.json to what is there

A source file has three kinds of text: comments (with docstrings), messages (string literals) and
names (of functions and types). Messages have a row of their own, because users read them.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).parent / "word_counts.json"

#: The longest sentence, in words.
LONGEST = 25

#: Words that a reader has to work out, each as a pattern. "Plain English" of CONTRIBUTING.md says
#: what to write in their place.
WORDS = (
    r"nobody|somebody|anybody|everybody|whoever|whomever",
    r"anew|in vain|lest|unasked|to be had|for ever|for good|all the same|but for",
    r"(?:is|are|was|were|be|been|being) told",
    r"told (?:of|about|from|apart)|tells? (?:of|about)|(?:hears?|heard) of|what became of",
    r"tellers?|reigns?|parcels?|bells?|ropes?|surroundings",
)
HARD = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)

_RUST = re.compile(
    r"""(?P<comment>(?:^[ \t]*//[^\n]*\n?)+|//[^\n]*|/\*.*?\*/)
    |r(?P<raw>\#*)"(?P<rawtext>.*?)"(?P=raw)
    |b?"(?P<text>(?:\\.|[^"\\])*)"
    |'(?:\\.[^']*|[^'\\])'
    |\b(?:fn|struct|enum|trait|mod|type|const|static)\s+(?P<name>\w+)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_FENCE = re.compile(r"^([ \t]*)(```+|~~~+|:::+).*?^\1\2[ \t]*$", re.DOTALL | re.MULTILINE)
#: Where a paragraph ends although no blank line follows: the next line is an item, a row, a head.
_ITEM = re.compile(r"\s*(?:[-*+|#]|\d+\.\s|\w+(?:, \w+)*: )")
_END = re.compile(r"(?<=[.!?])[)\"'*]*\s+(?=[^a-z\s])")


class Text(NamedTuple):
    """One piece of prose of a file: what kind it is, where it begins, and its text."""

    kind: str
    line: int
    text: str


class Hit(NamedTuple):
    """A hard word or a long sentence."""

    row: str
    what: str
    path: str
    line: int
    text: str


def plain(text: str) -> str:
    """The text without code and addresses; each of them counts as one word."""
    text = re.sub(r"(`+).+?\1", "Code", text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"https?://\S+", "address", text)


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Each paragraph, list item and table cell, with the line it begins on, counted from 0."""
    begin, lines = 0, list[str]()
    block = False
    for number, line in enumerate([*text.splitlines(), ""]):
        after_blank = not lines
        if not line.strip() or _ITEM.match(line) or (lines and lines[-1].endswith(":")):
            if lines:
                yield begin, " ".join(lines)
            lines = []
        if not line.strip():
            continue
        # An indented block after a blank line is an example, not prose.
        block = line.startswith("    ") and (block or after_blank) and not _ITEM.match(line)
        if block:
            continue
        if line.lstrip().startswith("|"):
            yield from ((number, cell.strip()) for cell in line.split("|") if cell.strip())
            continue
        begin = begin if lines else number
        lines.append(line.strip())


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Each sentence with the line of its paragraph."""
    for line, paragraph in paragraphs(plain(text)):
        yield from ((line, one) for one in _END.split(paragraph))


def length(sentence: str) -> int:
    """The number of words in it."""
    return len(re.findall(r"[^\W_](?:[\w'’.,/-]*\w)?", sentence))


def blanked(found: re.Match[str]) -> str:
    """As many blank lines as the match has, so that lines keep their numbers."""
    return "\n" * found[0].count("\n")


def words_of(name: str) -> str:
    """The words of ``snake_case`` or ``CamelCase``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").strip()


def of_markdown(source: str) -> Iterator[Text]:
    """All of the page but its blocks of code."""
    yield Text("", 1, _FENCE.sub(blanked, source))


def of_rust(source: str) -> Iterator[Text]:
    """Comments, string literals and the names of items."""
    for found in _RUST.finditer(source):
        line = source.count("\n", 0, found.start()) + 1
        if comment := found["comment"]:
            text = re.sub(r"^[ \t]*//[/!]?[ ]?", "", comment, flags=re.MULTILINE)
            yield Text("", line, _FENCE.sub(blanked, text))
        elif name := found["name"]:
            yield Text("", line, words_of(name))
        elif message := found["text"] or found["rawtext"]:
            yield Text("messages", line, re.sub(r"\\n|\\\n\s*", " ", message))


def strings_of(tree: ast.Module) -> Iterator[Text]:
    """Docstrings, other string literals and the names of functions and classes."""
    passed_over = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if not isinstance(node, ast.Module):
                yield Text("", node.lineno, words_of(node.name))
            if docstring := ast.get_docstring(node):
                first = node.body[0]
                assert isinstance(first, ast.Expr)
                passed_over.add(id(first.value))
                yield Text("", first.lineno, docstring)
        elif isinstance(node, ast.JoinedStr):
            passed_over |= {id(part) for part in node.values}
            parts = (one.value if isinstance(one, ast.Constant) else "x" for one in node.values)
            yield Text("messages", node.lineno, "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and id(node) not in passed_over:
            yield Text("messages", node.lineno, node.value if isinstance(node.value, str) else "")


def comments_of(source: str) -> Iterator[Text]:
    """Comments; those on lines that follow one another are one text."""
    lines: list[str] = []
    begin = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != begin + len(lines):
                yield Text("", begin, "\n".join(lines))
                lines, begin = [], token.start[0]
            lines.append(re.sub(r"^#:? ?", "", token.string))
    yield Text("", begin, "\n".join(lines))


def of_python(source: str) -> Iterator[Text]:
    """Strings, names and comments."""
    yield from strings_of(ast.parse(source))
    yield from comments_of(source)


READERS = {".md": of_markdown, ".rs": of_rust, ".py": of_python, ".pyi": of_python}


def row_of(path: str, kind: str) -> str:
    """The row of the table that a text of this file counts in."""
    parts = Path(path).parts
    folder = parts[0] if len(parts) == 1 else "/".join(parts[:-1][:2])
    if parts[:3] == ("python", "kafkalite", "cli"):
        folder = "python/kafkalite/cli"
    if folder == "docs":
        folder = path
    if kind and ("tests" in parts or path.endswith("tests.rs") or parts[0] in {"tests", "fuzz"}):
        kind = ""
    return f"{folder}: {kind}" if kind else folder


def hits_of(path: str, source: str) -> Iterator[Hit]:
    """Every hard word and long sentence of a file."""
    for kind, line, text in READERS[Path(path).suffix](source):
        # A literal of one word is a value, and markup is data.
        if kind and (" " not in text.strip() or text.startswith("<")):
            continue
        row = row_of(path, kind)
        for below, sentence in sentences(text):
            for word in HARD.findall(sentence):
                yield Hit(row, "words", path, line + below, f"{word!r} in: {sentence}")
            if (count := length(sentence)) > LONGEST:
                yield Hit(row, "sentences", path, line + below, f"{count} words: {sentence}")


def paths() -> Iterator[str]:
    """Every file of the repository that has prose of ours, or is about to be part of it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    #: The words themselves, recorded answers, generated text and libraries of others.
    left_out = (
        "tests/house/words.py",
        "tests/house/test_words.py",
        "tests/golden/",
        "rust/third_party/",
    )
    for path in done.stdout.splitlines():
        is_read = Path(path).suffix in READERS and not path.startswith(left_out)
        if is_read and (ROOT / path).is_file():
            yield path


def hits(below: list[str] | None = None) -> list[Hit]:
    """Every hit of the repository, or below these paths."""
    found: list[Hit] = []
    for path in paths():
        if not below or any(path == one or path.startswith(one.rstrip("/") + "/") for one in below):
            found += hits_of(path, (ROOT / path).read_text())
    return found


def counts(found: list[Hit]) -> dict[str, dict[str, int]]:
    """How many hits each row of the table has; rows without any are left out."""
    table: dict[str, Counter[str]] = {}
    for hit in found:
        table.setdefault(hit.row, Counter())[hit.what] += 1
    return {row: dict(sorted(table[row].items())) for row in sorted(table)}


def main() -> int:
    """Print or write."""
    parser = argparse.ArgumentParser(description="Hard words and long sentences.")
    parser.add_argument("paths", nargs="*", help="files or folders; each hit is printed")
    parser.add_argument("--write", action="store_true", help="lower the table to the counts")
    options = parser.parse_args()
    found = hits(options.paths)
    if options.write:
        TABLE.write_text(json.dumps(counts(found), indent=1) + "\n")
    elif options.paths:
        for hit in found:
            print(f"{hit.path}:{hit.line}: {hit.text}")
    else:
        print(json.dumps(counts(found), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
