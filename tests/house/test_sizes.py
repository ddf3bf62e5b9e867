"""How long a file, a function and a line may be. The exceptions may only become fewer."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXCEPTIONS: dict[str, dict[str, int]] = json.loads(
    (Path(__file__).parent / "size_exceptions.json").read_text()
)

FILE_LINES = 500
FUNCTION_LINES = 70
LINE_LENGTH = 100

_RUST_FUNCTION = re.compile(
    r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:default |const |async |unsafe |extern \"C\" )*fn (\w+)"
)
_JS_FUNCTION = re.compile(r"^(\s*)(?:export )?(?:async )?(?:function \w*|\w+)\(.*\) \{$")
_PYTHON_FUNCTION = re.compile(r"^(\s*)(?:async )?def (\w+)")


def rust_function_end(lines: list[str], start: int, indent: str) -> int:
    """The last line of the function that begins at ``start``.

    rustfmt puts the closing brace under the function's first letter, unless the function is one
    line, or is only declared.
    """
    if lines[start].rstrip().endswith((";", "}")):
        return start
    for at in range(start, len(lines)):
        if at > start and lines[at].rstrip() == indent + "}":
            return at
        if at > start and lines[at].startswith(indent + ")") and lines[at].endswith(";"):
            return at
    return start


def longest_rust_function(lines: list[str]) -> int:
    """Lines of the longest function."""
    longest = 0
    for start, line in enumerate(lines):
        if found := _RUST_FUNCTION.match(line):
            longest = max(longest, rust_function_end(lines, start, found[1]) - start + 1)
    return longest


def longest_js_function(lines: list[str]) -> int:
    """Lines of the longest function or method; its closing brace stands under its first letter."""
    longest = 0
    for start, line in enumerate(lines):
        if found := _JS_FUNCTION.match(line):
            rest = range(start, len(lines))
            end = next((at for at in rest if lines[at].rstrip() == found[1] + "}"), start)
            longest = max(longest, end - start + 1)
    return longest


def longest_python_function(lines: list[str]) -> int:
    """Lines of the longest function, from its ``def`` to its last line."""
    longest = 0
    for start, line in enumerate(lines):
        if found := _PYTHON_FUNCTION.match(line):
            end = start
            for at in range(start + 1, len(lines)):
                text = lines[at]
                indent = len(text) - len(text.lstrip())
                inside = not text.strip() or indent > len(found[1]) or text.lstrip()[0] in ")]"
                if not inside:
                    break
                end = at if text.strip() else end
            longest = max(longest, end - start + 1)
    return longest


def is_test(path: str) -> bool:
    """Tests may be long; their lines and functions may not."""
    return path.endswith("tests.rs") or "tests/" in path


def measured(path: str) -> dict[str, int]:
    """What of ``path`` is beyond the limits."""
    lines = (ROOT / path).read_text().splitlines()
    longest = {".rs": longest_rust_function, ".js": longest_js_function}.get(
        Path(path).suffix, longest_python_function
    )
    sizes = {
        "file lines": 0 if is_test(path) else len(lines),
        "function lines": 0 if is_test(path) else longest(lines),
        "long lines": sum(len(line) > LINE_LENGTH for line in lines),
    }
    limits = {"file lines": FILE_LINES, "function lines": FUNCTION_LINES, "long lines": 0}
    return {what: size for what, size in sizes.items() if size > limits[what]}


@cache
def sources() -> tuple[str, ...]:
    """Every file of code that is part of the repository, or about to be, and ours."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(
        [*command, "*.rs", "*.py", "*.js"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    theirs = re.compile("/vendor/|/third_party/")
    ours = (path for path in done.stdout.splitlines() if not theirs.search(path))
    return tuple(path for path in ours if (ROOT / path).exists())


def test_there_are_sources_to_measure() -> None:
    assert len(sources()) > 100


def test_sizes_are_within_the_limits() -> None:
    beyond = [
        f"{path}: {size} {what}"
        for path in sources()
        for what, size in measured(path).items()
        if size > EXCEPTIONS.get(path, {}).get(what, 0)
    ]
    assert not beyond, "\n".join(beyond)


def test_every_exception_is_still_needed() -> None:
    needless = [
        f"{path}: {what}"
        for path, allowed in EXCEPTIONS.items()
        for what in allowed
        if path not in sources() or what not in measured(path)
    ]
    assert not needless, "\n".join(needless)


def test_the_measure_of_functions_counts_what_rustfmt_writes() -> None:
    short = "fn one() -> u8 { 1 }\n\npub fn two(\n    a: u8,\n) -> u8 {\n    a\n}\n"
    assert longest_rust_function(short.splitlines()) == 5
    declared = "trait A {\n    fn one(&self);\n    fn two(&self) {\n        x();\n    }\n}\n"
    assert longest_rust_function(declared.splitlines()) == 3
    js = "export function one(a) {\n  if (a) {\n    b();\n  }\n}\n\nclass A {\n  two() {\n  }\n}\n"
    assert longest_js_function(js.splitlines()) == 5
    python = "def one():\n    pass\n\n\ndef two(\n    a,\n):\n\n    return a\n\nx = 1\n"
    assert longest_python_function(python.splitlines()) == 5
