"""``--watch``, and what a cluster holds."""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Iterator

import pytest

import kafkalite
from kafkalite.cli.answers import size_in_words
from kafkalite.cli.failures import ExitCode
from kafkalite.cli.volumes import rate
from tests.harness.process import PATIENCE_S, Process, Processes
from tests.unit.test_command_line import told


@pytest.fixture
def admin(broker: Process) -> Iterator[kafkalite.AdminClient]:
    """An admin client."""
    with kafkalite.AdminClient(bootstrap_servers=broker.ready) as client:
        yield client


def send(broker: Process, topic: str, values: list[bytes]) -> None:
    """Send records to the first partition."""
    with kafkalite.Producer(bootstrap_servers=broker.ready) as producer:
        producer.send_batch(topic, values, partitions=0).result(timeout=PATIENCE_S)


@pytest.fixture
def topic(broker: Process, admin: kafkalite.AdminClient) -> str:
    """A topic of two partitions with three records, of which one is trimmed."""
    name = f"watched-{uuid.uuid4().hex[:8]}"
    admin.create_topic(name, partitions=2)
    send(broker, name, [b"v"] * 3)
    admin.delete_records({(name, 0): 1})
    return name


def row_of(rows: list[dict[str, object]], key: str, name: str) -> dict[str, object]:
    """The row about one thing."""
    (row,) = [row for row in rows if row[key] == name]
    return row


def test_topics_are_listed_with_records_and_bytes(broker: Process, topic: str) -> None:
    rows = json.loads(told("topics", "list", "--json", "-b", broker.ready).stdout)
    row = row_of(rows, "topic", topic)
    assert (row["partitions"], row["records"], row["end_offsets"]) == (2, 2, 3)
    assert isinstance(row["bytes"], int)
    assert 0 < row["bytes"] < 1_000
    (line,) = [
        line
        for line in told("topics", "list", "-b", broker.ready).stdout.splitlines()
        if line.startswith(topic)
    ]
    assert line.split()[1:] == ["2", "1", "2", str(row["bytes"]), "B"]


def test_watching_topics_tells_what_is_written_a_second(
    processes: Processes, broker: Process, topic: str
) -> None:
    words = ("topics", "list", "--watch", "--interval", "0.2", "--json", "-b", broker.ready)
    watching = processes.start(*words)
    assert watching.popen.stdout is not None
    first = row_of(json.loads(watching.popen.stdout.readline()), "topic", topic)
    assert (first["records_per_s"], first["bytes_per_s"]) == (None, None)
    send(broker, topic, [b"v" * 100] * 50)
    for line in watching.popen.stdout:
        row = row_of(json.loads(line), "topic", topic)
        if row["records_per_s"]:
            assert float(str(row["bytes_per_s"])) > float(str(row["records_per_s"]))
            break
    assert watching.end(signal.SIGINT) == ExitCode.INTERRUPTED
    assert watching.stderr.strip() == ""


@pytest.mark.parametrize(
    ("now", "before", "expected"), [(30, 10, 10.0), (10, 30, 0), (None, 1, None), (1, None, None)]
)
def test_a_rate_is_what_was_added_a_second(
    now: int | None, before: int | None, expected: float | None
) -> None:
    assert rate(now, before, 2.0) == expected


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, None),
        (0, "0 B"),
        (1_023, "1023 B"),
        (1_024, "1.0 KiB"),
        (1_048_575, "1.0 MiB"),
        (5 << 30, "5.0 GiB"),
        (1 << 62, "4096.0 PiB"),
    ],
)
def test_a_size_has_its_unit(count: int | None, text: str | None) -> None:
    assert size_in_words(count) == text


@pytest.fixture
def group(broker: Process, admin: kafkalite.AdminClient, topic: str) -> str:
    """A group without members that has one record to read."""
    admin.alter_group_offsets(topic, {(topic, 0): 2, (topic, 1): 0})
    return topic


def test_groups_are_listed_with_members_and_total_lag(broker: Process, group: str) -> None:
    with kafkalite.Consumer(
        group,
        group_id=f"{group}-m",
        bootstrap_servers=broker.ready,
        auto_offset_reset="earliest",
    ) as consumer:
        assert consumer.poll(timeout=PATIENCE_S) is not None
        rows = json.loads(told("groups", "list", "--json", "-b", broker.ready).stdout)
    row = row_of(rows, "group", group)
    assert (row["members"], row["lag"], row["state"]) == (0, 1, "Empty")
    joined = row_of(rows, "group", f"{group}-m")
    assert joined["members"] == 1


