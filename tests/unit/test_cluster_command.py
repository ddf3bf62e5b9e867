"""``kafkalite cluster``: what is wrong with a cluster, and who leads and replicates."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import kafkalite as kl
from tests.harness.patience import eventually
from tests.unit.test_command_line import told


@pytest.fixture
def admin(kafkalite_cluster: kl.Cluster) -> Iterator[kl.AdminClient]:
    """Asks the cluster of all these tests."""
    with kl.AdminClient(bootstrap_servers=kafkalite_cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(admin: kl.AdminClient) -> Iterator[str]:
    """Two partitions that broker 2 shall lead."""
    name = f"moved-{uuid.uuid4().hex[:8]}"
    assignments = {0: [2, 0, 1], 1: [2, 1, 0]}
    admin.create_topics([kl.NewTopic(name, -1, -1, assignments=assignments)])
    yield name
    admin.delete_topic(name)


def answer(cluster: kl.Cluster, *words: str) -> tuple[int, Any]:
    """The exit code of ``kafkalite cluster``, and its JSON."""
    done = told("cluster", *words, "--json", "-b", cluster.bootstrap_servers)
    return done.returncode, json.loads(done.stdout or "null")


def refusal(cluster: kl.Cluster, *words: str) -> tuple[int, str, str]:
    """The exit code of ``kafkalite cluster``, its error and its hint."""
    done = told("cluster", *words, "-b", cluster.bootstrap_servers)
    lines = done.stderr.splitlines()
    return done.returncode, lines[0], lines[-1]


def test_brokers_and_quorum_are_listed(kafkalite_cluster: kl.Cluster, topic: str) -> None:
    code, brokers = answer(kafkalite_cluster, "brokers")
    assert (code, [row["broker"] for row in brokers]) == (0, [0, 1, 2])
    addresses = [broker.bootstrap_servers for broker in kafkalite_cluster.brokers]
    assert [row["address"] for row in brokers] == addresses
    assert sum(row["controller"] for row in brokers) == 1
    assert all(row["in_sync"] >= 2 and not row["fenced"] for row in brokers)
    assert brokers[2]["should_lead"] >= 2
    code, quorum = answer(kafkalite_cluster, "quorum")
    assert (code, [row["node"] for row in quorum["replicas"]]) == (0, [0, 1, 2])
    assert sorted(row["role"] for row in quorum["replicas"]) == ["leader", "voter", "voter"]
    people = told("cluster", "quorum", "-b", kafkalite_cluster.bootstrap_servers)
    assert people.stdout.startswith(f"epoch {quorum['leader_epoch']}, committed up to offset")


def test_health_says_in_words_what_is_wrong_and_leaders_move_back(
    kafkalite_cluster: kl.Cluster, admin: kl.AdminClient, topic: str
) -> None:
    lonely, strict, moving = f"lonely-{topic}", f"strict-{topic}", f"moving-{topic}"
    config = {"min.insync.replicas": 1}
    for name, broker in ((lonely, 2), (moving, 0)):
        new = kl.NewTopic(name, -1, -1, config=config, assignments={0: [broker]})
        admin.create_topics([new])
    admin.create_topic(strict, config={"min.insync.replicas": 3})
    servers = kafkalite_cluster.bootstrap_servers
    eventually(lambda: told("cluster", "health", "-b", servers).returncode == 0)
    code, health = answer(kafkalite_cluster, "health")
    assert (code, health["healthy"], health["problems"], health["brokers"]) == (0, True, [], 3)

    kafkalite_cluster.brokers[2].kill()
    try:
        # The broker is not fenced yet, and was waited for a minute.
        began = time.monotonic()
        assert answer(kafkalite_cluster, "info")[0] == 0
        assert time.monotonic() - began < 40
        wrong = ["fenced", "below min.insync.replicas", "offline", "under-replicated"]

        def kinds() -> set[str]:
            return {
                problem["kind"] for problem in answer(kafkalite_cluster, "health")[1]["problems"]
            }

        eventually(lambda: kinds().issuperset(wrong))
        said = told("cluster", "health", "-b", servers)
        assert said.returncode == 1
        assert said.stderr.startswith("error: the cluster has ")
        assert "fenced: broker 2 at " in said.stdout
        assert f"offline: {lonely}-0 has no leader; its replicas are on 2\n" in said.stdout
        refused = f"{strict}-0 has 2 in-sync replicas of 3, and min.insync.replicas=3: acks=all"
        assert f"below min.insync.replicas: {refused} is refused\n" in said.stdout
        missing = f"under-replicated: {topic}-0 has 2 in-sync replicas of 3; missing: 2\n"
        assert missing in said.stdout
        not_in_sync = refusal(kafkalite_cluster, "move-leader", f"{topic}:0", "--to", "2")
        assert not_in_sync[:2] == (1, f"error: broker 2 is not in sync with {topic}-0")
        # What a reassignment adds was never there: it is not missing.
        admin.reassign_partitions({(moving, 0): [0, 2]})
        assert f"{moving}-0" not in told("cluster", "health", "-b", servers).stdout
    finally:
        kafkalite_cluster.brokers[2].start()
    eventually(lambda: answer(kafkalite_cluster, "health")[0] == 0)
    code, moved = answer(kafkalite_cluster, "move-leader", topic)
    assert (code, [row["leader"] for row in moved]) == (0, [2, 2])
    for name in (lonely, strict, moving):
        admin.delete_topic(name)


@pytest.mark.parametrize(
    ("words", "code", "error", "hint"),
    [
        ("move-leader", 2, "give topics or partitions, or --all", "see"),
        ("move-leader --all --to 1", 2, "--to wants topics or partitions", "see"),
        ("move-leader nothing-here", 5, "topic nothing-here", "topics list"),
        ("move-leader {topic}:7", 5, "topic {topic} has no partition 7", "topics describe {topic}"),
        ("move-leader {topic}:0 --to 9", 1, "broker 9 has no replica of {topic}-0", "reassign"),
        ("reassign {topic}", 2, "give one of --to, --list and --cancel", "see"),
        ("reassign --to 0,1", 2, "give topics or partitions", "see"),
        ("reassign {topic} --to 0,0", 2, "names a broker twice", "see"),
        ("reassign {topic} --to 0,x", 2, "is not a list of broker ids", "see"),
        ("reassign {topic} --to 0,9", 5, "there is no broker 9", "cluster brokers"),
        ("reassign {topic} --to 0,1", 2, "not confirmed: Move 2 partitions", "--yes"),
    ],
)
def test_what_cannot_be_moved_is_refused_with_a_hint(
    kafkalite_cluster: kl.Cluster, topic: str, words: str, code: int, error: str, hint: str
) -> None:
    refused = refusal(kafkalite_cluster, *words.format(topic=topic).split())
    assert refused[0] == code
    assert error.format(topic=topic) in refused[1]
    assert refused[2].startswith("hint: ")
    assert hint.format(topic=topic) in refused[2]


def test_a_plan_spreads_leaders_and_changes_nothing(
    kafkalite_cluster: kl.Cluster, admin: kl.AdminClient, topic: str
) -> None:
    code, plan = answer(kafkalite_cluster, "reassign", topic, "--to", "0,1", "--dry-run")
    assert (code, [row["after"] for row in plan]) == (0, [[0, 1], [1, 0]])
    assert [row["before"] for row in plan] == [[2, 0, 1], [2, 1, 0]]
    now = admin.describe_topic(topic).partitions
    assert [each.replicas for each in now] == [(2, 0, 1), (2, 1, 0)]
    assert answer(kafkalite_cluster, "reassign", topic, "--list") == (0, [])
    assert answer(kafkalite_cluster, "reassign", topic, "--cancel") == (0, [])


def test_leaders_and_replicas_move(
    kafkalite_cluster: kl.Cluster, admin: kl.AdminClient, topic: str
) -> None:
    code, moved = answer(kafkalite_cluster, "move-leader", f"{topic}:0", "--to", "1")
    assert (code, moved[0]["leader"], moved[0]["preferred"]) == (0, 1, 1)
    words = ("--to", "0,1", "--yes", "--wait", "30")
    code, plan = answer(kafkalite_cluster, "reassign", topic, *words)
    assert (code, [row["after"] for row in plan]) == (0, [[0, 1], [1, 0]])

    def has_moved() -> bool:
        partitions = admin.describe_topic(topic).partitions
        replicas = [(each.replicas, tuple(sorted(each.isr))) for each in partitions]
        return replicas == [((0, 1), (0, 1)), ((1, 0), (0, 1))]

    eventually(has_moved)
