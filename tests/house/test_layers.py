"""Who may use whom: no room calls up, and no crate knows the one above it.

ARCHITECTURE.md draws the arrows; here they are kept. A new arrow takes an ADR.
"""

from __future__ import annotations

import re
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


class House(NamedTuple):
    """A folder of modules whose entries are rooms, and who may use whom."""

    #: The folder, below ``rust``.
    folder: str
    #: What each room may use besides ``everybody``.
    may_use: dict[str, set[str]]
    #: Rooms that every other may use.
    everybody: frozenset[str] = frozenset()
    #: The one room that sees all others.
    builder: str | None = None

    @property
    def prefix(self) -> tuple[str, ...]:
        """The module that the folder is, from the crate's root."""
        return tuple(self.folder.split("/")[2:])

    def rooms(self) -> dict[str, list[Path]]:
        """Every room with its sources, those of its tests left out."""
        found: dict[str, list[Path]] = {}
        folder = ROOT / "rust" / self.folder
        for path in sorted(folder.rglob("*.rs")):
            parts = path.relative_to(folder).parts
            is_root = parts == ("mod.rs",) or path.name == "lib.rs"
            if "tests" in parts or path.name == "tests.rs" or is_root:
                continue
            found.setdefault(parts[0].removesuffix(".rs"), []).append(path)
        return found


BROKER = House(
    "broker/src",
    may_use={
        "response_queue": set(),
        "request_queue": {"response_queue"},
        "network": {"request_queue", "response_queue"},
        "io_threads": {"request_queue"},
        "cold_reads": {"response_queue"},
        "waiters": set(),
        "fetch_sessions": {"waiters"},
        "metadata": set(),
        "cluster": {"metadata"},
        "client_metrics": {"metadata"},
        "meta_properties": set(),
        "partitions": {"metadata", "fetch_sessions", "purgatory", "waiters"},
        "purgatory": {"waiters"},
        "replication": {"partitions", "metadata"},
        "coordinator": {"purgatory", "partitions", "metadata"},
        "handlers": {
            "client_metrics",
            "cluster",
            "request_queue",
            "response_queue",
            "replication",
            "fetch_sessions",
            "cold_reads",
            "coordinator",
            "purgatory",
            "partitions",
            "metadata",
            "waiters",
        },
        "test_control": {
            "coordinator",
            "handlers",
            "fetch_sessions",
            "meta_properties",
            "metadata",
            "purgatory",
            "request_queue",
            "response_queue",
        },
        "admin_http": set(),
        "admin_api": {
            "admin_http",
            "client_metrics",
            "cluster",
            "coordinator",
            "fetch_sessions",
            "metadata",
            "network",
            "partitions",
            "request_queue",
            "response_queue",
            "test_control",
        },
        "figures": {"client_metrics", "coordinator", "partitions", "metadata"},
        "process": {"broker", "admin_http", "network", "test_control"},
    },
    everybody=frozenset({"clock", "config", "error", "metrics"}),
    builder="broker",
)

COORDINATOR = House(
    "broker/src/coordinator",
    may_use={
        # Other groups and transactions will stand on it: it knows none of them.
        "runtime": set(),
        "group_record": {"runtime"},
        "classic": {"group_record", "runtime"},
        "offsets_topic": {"runtime"},
        "offsets_partitions": {"offsets_topic", "runtime"},
    },
    builder="group_coordinator",
)

CONNECTION = House(
    "connection/src",
    may_use={
        "address": set(),
        "backoff": set(),
        "error": set(),
        "config": {"address", "backoff"},
        "connection": {"address", "config", "error"},
        "links": {"address", "connection", "error"},
        "pool": {"address", "config", "connection", "error", "links"},
        "cluster": {"address", "backoff", "config", "connection", "error", "pool"},
        "testing": {"address", "awaited", "backoff", "config"},
    },
)

CLIENT = House(
    "client/src",
    may_use={
        "clock": set(),
        "error": set(),
        "topic_partition": set(),
        "config": {"error"},
        "fork": {"error"},
        "runtime": {"error", "fork"},
        "admin": {"config", "error", "topic_partition"},
        "producer": {"clock", "config", "error", "runtime", "topic_partition"},
        "consumer": {"config", "error", "runtime", "topic_partition"},
        "ranges": {"clock", "config", "consumer", "error", "topic_partition"},
    },
)

