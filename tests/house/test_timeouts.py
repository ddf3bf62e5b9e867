"""Each time of the broker, of a key or a constant, has a test that does not wait for it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE: dict[str, dict[str, str]] = tomllib.loads(
    (Path(__file__).parent / "timeouts.toml").read_text()
)
#: Where the keys are that the broker acts upon. It keeps those of other files as they are given.
TABLES = ("broker_keys.rs", "log_keys.rs", "client_metrics.rs")
_KEY = re.compile(r'"([a-z.]+\.(?:ms|seconds|minutes|hours))"')
_CONSTANT = re.compile(
    r"^(?:pub(?:\([a-z]+\))? )?const (\w*(?:TIMEOUT|PATIENCE|DEADLINE|WAIT)\w*): "
    r"(?:Duration|[iu]\d)",
    re.MULTILINE,
)
_RUST_TEST = r"#\[(?:tokio::)?test\b[^\n]*\n(?:[^\n]*\n)??[^\n]*fn {}\("


def keys() -> set[str]:
    """Keys of times that the broker acts upon."""
    folder = ROOT / "rust/broker/src/config"
    return {key for name in TABLES for key in _KEY.findall((folder / name).read_text())}


def test_each_key_of_a_time_has_a_test() -> None:
    named = [*TABLE["keys"], *TABLE["same_as"], *TABLE["kept"]]
    assert len(named) == len(set(named)), "a key stands in one part of the table"
    assert keys() == set(named)
    assert set(TABLE["same_as"].values()) <= set(TABLE["keys"])


def constants() -> set[str]:
    """Files of the broker, its log and its quorum, each with a constant that bounds a wait."""
    files = [
        path
        for crate in ("broker", "log", "quorum")
        for path in (ROOT / "rust" / crate / "src").rglob("*.rs")
        if not {"tests", "tests.rs", "simulation"} & set(path.parts)
    ]
    return {
        f"{path.relative_to(ROOT)} {name}"
        for path in files
        for name in _CONSTANT.findall(path.read_text())
    }


def test_each_constant_that_bounds_a_wait_is_in_the_table() -> None:
    named = {*TABLE["constants"], *TABLE["untested"]}
    assert constants() == named


def body_of(path: str, name: str) -> str:
    """The text of a test up to the next one."""
    text = (ROOT / path).read_text()
    is_rust = path.endswith(".rs")
    begins = _RUST_TEST.format(name) if is_rust else rf"\ndef {name}\("
    found = re.search(begins, text)
    assert found, f"{path} has no test {name}"
    rest = text[found.end() :]
    return re.split(r"#\[test\]" if is_rust else r"\ndef ", rest, maxsplit=1)[0]


def test_each_test_of_the_table_is_there_and_does_not_sleep() -> None:
    for place in (*TABLE["keys"].values(), *TABLE["constants"].values()):
        path, name = place.split("::")
        assert "sleep(" not in body_of(path, name), place
