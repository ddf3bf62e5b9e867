"""``kafkalite groups``: look at consumer groups and move them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalite import AdminClient
from tests.harness.process import PATIENCE_S, Process
from tests.unit.test_command_line import told


@pytest.fixture
def topic(broker: Process) -> str:
    """A topic with five records."""
    name = f"groups-{uuid.uuid4().hex[:8]}"
    assert told("topics", "create", name, "-b", broker.ready).returncode == 0
    producer = Producer({"bootstrap.servers": broker.ready})
    for _ in range(5):
        producer.produce(name, b"value", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    return name


@pytest.fixture
def group(broker: Process, topic: str) -> str:
    """A group that read two of them and went."""
    consumer = member(broker, topic, topic)
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    return topic


def member(broker: Process, group: str, topic: str) -> Consumer:
    """A member that has its partitions."""
    keys = {"bootstrap.servers": broker.ready, "group.id": group, "client.id": "judge"}
    consumer = Consumer(keys | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    assert consumer.consume(1, timeout=PATIENCE_S)
    return consumer


@pytest.fixture
def joined(broker: Process, topic: str) -> Iterator[str]:
    """A group with a member."""
    consumer = member(broker, topic, topic)
    yield topic
    consumer.close()


def test_groups_are_listed_and_described(broker: Process, joined: str) -> None:
    at = ("--json", "-b", broker.ready)
    listed = {row["group"]: row["state"] for row in json.loads(told("groups", "list", *at).stdout)}
    assert listed[joined] == "Stable"
    (described,) = json.loads(told("groups", "describe", joined, *at).stdout)
    (one,) = described["members"]
    assert (one["client_id"], one["assignment"]) == ("judge", [[joined, 0]])
    assert f"{joined}-0" in told("groups", "describe", joined, "-b", broker.ready).stdout


def test_lag_counts_what_is_not_read(broker: Process, group: str) -> None:
    done = told("groups", "lag", group, "--json", "-b", broker.ready)
    (row,) = json.loads(done.stdout)
    assert (row["committed"], row["end"], row["lag"]) == (2, 5, 3)
    assert told("groups", "lag", group, "-b", broker.ready).stderr == "total lag: 3 records\n"
    assert told("groups", "lag", "nobody", "-b", broker.ready).returncode == 5


@pytest.mark.parametrize(
    ("to", "after"), [("earliest", 0), ("latest", 5), ("4", 4), ("-1", 4), ("1h", 0)]
)
def test_offsets_are_reset(broker: Process, group: str, to: str, after: int) -> None:
    words = (group, f"--to={to}", "--json", "-y", "-b", broker.ready)
    dry = json.loads(told("groups", "reset-offsets", "--dry-run", *words).stdout)
    assert dry == [{"topic": group, "partition": 0, "before": 2, "after": after}]
    assert json.loads(told("groups", "reset-offsets", *words).stdout) == dry
    (row,) = json.loads(told("groups", "lag", group, "--json", "-b", broker.ready).stdout)
    assert row["committed"] == after


def test_a_group_that_committed_nothing_is_not_reset_to_nowhere(broker: Process) -> None:
    done = told("groups", "reset-offsets", "no-such-group", "--to=earliest", "-b", broker.ready)
    assert done.returncode == 5
    assert done.stderr.splitlines()[0] == "error: group no-such-group has committed nothing"


def test_a_group_with_members_is_neither_moved_nor_deleted(broker: Process, joined: str) -> None:
    words = ("--to=earliest", "--topic", joined, "-y", "-b", broker.ready)
    assert told("groups", "reset-offsets", joined, *words).returncode == 1
    assert told("groups", "delete", joined, "-y", "-b", broker.ready).returncode == 1


def test_an_empty_group_is_deleted(broker: Process, group: str) -> None:
    assert told("groups", "delete", group, "-y", "-b", broker.ready).returncode == 0
    assert told("groups", "delete", group, "-y", "-b", broker.ready).returncode == 5
    assert told("groups", "delete", group, "-y", "--missing-ok", "-b", broker.ready).returncode == 0


@pytest.mark.parametrize("words", [("describe",), ("lag",), ("delete", "-y")])
def test_a_mistyped_group_gets_a_hint_at_the_one_that_was_meant(
    broker: Process, group: str, words: tuple[str, ...]
) -> None:
    done = told("groups", *words, f"{group}x", "-b", broker.ready)
    assert done.returncode == 5
    assert done.stderr.splitlines()[-1] == f"hint: did you mean {group}?"


@pytest.mark.parametrize("words", [("delete",), ("reset-offsets", "--to=earliest")])
def test_off_a_terminal_a_group_is_changed_with_yes_alone(
    broker: Process, group: str, words: tuple[str, ...]
) -> None:
    refused = told("groups", *words, group, "-b", broker.ready)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1] == "hint: add --yes to confirm."
    (row,) = json.loads(told("groups", "lag", group, "--json", "-b", broker.ready).stdout)
    assert row["committed"] == 2


def test_a_place_that_is_none_is_a_wrong_word(broker: Process) -> None:
    done = told("groups", "reset-offsets", "g", "--to", "whenever", "-b", broker.ready)
    assert done.returncode == 2
    assert "is not a position" in done.stderr


@pytest.mark.parametrize(
    ("to", "side", "after"), [("99999", "behind the end", 5), ("1", "before the start", 2)]
)
def test_an_offset_outside_the_log_is_its_nearer_end(
    broker: Process, topic: str, to: str, side: str, after: int
) -> None:
    """It was committed as it stood, and the group's lag was negative."""
    with AdminClient(bootstrap_servers=broker.ready) as admin:
        admin.delete_records({(topic, 0): 2})
    words = ("groups", "reset-offsets", topic, "--to", to, "--topic", topic, "--yes", "--json")
    done = told(*words, "-b", broker.ready)
    assert [row["after"] for row in json.loads(done.stdout)] == [after]
    assert done.stderr == f"{topic}-0: offset {to} is {side}; taking {after}\n"
    with AdminClient(bootstrap_servers=broker.ready) as admin:
        assert [at.offset for at in admin.list_group_offsets(topic).values()] == [after]