PRODUCER = House(
    "client/src/producer",
    may_use={
        "partitioner": set(),
        "accumulator": {"partitioner"},
        "idempotence": {"accumulator"},
        "sender": {"accumulator", "idempotence", "partitioner"},
    },
    # Calls of the producer itself.
    builder="bulk",
)

CONSUMER = House(
    "client/src/consumer",
    may_use={
        "cursor": set(),
        "assignors": set(),
        "offsets": set(),
        "missing": set(),
        "coordinating": set(),
        "record_block": {"cursor"},
        "subscription": {"cursor"},
        "topic_pattern": {"subscription"},
        "group_state": {"assignors", "cursor"},
        "commits": {"coordinating", "cursor", "group_state", "missing"},
        "fetched": {"cursor", "record_block"},
        "shared": {"fetched", "group_state", "subscription"},
        "fetcher": {"cursor", "fetched", "shared", "subscription"},
        "positions": {
            "commits",
            "cursor",
            "fetched",
            "missing",
            "offsets",
            "shared",
            "subscription",
        },
        "group": {"coordinating", "group_state", "shared", "subscription"},
        "lease": {"cursor", "record_block", "shared"},
        "handout": {"cursor", "fetched", "lease", "record_block", "shared", "subscription"},
        "due": {"commits", "cursor", "group_state", "shared", "subscription"},
        "calls": {
            "commits",
            "cursor",
            "due",
            "group_state",
            "missing",
            "offsets",
            "shared",
            "subscription",
        },
    },
)

HOUSES = {
    house.folder: house for house in (BROKER, COORDINATOR, CONNECTION, CLIENT, PRODUCER, CONSUMER)
}

#: What each crate may depend on among ours; dependencies of tests do not count.
CRATES: dict[str, set[str]] = {
    "protocol": set(),
    "log": {"protocol"},
    "quorum": {"log", "protocol"},
    "telemetry": set(),
    "connection": {"protocol"},
    "client": {"connection", "protocol"},
    "broker": {"connection", "log", "protocol", "quorum", "telemetry"},
    "arrow": set(),
    "simulator": {"broker", "log", "protocol"},
    "python": {"broker", "client", "arrow"},
}

#: Crates that may depend on arrow-rs: heavy, so it stays in the leaves (ADR 0120).
ARROW_USERS = {"arrow", "python"}

#: Modules of the package that may import the binary.
NATIVE_USERS = {
    "__init__.py",
    "__main__.py",
    "admin.py",
    "admin_calls.py",
    "admin_features.py",
    "admin_groups.py",
    "broker.py",
    "broker_process.py",
    "config_table.py",
    "consumer.py",
    "consumer_base.py",
    "consumer_calls.py",
    "feature_calls.py",
    "group_calls.py",
    "log_files.py",
    "logs.py",
    "producer.py",
    "ranges.py",
    "records.py",
}


def without_tests(source: str) -> str:
    """A Rust source without its comments and without tests that stand in it."""
    source = re.sub(r"//.*", "", source)
    return re.sub(r"#\[cfg\(test\)\]\nmod tests \{.*?\n\}\n", "", source, flags=re.DOTALL)


def spelled_out(path: str) -> list[str]:
    """The paths that a use declaration names: ``a::{b, c::d}`` is ``a::b`` and ``a::c::d``."""
    head, brace, rest = path.partition("{")
    if not brace:
        return [path.strip()]
    depth, part, parts = 0, "", []
    for letter in rest[: rest.rindex("}")]:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [path for each in [*parts, part] if each.strip() for path in spelled_out(head + each)]


