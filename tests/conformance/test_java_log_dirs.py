"""Kafka's tools move a replica between the log directories of a broker of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.cimpl import Producer

from tests.conformance import java
from tests.harness.patience import eventually
from tests.harness.process import Processes

pytestmark = pytest.mark.usefixtures("jars")

REASSIGN = java.TOOLS + "reassign.ReassignPartitionsCommand"
LOG_DIRS = java.TOOLS + "LogDirsCommand"
RECORDS = 3_000


@pytest.fixture
def at(tmp_path: Path, broker_kind: str) -> Iterator[str]:
    """The address of a broker with two directories, and a topic in the first of them."""
    if broker_kind != "kafkalite":
        pytest.skip("a broker with two directories is started of ours only")
    processes = Processes(tmp_path)
    listed = f"log.dirs={tmp_path}/one,{tmp_path}/two"
    words = ("serve", "--listen", "127.0.0.1:0", "--admin-port", "0", "--set", listed)
    address = processes.start(*words).wait_ready().ready
    java.succeed(java.TOPICS, "--bootstrap-server", address, "--create", "--topic", "t")
    producer = Producer({"bootstrap.servers": address})
    for _ in range(RECORDS):
        producer.produce("t", b"x" * 1_000, partition=0)
        producer.poll(0)
    assert producer.flush(30) == 0
    yield address
    processes.close()


def described(at: str) -> dict[str, dict[str, Any]]:
    """What kafka-log-dirs prints of partition 0, by the name of the directory."""
    told = java.succeed(LOG_DIRS, "--bootstrap-server", at, "--describe", "--topic-list", "t")
    (answer,) = [json.loads(line) for line in told.lines if line.startswith("{")]
    return {
        Path(directory["logDir"]).name: part
        for directory in answer["brokers"][0]["logDirs"]
        for part in directory["partitions"]
        if part["partition"] == "t-0"
    }


def test_a_replica_is_moved_and_verified_and_is_shown_on_its_way(at: str, tmp_path: Path) -> None:
    assert list(described(at)) == ["one"]
    plan = tmp_path / "plan.json"
    moved = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [f"{tmp_path}/two"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    tool = ("--bootstrap-server", at, "--reassignment-json-file", str(plan))
    slowly = ("--replica-alter-log-dirs-throttle", "1000")
    told = java.succeed(REASSIGN, *tool, "--execute", *slowly).out
    assert f"log directory to {tmp_path}/two for replica t-0 with broker 1" in told
    found = described(at)
    assert [found[name]["isFuture"] for name in ("one", "two")] == [False, True]
    assert 0 < found["two"]["offsetLag"] <= RECORDS
    assert found["two"]["size"] < found["one"]["size"]
    told = java.succeed(REASSIGN, *tool, "--verify", "--preserve-throttles").out
    assert "Reassignment of replica t-0-1 is still in progress." in told
    fast = ("--replica-alter-log-dirs-throttle", "100000000")
    java.succeed(REASSIGN, *tool, "--execute", "--additional", *fast)

    def is_complete() -> bool:
        told = java.succeed(REASSIGN, *tool, "--verify").out
        return "Reassignment of replica t-0-1 completed successfully." in told

    eventually(is_complete, 60)
    found = described(at)
    assert list(found) == ["two"]
    assert not found["two"]["isFuture"]
    which = ("--entity-type", "brokers", "--entity-name", "1", "--describe")
    configs = java.succeed(java.CONFIGS, "--bootstrap-server", at, *which).out
    assert "replica.alter.log.dirs" not in configs
    printed = java.succeed(
        java.CONSOLE_CONSUMER, "--bootstrap-server", at, "--topic", "t", "--from-beginning",
        "--max-messages", str(RECORDS), "--timeout-ms", "60000",
    )  # fmt: skip
    assert len(printed.lines) == RECORDS
