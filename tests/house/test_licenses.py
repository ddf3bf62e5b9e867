"""Whose code is in the wheel, their licences are, too."""

from __future__ import annotations

import re
import tomllib

import pytest

from release import licenses

AGAIN = "run `make licenses`"


def listed() -> set[str]:
    """The crates that the file names, each with its version."""
    head = licenses.OUTPUT.read_text().split("=" * 78)[0]
    return set(re.findall(r"^(\S+ \d\S*)  \S", head, re.MULTILINE))


def test_every_crate_in_the_wheel_is_named_with_its_version() -> None:
    needed = {str(crate) for crate in licenses.linked("x86_64-unknown-linux-gnu")}
    assert len(needed) > 50
    assert needed <= listed(), AGAIN


def test_what_runs_in_the_compiler_only_is_not_named() -> None:
    names = {crate.split()[0] for crate in listed()}
    assert not names & {"proc-macro2", "quote", "syn", "tiny-keccak"}


def test_no_crate_is_named_that_is_not_locked() -> None:
    locked = tomllib.loads((licenses.ROOT / "Cargo.lock").read_text())["package"]
    known = {f"{one['name']} {one['version']}" for one in locked}
    assert listed() <= known | {str(one) for one in licenses.VENDORED}, AGAIN


def test_the_libraries_of_the_console_are_named_as_their_files_say() -> None:
    assert {str(one) for one in licenses.VENDORED} <= listed(), AGAIN
    texts = {path.name for path in licenses.VENDOR.glob("LICENSE-*")}
    assert texts == {one.text.name for one in licenses.VENDORED}
    assert "uPlot (v1.6.32)" in (licenses.VENDOR / "uPlot.js").read_text()[:200]


def test_every_named_crate_stands_above_a_text() -> None:
    _, *parts = licenses.OUTPUT.read_text().split("=" * 78)
    covered = {name for names in parts[::2] for name in names.strip().split(", ")}
    assert covered == listed()
    assert all(len(text.split()) > 50 for text in parts[1::2])


@pytest.mark.parametrize(
    ("expression", "licenses_of_it"),
    [
        ("MIT OR Apache-2.0", ["Apache-2.0"]),
        ("Unlicense/MIT", ["MIT"]),
        ("MIT AND BSD-3-Clause", ["MIT", "BSD-3-Clause"]),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", ["Apache-2.0", "Unicode-3.0"]),
        ("Apache-2.0 WITH LLVM-exception OR MIT", ["Apache-2.0"]),
    ],
)
def test_a_choice_of_licences_is_made(expression: str, licenses_of_it: list[str]) -> None:
    assert licenses.chosen(expression) == licenses_of_it


def test_an_unknown_licence_is_refused() -> None:
    with pytest.raises(licenses.UnknownLicense):
        licenses.chosen("MIT AND AGPL-3.0")
