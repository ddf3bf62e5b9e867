"""Who may use whom: no room calls up, and no crate knows the one above it.

ARCHITECTURE.md draws the arrows; here they are kept. A new arrow takes an ADR.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BROKER = ROOT / "rust/broker/src"

#: Rooms of the broker that every other may use.
EVERYBODY = {"clock", "config", "error", "metrics"}

#: What each other room may use besides.
MAY_USE: dict[str, set[str]] = {
    "response_queue": set(),
    "request_queue": {"response_queue"},
    "network": {"request_queue", "response_queue"},
    "io_threads": {"request_queue"},
    "cold_reads": {"response_queue"},
    "waiters": set(),
    "fetch_sessions": {"waiters"},
    "metadata": set(),
    "meta_properties": set(),
    "partitions": {"metadata", "fetch_sessions", "purgatory", "waiters"},
    "purgatory": {"waiters"},
    "coordinator": {"response_queue", "purgatory", "partitions", "metadata", "fetch_sessions"},
    "handlers": {
        "request_queue",
        "response_queue",
        "fetch_sessions",
        "cold_reads",
        "coordinator",
        "purgatory",
        "partitions",
        "metadata",
        "waiters",
    },
    "admin_http": set(),
    "process": {"broker", "admin_http", "network"},
}

#: The one room that sees all others.
BUILDER = "broker"

#: What each crate may depend on among ours; dependencies of tests do not count.
CRATES: dict[str, set[str]] = {
    "protocol": set(),
    "log": {"protocol"},
    "client": {"protocol"},
    "broker": {"log", "protocol"},
    "arrow": set(),
    "simulator": {"broker", "log", "protocol"},
    "python": {"broker", "client", "arrow"},
}

#: Modules of the package that may import the binary.
NATIVE_USERS = {
    "__init__.py",
    "__main__.py",
    "admin.py",
    "admin_calls.py",
    "admin_groups.py",
    "broker.py",
    "broker_process.py",
    "config_table.py",
    "consumer.py",
    "consumer_base.py",
    "consumer_calls.py",
    "group_calls.py",
    "log_files.py",
    "logs.py",
    "producer.py",
    "ranges.py",
    "records.py",
}


def used_rooms(source: str) -> set[str]:
    """The rooms that a Rust source names as ``crate::room`` or ``crate::{room, ...}``."""
    source = re.sub(r"//.*", "", source)
    rooms = set(re.findall(r"\bcrate::(\w+)", source))
    for group in re.findall(r"\bcrate::\{([^;]*)\};", source):
        # Only the outermost names are rooms.
        while re.search(r"\{[^{}]*\}", group):
            group = re.sub(r"\{[^{}]*\}", "", group)
        rooms |= set(re.findall(r"(?:^|,)\s*(\w+)", group))
    return rooms


def rooms() -> dict[str, list[Path]]:
    """Every room of the broker with its sources, those of its tests left out."""
    found: dict[str, list[Path]] = {}
    for path in sorted(BROKER.rglob("*.rs")):
        parts = path.relative_to(BROKER).parts
        if "tests" in parts or path.name in {"tests.rs", "lib.rs"}:
            continue
        found.setdefault(parts[0].removesuffix(".rs"), []).append(path)
    return found


def test_every_room_has_a_place_in_the_table() -> None:
    assert set(rooms()) == set(MAY_USE) | EVERYBODY | {BUILDER}


@pytest.mark.parametrize("room", sorted(set(rooms()) - {BUILDER}))
def test_a_room_uses_only_rooms_below_it(room: str) -> None:
    allowed = MAY_USE.get(room, set()) | EVERYBODY | {room}
    for path in rooms()[room]:
        strangers = used_rooms(path.read_text()) - allowed
        assert not strangers, f"{path.relative_to(ROOT)} uses {sorted(strangers)}"


@pytest.mark.parametrize("crate", sorted(CRATES))
def test_a_crate_depends_only_on_crates_below_it(crate: str) -> None:
    manifest = tomllib.loads((ROOT / "rust" / crate / "Cargo.toml").read_text())
    ours = {name for name in manifest["dependencies"] if name.startswith("kafkalite-")}
    assert ours <= {f"kafkalite-{name}" for name in CRATES[crate]}


def test_only_few_modules_import_the_binary() -> None:
    package = ROOT / "python/kafkalite"
    users = {path.name for path in package.rglob("*.py") if "_native" in path.read_text()}
    assert users <= NATIVE_USERS


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("use crate::config::BrokerConfig;", {"config"}),
        ("use crate::{clock, handlers::{Rooms, a::b}};", {"clock", "handlers"}),
        ("fn f() { crate::network::x() }", {"network"}),
        ("// crate::network\nuse super::x;", set()),
    ],
)
def test_the_reader_of_imports_finds_rooms(source: str, expected: set[str]) -> None:
    assert used_rooms(source) == expected