def used_rooms(source: str, module: tuple[str, ...], prefix: tuple[str, ...] = ()) -> set[str]:
    """What of the module ``prefix`` a Rust source names: the source is that of ``module``."""
    source = without_tests(source)
    uses = re.findall(r"\buse\s+([^;]+);", source)
    named = [path for use in uses for path in spelled_out(re.sub(r"\s+", "", use))]
    named += re.findall(r"\b(?:crate|self|super)(?:::\w+)+", re.sub(r"\buse\s+[^;]+;", "", source))
    rooms = set()
    for path in named:
        first, *others = path.split("::")
        if first not in {"crate", "self", "super"}:
            continue
        at = () if first == "crate" else module[:-1] if first == "super" else module
        while others and others[0] == "super":
            at, others = at[:-1], others[1:]
        whole = (*at, *(name for name in others if name != "self"))
        if whole[: len(prefix)] == prefix and len(whole) > len(prefix):
            rooms.add(whole[len(prefix)])
    return rooms


def module_of(path: Path) -> tuple[str, ...]:
    """The module that a source of a crate is, from the crate's root."""
    _, *parts = path.relative_to(ROOT / "rust").with_suffix("").parts
    return tuple(part for part in parts[1:] if part != "mod")


@pytest.mark.parametrize("house", HOUSES)
def test_every_room_has_a_place_in_the_table(house: str) -> None:
    table = HOUSES[house]
    builder = {table.builder} - {None}
    assert set(table.rooms()) == set(table.may_use) | table.everybody | builder


@pytest.mark.parametrize("house", HOUSES)
def test_the_table_has_an_order(house: str) -> None:
    assert list(TopologicalSorter(HOUSES[house].may_use).static_order())


@pytest.mark.parametrize(
    ("house", "room"),
    [(name, room) for name, house in HOUSES.items() for room in house.rooms()],
)
def test_a_room_uses_only_rooms_below_it(house: str, room: str) -> None:
    table = HOUSES[house]
    if room == table.builder:
        return
    allowed = table.may_use.get(room, set()) | table.everybody | {room}
    for path in table.rooms()[room]:
        used = used_rooms(path.read_text(), module_of(path), table.prefix)
        strangers = used - allowed
        assert not strangers, f"{path.relative_to(ROOT)} uses {sorted(strangers)}"


@pytest.mark.parametrize("crate", sorted(CRATES))
def test_a_crate_depends_only_on_crates_below_it(crate: str) -> None:
    manifest = tomllib.loads((ROOT / "rust" / crate / "Cargo.toml").read_text())
    ours = {name for name in manifest["dependencies"] if name.startswith("kafkalite-")}
    assert ours <= {f"kafkalite-{name}" for name in CRATES[crate]}


@pytest.mark.parametrize("crate", sorted(set(CRATES) - ARROW_USERS))
def test_arrow_rs_stays_in_the_leaves(crate: str) -> None:
    manifest = tomllib.loads((ROOT / "rust" / crate / "Cargo.toml").read_text())
    tables = [manifest.get(kind, {}) for kind in ("dependencies", "dev-dependencies")]
    assert not [name for table in tables for name in table if name.startswith("arrow")]
    assert not CRATES[crate] & ARROW_USERS


@pytest.mark.parametrize("crate", sorted(CRATES))
def test_only_dev_dependencies_ask_for_the_scripted_broker(crate: str) -> None:
    manifest = tomllib.loads((ROOT / "rust" / crate / "Cargo.toml").read_text())
    tables = [value for value in manifest["dependencies"].values() if isinstance(value, dict)]
    assert not [table for table in tables if "testing" in table.get("features", [])]
    assert "testing" not in manifest.get("features", {}).get("default", [])


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
        ("// crate::network\nuse super::x;", {"room"}),
        ("use super::super::network;", {"network"}),
        ("fn f() { super::super::network::x() }", {"network"}),
        ("use self::inner::X;", {"room"}),
        ("use bytes::Bytes;\n#[cfg(test)]\nmod tests {\n    use crate::network;\n}\n", set()),
    ],
)
def test_the_reader_of_imports_finds_rooms(source: str, expected: set[str]) -> None:
    assert used_rooms(source, ("room", "file")) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("use crate::room::other::X;", {"other"}),
        ("use super::{other::X, third};", {"other", "third"}),
        ("use crate::{room::other, network};", {"other"}),
        ("use crate::network::other;", set()),
    ],
)
def test_the_reader_of_imports_finds_rooms_within_a_room(source: str, expected: set[str]) -> None:
    assert used_rooms(source, ("room", "file"), ("room",)) == expected