def test_the_lag_of_all_groups_names_the_group(broker: Process, group: str) -> None:
    rows = json.loads(told("groups", "lag", "--all", "--json", "-b", broker.ready).stdout)
    ours = [(row["partition"], row["lag"]) for row in rows if row["group"] == group]
    assert ours == [(0, 1), (1, 0)]
    lines = told("groups", "lag", "--all", "-b", broker.ready).stdout.splitlines()
    assert lines[0].split() == ["group", "topic", "partition", "committed", "end", "lag"]


def test_a_lag_is_watched_until_ctrl_c(processes: Processes, broker: Process, group: str) -> None:
    words = ("groups", "lag", group, "--watch", "--interval", "0.1", "--json", "-b", broker.ready)
    watching = processes.start(*words)
    assert watching.popen.stdout is not None
    assert json.loads(watching.popen.stdout.readline())[0]["lag"] == 1
    send(broker, group, [b"v"] * 2)
    for line in watching.popen.stdout:
        if json.loads(line)[0]["lag"] == 3:
            break
    assert watching.end(signal.SIGINT) == ExitCode.INTERRUPTED


@pytest.mark.parametrize("words", [(), ("g", "--all")])
def test_a_lag_is_that_of_one_group_or_of_all(broker: Process, words: tuple[str, ...]) -> None:
    assert told("groups", "lag", *words, "-b", broker.ready).returncode == 2


def test_cluster_info_tells_brokers_and_what_they_hold(broker: Process, topic: str) -> None:
    info = json.loads(told("cluster", "info", "--json", "-b", broker.ready).stdout)
    (one,) = info["brokers"]
    assert (one["address"], one["broker"], one["controller"]) == (broker.ready, 1, True)
    assert one["leads"] == one["replicas"] >= 2
    assert one["bytes"] >= info["bytes"] > 0
    assert info["topics"] >= 1
    assert info["records"] >= 2
    lines = told("cluster", "info", "-b", broker.ready).stdout.splitlines()
    assert lines[0] == f"cluster {info['cluster_id']}"
    assert lines[-1].split()[:2] == ["1", broker.ready]


def test_config_alter_changes_keys_of_topics(broker: Process, topic: str) -> None:
    words = ("config", "alter", "--topic", topic, "-b", broker.ready)
    assert told(*words, "retention.ms=60000", "segment.ms=70000").returncode == 0
    assert told(*words, "--unset", "segment.ms").stderr == f"topic {topic} is changed\n"
    (described,) = json.loads(
        told("topics", "describe", topic, "--json", "-b", broker.ready).stdout
    )
    assert described["config"] == {"retention.ms": "60000"}


def test_config_alter_changes_keys_of_brokers(processes: Processes) -> None:
    at = ("-b", processes.serve().ready)
    assert told("config", "alter", "--broker", "1", "log.retention.ms=60000", *at).returncode == 0
    assert told("config", "alter", "--all-brokers", "max.connections=99", *at).returncode == 0
    lines = told("config", "show", *at).stdout.splitlines()
    assert {"log.retention.ms=60000", "max.connections=99"} <= set(lines)


def test_config_alter_only_checks_a_dry_run(broker: Process, topic: str) -> None:
    words = ("config", "alter", "--topic", topic, "--dry-run", "-b", broker.ready)
    assert told(*words, "retention.ms=60000").stderr == f"topic {topic} could be changed\n"
    assert told(*words, "retention.ms=x").returncode == 2
    (described,) = json.loads(
        told("topics", "describe", topic, "--json", "-b", broker.ready).stdout
    )
    assert described["config"] == {}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--topic", "t"), "nothing to change: give KEY=VALUE or --unset KEY"),
        (("a=b",), "no topic and no broker: give --topic NAME, --broker ID or --all-brokers"),
        (("--topic", "t", "retention"), "'retention' is not KEY=VALUE"),
    ],
)
def test_config_alter_wants_keys_and_whose_they_are(
    broker: Process, words: tuple[str, ...], error: str
) -> None:
    done = told("config", "alter", *words, "-b", broker.ready)
    assert (done.returncode, error in done.stderr) == (2, True)
