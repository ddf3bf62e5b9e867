"""franz-go's own tests of its client, run against the broker.

Every test that dials a broker runs, unless ``kgo_excluded.toml`` names it with a reason. Which
tests dial is read out of the module's source: their bodies use one of the test package's ways
to reach ``KGO_SEEDS``.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.budget import Budget
from tests.harness import cluster, places
from tests.harness.brokers import Broker

#: What a test calls to get at the seed brokers, directly or for a topic of its own.
_DIALS = re.compile(
    r"\b(newTestClient|getSeedBrokers|testClientOpts|adm|tmp(Named)?Topic\w*|tmp(Share)?Group"
    r"|internalTopic)\("
    r"|KGO_TEST_SCRAM_SEEDS"
)
_TEST = re.compile(r"^func (Test\w+)\(.*?^}", re.MULTILINE | re.DOTALL)
_VERDICT = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (Test\w+) \(", re.MULTILINE)


def binary() -> Path:
    """The compiled tests, or a skip that says how to get them."""
    path = places.GO_BINARIES / "kgo.test"
    if not path.exists() or shutil.which("go") is None:
        pytest.skip("kgo.test is missing: python tests/conformance/prerequisites.py --install")
    return path


@functools.cache
def source() -> Path:
    """franz-go's kgo package in the Go module cache."""
    listing = ["go", "list", "-m", "-f", "{{.Dir}}", "github.com/twmb/franz-go"]
    done = subprocess.run(
        listing, cwd=places.GO_MODULE, capture_output=True, text=True, check=True, timeout=120
    )
    return Path(done.stdout.strip()) / "pkg" / "kgo"


@functools.cache
def dialing_tests() -> frozenset[str]:
    """Names of all tests that reach for a broker."""
    found = set()
    for path in source().glob("*_test.go"):
        for match in _TEST.finditer(path.read_text()):
            if _DIALS.search(match.group(0)):
                found.add(match.group(1))
    return frozenset(found)


def excluded_tests() -> dict[str, str]:
    """Excluded names and their reasons."""
    table = tomllib.loads((places.CONFORMANCE / "kgo_excluded.toml").read_text())
    return {name: group["reason"] for group in table.values() for name in group["tests"]}


def run(
    address: str, names: set[str], records: int, seconds: int, replicas: int = 1
) -> tuple[dict[str, str], str]:
    """Run these tests on topics of so many replicas; the verdict of each and the whole output."""
    environment = dict(
        os.environ,
        KGO_SEEDS=address,
        KGO_TEST_RF=str(replicas),
        KGO_TEST_RECORDS=str(records),
        KGO_LOG_LEVEL="none",
    )
    pattern = "^(" + "|".join(sorted(names)) + ")$"
    command = [str(binary()), "-test.v", "-test.count=1", f"-test.timeout={seconds}s"]
    done = subprocess.run(
        [*command, f"-test.run={pattern}"],
        cwd=source(),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds + 10,
        check=False,
    )
    verdicts = {name: verdict for verdict, name in _VERDICT.findall(done.stdout)}
    return verdicts, done.stdout


def test_every_excluded_name_is_a_test_that_dials() -> None:
    binary()
    assert set(excluded_tests()) <= dialing_tests()


def wrong_of(verdicts: dict[str, str], names: set[str]) -> dict[str, str]:
    """Every test that did not pass, with its verdict."""
    found = {name: verdicts.get(name, "NOT RUN") for name in sorted(names)}
    return {name: verdict for name, verdict in found.items() if verdict != "PASS"}


def test_franz_go_passes_every_test_that_dials_in_every_round(
    broker: Broker, budget: Budget, record_property: Callable[[str, object], None]
) -> None:
    binary()
    names = set(dialing_tests() - set(excluded_tests()))
    record_property("passed", len(names))
    record_property("left_out", len(excluded_tests()))
    for round_number in range(1, budget.kgo_rounds + 1):
        verdicts, output = run(broker.bootstrap, names, budget.kgo_records, budget.kgo_seconds)
        wrong = wrong_of(verdicts, names)
        assert not wrong, f"round {round_number}: {wrong}\n{output[-6000:]}"
        print(f"round {round_number}: {len(names)} tests passed")


def test_franz_go_passes_on_three_brokers_with_three_replicas(
    broker_kind: str,
    tmp_path: Path,
    budget: Budget,
    record_property: Callable[[str, object], None],
) -> None:
    binary()
    if broker_kind != "kafkalite":
        pytest.skip("three brokers are started of ours only")
    names = set(dialing_tests() - set(excluded_tests()))
    record_property("passed", len(names))
    with cluster.running(tmp_path) as three:
        for round_number in range(1, budget.kgo_replicated_rounds + 1):
            counts = (budget.kgo_replicated_records, budget.kgo_seconds)
            verdicts, output = run(three.bootstrap, names, *counts, replicas=3)
            wrong = wrong_of(verdicts, names)
            assert not wrong, f"round {round_number}: {wrong}\n{output[-6000:]}"
            print(f"round {round_number}: {len(names)} tests passed on three brokers")
