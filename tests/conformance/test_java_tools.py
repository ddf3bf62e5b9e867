"""Kafka's own command line tools against the broker: each does its job."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance import java
from tests.harness.brokers import Broker

pytestmark = pytest.mark.usefixtures("jars")
Unique = Callable[[str], str]


@pytest.fixture
def at(broker: Broker) -> tuple[str, str]:
    """The option that names the broker."""
    return ("--bootstrap-server", broker.bootstrap)


@pytest.fixture
def topic(at: tuple[str, str], unique: Unique) -> str:
    """A topic with three partitions, made by the tool itself."""
    name = unique("java")
    java.succeed(java.TOPICS, *at, "--create", "--topic", name, "--partitions", "3")
    return name


def produce(broker: Broker, topic: str, lines: list[str], *options: str) -> None:
    """The console producer, fed with lines of key:value."""
    java.succeed(
        java.CONSOLE_PRODUCER, "--bootstrap-server", broker.bootstrap, "--topic", topic,
        "--reader-property", "parse.key=true", "--reader-property", "key.separator=:",
        *options, stdin="\n".join(lines) + "\n",
    )  # fmt: skip


def test_topics_are_created_described_grown_listed_and_deleted(
    at: tuple[str, str], unique: Unique
) -> None:
    name = unique("java-topics")
    make = ("--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=60000")
    java.succeed(java.TOPICS, *at, *make)
    again = java.run(java.TOPICS, *at, *make)
    assert again.status != 0
    assert "already exists" in again.out + again.err
    java.succeed(java.TOPICS, *at, *make, "--if-not-exists")
    told = java.succeed(java.TOPICS, *at, "--describe", "--topic", name).out
    assert re.search(r"PartitionCount:\s*2\s.*ReplicationFactor:\s*1", told)
    assert "retention.ms=60000" in told
    java.succeed(java.TOPICS, *at, "--alter", "--topic", name, "--partitions", "5")
    told = java.succeed(java.TOPICS, *at, "--describe", "--topic", name).out
    assert len(re.findall(r"Partition: \d+\s+Leader: \d+", told)) == 5
    assert name in java.succeed(java.TOPICS, *at, "--list").lines
    java.succeed(java.TOPICS, *at, "--delete", "--topic", name)
    assert name not in java.succeed(java.TOPICS, *at, "--list").lines


def test_configs_of_topics_and_brokers_are_described_and_altered(
    at: tuple[str, str], topic: str
) -> None:
    which = ("--entity-type", "topics", "--entity-name", topic)
    change = ("--alter", "--add-config", "retention.ms=4321,cleanup.policy=[compact,delete]")
    java.succeed(java.CONFIGS, *at, *which, *change)
    told = java.succeed(java.CONFIGS, *at, *which, "--describe").out
    assert "retention.ms=4321" in told
    assert "cleanup.policy=compact,delete" in told
    java.succeed(java.CONFIGS, *at, *which, "--alter", "--delete-config", "retention.ms")
    told = java.succeed(java.CONFIGS, *at, *which, "--describe", "--all").out
    assert "retention.ms=604800000" in told
    bad = java.run(java.CONFIGS, *at, *which, "--alter", "--add-config", "retention.ms=abc")
    assert bad.status != 0
    everything = ("--entity-type", "brokers", "--describe", "--all")
    assert "num.partitions=4" in java.succeed(java.CONFIGS, *at, *everything).out


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_the_console_producer_writes_the_console_consumer_prints(
    broker: Broker, at: tuple[str, str], topic: str, codec: str
) -> None:
    rows = [f"k{i}:value {i} {'z' * (i % 90)}" for i in range(500)]
    produce(broker, topic, rows, "--compression-codec", codec)
    printed = java.succeed(
        java.CONSOLE_CONSUMER, *at, "--topic", topic, "--from-beginning",
        "--max-messages", "500", "--timeout-ms", "60000",
        "--formatter-property", "print.key=true", "--formatter-property", "key.separator=:",
    )  # fmt: skip
    assert sorted(printed.lines) == sorted(rows)


def test_groups_are_listed_described_reset_and_deleted(
    broker: Broker, at: tuple[str, str], topic: str, unique: Unique
) -> None:
    group = unique("java-group")
    produce(broker, topic, [f"k{i}:v{i}" for i in range(60)])
    java.succeed(
        java.CONSOLE_CONSUMER, *at, "--topic", topic, "--group", group, "--max-messages", "60",
        "--timeout-ms", "60000", "--command-property", "auto.offset.reset=earliest",
    )  # fmt: skip
    assert group in java.succeed(java.GROUPS, *at, "--list").lines
    state = java.succeed(java.GROUPS, *at, "--describe", "--group", group, "--state").out
    assert "Empty" in state
    rows = java.succeed(java.GROUPS, *at, "--describe", "--group", group).lines
    table = [row.split() for row in rows if row.split()[0] == group]
    assert sum(int(row[3]) for row in table) == 60
    assert all(row[5] == "0" for row in table)
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    java.succeed(java.GROUPS, *at, *reset)
    rows = java.succeed(java.GROUPS, *at, "--describe", "--offsets", "--group", group).lines
    assert sum(int(row.split()[5]) for row in rows if row.split()[0] == group) == 60
    drop = ("--delete-offsets", "--group", group, "--topic", topic)
    java.succeed(java.GROUPS, *at, *drop)
    java.succeed(java.GROUPS, *at, "--delete", "--group", group)
    assert group not in java.succeed(java.GROUPS, *at, "--list").lines


def test_offsets_are_printed_and_records_below_an_offset_deleted(
    broker: Broker, at: tuple[str, str], topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, [f"k{i}:v{i}" for i in range(90)])

    def offsets(when: str) -> dict[int, int]:
        ask = ("--topic", topic, "--time", when)
        rows = java.succeed(java.TOOLS + "GetOffsetShell", *at, *ask).lines
        return {int(row.split(":")[1]): int(row.split(":")[2]) for row in rows}

    ends = offsets("latest")
    assert sum(ends.values()) == 90
    assert set(offsets("earliest").values()) == {0}
    assert set(offsets("max-timestamp")) == {p for p, end in ends.items()}
    part = max(ends, key=lambda p: ends[p])
    cut = {"topic": topic, "partition": part, "offset": ends[part] - 1}
    asked = tmp_path / "cut.json"
    asked.write_text(json.dumps({"partitions": [cut], "version": 1}))
    told = java.succeed(java.TOOLS + "DeleteRecordsCommand", *at, "--offset-json-file", str(asked))
    assert f"low_watermark: {ends[part] - 1}" in told.out
    assert offsets("earliest")[part] == ends[part] - 1


def test_the_verifiable_producer_and_consumer_agree(
    broker: Broker, at: tuple[str, str], topic: str, unique: Unique
) -> None:
    sent = java.succeed(
        java.TOOLS + "VerifiableProducer", *at, "--topic", topic, "--max-messages", "2000",
        "--acks", "-1",
    )  # fmt: skip
    events = [json.loads(line) for line in sent.lines]
    acked = [one for one in events if one["name"] == "producer_send_success"]
    assert len(acked) == 2000
    assert not [one for one in events if one["name"] == "producer_send_error"]
    got = java.succeed(
        java.TOOLS + "VerifiableConsumer", *at, "--topic", topic, "--group-id", unique("g"),
        "--max-messages", "2000", "--reset-policy", "earliest", "--verbose",
    )  # fmt: skip
    events = [json.loads(line) for line in got.lines]
    read = [one for one in events if one["name"] == "record_data"]
    assert {one["value"] for one in read} == {one["value"] for one in acked}
    commits = [one for one in events if one["name"] == "offsets_committed"]
    assert commits
    assert all(one["success"] for one in commits)


def test_the_client_compatibility_test_finds_every_feature(
    at: tuple[str, str], unique: Unique, topic: str
) -> None:
    expected = [
        "--create-topics-supported", "true", "--offsets-for-times-supported", "true",
        "--cluster-id-supported", "true", "--expect-record-too-large-exception", "false",
        "--num-cluster-nodes", "1", "--describe-acls-supported", "true",
        "--describe-configs-supported", "true", "--idempotent-producer-supported", "true",
    ]  # fmt: skip
    java.succeed(java.TOOLS + "ClientCompatibilityTest", *at, "--topic", topic, *expected)


def test_the_api_versions_of_the_broker_are_usable(broker: Broker, at: tuple[str, str]) -> None:
    told = java.succeed(java.TOOLS + "BrokerApiVersionsCommand", *at).out
    assert broker.bootstrap in told
    for api in ("Produce(0)", "Fetch(1)", "Metadata(3)", "JoinGroup(11)", "ApiVersions(18)"):
        line = next(line for line in told.splitlines() if api in line)
        assert "usable" in line, line
        assert "UNSUPPORTED" not in line, line


def test_log_dirs_and_the_quorum_are_described(at: tuple[str, str], topic: str) -> None:
    told = java.succeed(
        java.TOOLS + "LogDirsCommand", *at, "--describe", "--topic-list", topic
    ).lines
    found = json.loads(told[-1])
    parts = found["brokers"][0]["logDirs"][0]["partitions"]
    assert {part["partition"] for part in parts} == {f"{topic}-{i}" for i in range(3)}
    status = java.succeed(java.TOOLS + "MetadataQuorumCommand", *at, "describe", "--status").out
    assert "LeaderId:" in status
    replicas = java.succeed(
        java.TOOLS + "MetadataQuorumCommand", *at, "describe", "--replication"
    ).out
    assert "Leader" in replicas


def test_the_cluster_tool_prints_the_cluster_id(at: tuple[str, str]) -> None:
    assert "Cluster ID: " in java.succeed(java.TOOLS + "ClusterTool", "cluster-id", *at).out


def dump(paths: list[Path], *options: str) -> str:
    """What DumpLogSegments says about these files, in one JVM."""
    return java.succeed(java.DUMP, "--files", ",".join(map(str, paths)), *options).out


def test_dump_log_segments_finds_nothing_wrong_in_our_segments(
    own_broker: Callable[[dict[str, str] | None], Broker], unique: Unique
) -> None:
    broker = own_broker({"log.segment.bytes": "1048576", "log.index.interval.bytes": "1024"})
    name = unique("dump")
    at = ("--bootstrap-server", broker.bootstrap)
    java.succeed(java.TOPICS, *at, "--create", "--topic", name, "--partitions", "1")
    performance = java.TOOLS + "ProducerPerformance"
    for codec in ("none", "gzip", "lz4", "snappy", "zstd"):
        java.succeed(
            performance, *at, "--topic", name, "--num-records", "6000", "--record-size",
            "200", "--throughput", "-1", "--command-property", f"compression.type={codec}",
            "--command-property", "batch.size=4000",
        )  # fmt: skip
    broker.stop()
    folder = broker.partition_dir(name, 0)
    logs = sorted(folder.glob("*.log"))
    assert len(logs) > 1
    told = dump(logs, "--deep-iteration")
    assert "isvalid: true" in told
    assert "isvalid: false" not in told
    assert not re.search(r"mismatch|[Nn]on-consecutive|Exception", told)
    assert len(re.findall(r"^\| offset: ", told, re.MULTILINE)) == 30_000
    indexes = sorted((*folder.glob("*.index"), *folder.glob("*.timeindex")))
    for check in ("--index-sanity-check", "--verify-index-only"):
        told = dump(indexes, check)
        wrong = re.search(r"mismatch|[Nn]on-consecutive|Exception|out of order|should be", told)
        assert not wrong, told
    assert "producerId:" in dump(sorted(folder.glob("*.snapshot")))


def test_dump_log_segments_decodes_our_committed_offsets(
    own_broker: Callable[[dict[str, str] | None], Broker], unique: Unique
) -> None:
    broker = own_broker(None)
    name, group = unique("offsets"), unique("g")
    at = ("--bootstrap-server", broker.bootstrap)
    java.succeed(java.TOPICS, *at, "--create", "--topic", name, "--partitions", "1")
    produce(broker, name, [f"k{i}:v" for i in range(10)])
    java.succeed(
        java.CONSOLE_CONSUMER, *at, "--topic", name, "--group", group, "--max-messages", "10",
        "--timeout-ms", "60000", "--command-property", "auto.offset.reset=earliest",
        "--command-property", "group.protocol=classic",
    )  # fmt: skip
    broker.stop()
    logs = [path for path in broker.data_dir.glob("__consumer_offsets-*/*.log")
            if path.stat().st_size]  # fmt: skip
    told = dump(logs, "--offsets-decoder")
    assert re.search(rf'"group":"{group}","topic":"{name}","partition":0', told), told[-3000:]
    assert re.search(r'"offset":10\b', told)
    assert '"protocolType":"consumer"' in told
