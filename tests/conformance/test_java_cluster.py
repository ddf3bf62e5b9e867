"""Kafka's tools for the members of a cluster, against three brokers of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import java
from tests.harness.patience import eventually
from tests.harness.process import Process, Processes

pytestmark = pytest.mark.usefixtures("jars")

CLUSTER = java.TOOLS + "ClusterTool"
QUORUM = java.TOOLS + "MetadataQuorumCommand"


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
