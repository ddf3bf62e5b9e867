"""Kafka's tools for the members of a cluster, against three brokers of ours."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic, Producer

from tests.conformance import java
from tests.harness.patience import eventually
from tests.harness.process import Process, Processes

pytestmark = pytest.mark.usefixtures("jars")

CLUSTER = java.TOOLS + "ClusterTool"
QUORUM = java.TOOLS + "MetadataQuorumCommand"
REASSIGN = java.TOOLS + "reassign.ReassignPartitionsCommand"
FEATURES = java.TOOLS + "FeatureCommand"
LOG_DIRS = java.TOOLS + "LogDirsCommand"
ELECTION = java.TOOLS + "LeaderElectionCommand"


@pytest.fixture
def processes(tmp_path: Path, broker_kind: str) -> Iterator[Processes]:
    """Brokers that end with the test."""
    if broker_kind != "kafkalite":
        pytest.skip("three brokers are started of ours only")
    started = Processes(tmp_path)
    yield started
    started.close()


def replicas(at: str) -> dict[int, tuple[str, int, str]]:
    """Directory id, lag and role of each member of the quorum."""
    told = java.succeed(QUORUM, "--bootstrap-server", at, "describe", "--replication").out
    rows = [line.split() for line in told.splitlines() if re.match(r"\d+\s", line)]
    return {int(row[0]): (row[1], int(row[3]), row[-1]) for row in rows}


def controller_properties(path: Path, member: Process, data: Path, node_id: int) -> Path:
    """The configuration that add-controller reads the new voter from."""
    path.write_text(
        f"node.id={node_id}\nprocess.roles=controller\nlog.dirs={data}\n"
        f"controller.listener.names=CONTROLLER\nlisteners=CONTROLLER://{member.ready}\n"
        f"advertised.listeners=CONTROLLER://{member.ready}\n"
    )
    return path


def test_the_quorum_is_described_and_changed_and_a_broker_leaves(
    processes: Processes, tmp_path: Path
) -> None:
    first = processes.serve()
    second = processes.serve("--join", first.ready)
    third = processes.serve("--join", first.ready, data_dir=tmp_path / "third")
    eventually(lambda: first.stderr.count("Promote(") == 2)
    at = ("--bootstrap-server", second.ready)
    assert "Cluster ID: " in java.succeed(CLUSTER, "cluster-id", *at).out
    told = java.succeed(CLUSTER, "list-endpoints", *at).out
    assert all(member.ready.split(":")[1] in told for member in (first, second, third))
    status = java.succeed(QUORUM, *at, "describe", "--status").out
    assert re.search(r"MaxFollowerLag:\s+0\n", status)
    assert len(re.findall(r'"endpoints"', status)) == 3
    members = replicas(second.ready)
    assert sorted(role for _, _, role in members.values()) == ["Follower", "Follower", "Leader"]
    directory = members[3][0]
    remove = ("remove-controller", "--controller-id", "3", "--controller-directory-id", directory)
    java.succeed(QUORUM, *at, *remove)
    assert replicas(second.ready)[3][2] == "Observer"
    again = java.run(QUORUM, *at, *remove)
    assert again.status != 0
    assert "Cannot remove voter" in again.out + again.err
    properties = controller_properties(tmp_path / "c.properties", third, tmp_path / "third", 3)
    java.succeed(QUORUM, *at, "--command-config", str(properties), "add-controller")
    assert replicas(second.ready)[3][2] == "Follower"
    third.end()
    gone = java.succeed(CLUSTER, "unregister", *at, "--id", "3").out
    assert "Broker 3 is no longer registered." in gone
    eventually(lambda: sorted(replicas(second.ready)) == [1, 2])
    # A broker that is started again belongs to the cluster again.
    processes.serve("--join", first.ready, data_dir=tmp_path / "third")
    eventually(lambda: sorted(replicas(second.ready)) == [1, 2, 3])


def test_a_move_keeps_to_the_throttle_of_the_tool_until_it_is_verified(
    processes: Processes, tmp_path: Path
) -> None:
    first = processes.serve()
    second = processes.serve("--join", first.ready)
    processes.serve("--join", first.ready)
    admin = AdminClient({"bootstrap.servers": first.ready})
    eventually(lambda: len(admin.list_topics(timeout=10).brokers) == 3)
    admin.create_topics([NewTopic("slow", 1, replica_assignment=[[1]])])["slow"].result(20)
    producer = Producer({"bootstrap.servers": first.ready})
    for _ in range(3_000):
        producer.produce("slow", b"x" * 1_000, partition=0)
    assert producer.flush(30) == 0
    plan = tmp_path / "plan.json"
    moved = {"topic": "slow", "partition": 0, "replicas": [2]}
    plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    at = ("--bootstrap-server", second.ready, "--reassignment-json-file", str(plan))

    def throttle(kind: ResourceType, name: str) -> dict[str, str]:
        described = admin.describe_configs([ConfigResource(kind, name)])
        entries = next(iter(described.values())).result(20).values()
        return {one.name: one.value for one in entries if "throttled" in one.name and one.value}

    java.succeed(REASSIGN, *at, "--execute", "--throttle", "1")
    assert throttle(ResourceType.BROKER, "1")["leader.replication.throttled.rate"] == "1"
    assert throttle(ResourceType.TOPIC, "slow")["follower.replication.throttled.replicas"] == "0:2"
    assert (
        "still in progress" in java.succeed(REASSIGN, *at, "--verify", "--preserve-throttles").out
    )
    java.succeed(REASSIGN, *at, "--execute", "--additional", "--throttle", "100000000")

    def is_complete() -> bool:
        told = java.succeed(REASSIGN, *at, "--verify").out
        return "Reassignment of partition slow-0 is completed." in told

    eventually(is_complete, 60)
    assert throttle(ResourceType.BROKER, "1") == throttle(ResourceType.TOPIC, "slow") == {}


def features(at: str) -> dict[str, tuple[str, str, str]]:
    """Lowest and highest supported level of each feature, and the finalized one."""
    told = java.succeed(FEATURES, "--bootstrap-server", at, "describe").out
    row = r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+"
    row += r"FinalizedVersionLevel: (\S+)\s+Epoch: \d+"
    return {name: (low, high, level) for name, low, high, level in re.findall(row, told)}


def test_any_broker_shows_and_raises_features_and_lowers_none(
    processes: Processes, tmp_path: Path
) -> None:
    kafka, name = ("3.3-IV3", "4.3-IV0", "4.3-IV0"), "kafkalite.record.version"
    older = processes.serve("--test-record-version", "1", data_dir=tmp_path / "first")
    assert features(older.ready) == {"metadata.version": kafka, name: ("1", "1", "1")}
    older.end()
    first = processes.serve(data_dir=tmp_path / "first")
    assert features(first.ready) == {"metadata.version": kafka, name: ("1", "2", "1")}
    upgrade = ("upgrade", "--feature", f"{name}=2")
    java.succeed(FEATURES, "--bootstrap-server", first.ready, *upgrade, "--dry-run")
    assert features(first.ready)[name] == ("1", "2", "1")
    second = processes.serve("--join", first.ready)
    at = ("--bootstrap-server", second.ready)
    java.succeed(FEATURES, *at, *upgrade)
    eventually(lambda: features(first.ready)[name] == ("1", "2", "2"))
    for words in ((f"{name}=1",), (f"{name}=1", "--unsafe"), ("metadata.version=29",)):
        refused = java.run(FEATURES, *at, "downgrade", "--feature", *words)
        assert (refused.status, "downgrade from" in refused.out + refused.err) == (1, True)


def test_a_broker_that_does_not_control_answers_for_any_other(
    processes: Processes, tmp_path: Path
) -> None:
    first = processes.serve()
    processes.serve("--join", first.ready)
    third = processes.serve("--join", first.ready)
    admin = AdminClient({"bootstrap.servers": first.ready})
    eventually(lambda: len(admin.list_topics(timeout=10).brokers) == 3)
    admin.create_topics([NewTopic("t", 1, replica_assignment=[[1, 2]])])["t"].result(20)
    at = ("--bootstrap-server", third.ready)
    broker = ("--entity-type", "brokers", "--entity-name", "2")
    java.succeed(java.CONFIGS, *at, *broker, "--alter", "--add-config", "log.cleaner.threads=2")
    told = java.succeed(java.CONFIGS, "--bootstrap-server", first.ready, *broker, "--describe").out
    assert "log.cleaner.threads=2" in told
    told = java.succeed(LOG_DIRS, *at, "--describe", "--topic-list", "t").out
    holders = {
        one["broker"]: [part["partition"] for log in one["logDirs"] for part in log["partitions"]]
        for one in json.loads(told.splitlines()[-1])["brokers"]
    }
    assert holders == {1: ["t-0"], 2: ["t-0"], 3: []}
    plan = tmp_path / "plan.json"
    moved = {"topic": "t", "partition": 0, "replicas": [3, 1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    moving = (*at, "--reassignment-json-file", str(plan))
    java.succeed(REASSIGN, *moving, "--execute")
    eventually(lambda: "is completed" in java.succeed(REASSIGN, *moving, "--verify").out, 60)
    java.succeed(ELECTION, *at, "--election-type", "preferred", "--topic", "t", "--partition", "0")
    leads = admin.list_topics("t", timeout=10).topics["t"].partitions[0].leader
    assert leads == 3


def bytes_read(member: Process) -> float:
    """Bytes of topic t that consumers got from a broker."""
    with urllib.request.urlopen(f"{member.admin}/metrics/topics", timeout=10) as answer:
        page = answer.read().decode()
    found = re.search(r'^kafka_server_\w+_bytesout(?:_total)?{topic="t"} (\S+)$', page, re.M)
    return float(found[1]) if found else 0.0


def test_a_consumer_of_java_reads_from_the_replica_in_its_rack(processes: Processes) -> None:
    selector = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"
    first = processes.serve("--set", selector, "--set", "broker.rack=a")
    join = ("--join", first.ready, "--set", selector)
    others = [processes.serve(*join, "--set", f"broker.rack={rack}") for rack in "bc"]
    admin = AdminClient({"bootstrap.servers": first.ready})
    eventually(lambda: len(admin.list_topics(timeout=10).brokers) == 3)
    admin.create_topics([NewTopic("t", 1, replica_assignment=[[1, 2, 3]])])["t"].result(20)
    producer = Producer({"bootstrap.servers": first.ready, "acks": "all"})
    for number in range(500):
        producer.produce("t", str(number), partition=0)
    assert producer.flush(30) == 0
    read = java.succeed(
        java.CONSOLE_CONSUMER, "--bootstrap-server", first.ready, "--topic", "t",
        "--from-beginning", "--max-messages", "500", "--timeout-ms", "60000",
        "--command-property", "client.rack=b",
    )  # fmt: skip
    assert read.lines == [str(number) for number in range(500)]
    assert bytes_read(others[0]) > 0
    assert (bytes_read(first), bytes_read(others[1])) == (0.0, 0.0)
