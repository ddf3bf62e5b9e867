"""``kafkalite topics``: look at topics and change them."""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_kafka import Producer

from tests.harness.process import PATIENCE_S, Process, Processes
from tests.unit.test_command_line import told


@pytest.fixture
def topic(broker: Process) -> str:
    """A topic of two partitions with three records in the first."""
    name = f"topics-{uuid.uuid4().hex[:8]}"
    words = ("--partitions", "2", "--config", "retention.ms=3600000")
    assert told("topics", "create", name, *words, "-b", broker.ready).returncode == 0
    producer = Producer({"bootstrap.servers": broker.ready})
    for _ in range(3):
        producer.produce(name, b"value", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    return name


def test_a_topic_is_created_listed_and_deleted(broker: Process) -> None:
    name = f"topics-{uuid.uuid4().hex[:8]}"
    at = ("-b", broker.ready)
    made = told("topics", "create", name, "-p", "3", *at)
    assert (made.returncode, made.stdout, made.stderr) == (0, "", f"{name} is created\n")
    again = told("topics", "create", name, *at)
    assert (again.returncode, again.stderr.splitlines()[0][:7]) == (1, "error: ")
    assert again.stderr.endswith("\nhint: with --exist-ok that is fine.\n")
    assert told("topics", "create", name, "--exist-ok", *at).returncode == 0
    listed = json.loads(told("topics", "list", "--json", *at).stdout)
    assert {row["topic"]: row["partitions"] for row in listed}[name] == 3
    assert told("topics", "delete", name, "-y", *at).returncode == 0
    gone = told("topics", "delete", name, "-y", *at)
    assert (gone.returncode, "hint: " in gone.stderr) == (5, True)
    assert told("topics", "delete", name, "-y", "--missing-ok", *at).returncode == 0


def test_off_a_terminal_a_topic_is_deleted_with_yes_alone(broker: Process, topic: str) -> None:
    refused = told("topics", "delete", topic, "-b", broker.ready)
    assert (refused.returncode, refused.stderr) == (
        2,
        f"error: not confirmed: Delete {topic}?\n"
        "  stdin is not a terminal, so the question cannot be asked\n"
        "hint: add --yes to confirm.\n",
    )
    assert told("topics", "describe", topic, "-b", broker.ready).returncode == 0


@pytest.mark.parametrize("words", [("describe",), ("delete", "-y"), ("alter", "--unset", "x")])
def test_a_mistyped_topic_gets_a_hint_at_the_one_that_was_meant(
    broker: Process, topic: str, words: tuple[str, ...]
) -> None:
    done = told("topics", *words, f"{topic}x", "-b", broker.ready)
    assert done.returncode == 5
    assert done.stderr.splitlines()[-1] == f"hint: did you mean {topic}?"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("create",), "with --exist-ok that is fine."),
        (("delete", "-y"), "`kafkalite topics list` shows those there are"),
    ],
)
def test_what_failed_in_part_has_a_hint_in_words_of_the_command_line(
    broker: Process, topic: str, words: tuple[str, ...], hint: str
) -> None:
    # Like no other topic's name, or the hint would name that.
    other = words[0][0] * 24
    wrong, right = (topic, other) if words == ("create",) else (other, topic)
    done = told("topics", *words, wrong, right, "-b", broker.ready)
    assert done.returncode == 4
    assert f"\nhint: {hint}" in done.stderr


def test_describe_tells_offsets_and_configuration(broker: Process, topic: str) -> None:
    (told_of,) = json.loads(told("topics", "describe", topic, "--json", "-b", broker.ready).stdout)
    assert told_of["config"] == {"retention.ms": "3600000"}
    assert [(p["partition"], p["start"], p["end"]) for p in told_of["partitions"]] == [
        (0, 0, 3),
        (1, 0, 0),
    ]
    assert "  retention.ms=3600000" in told("topics", "describe", topic, "-b", broker.ready).stdout


def test_a_key_that_was_mistyped_gets_a_hint_at_the_one_that_was_meant(
    broker: Process, topic: str
) -> None:
    at = ("--config", "retention.mss=1", "-b", broker.ready)
    some = ("topics", "create", f"{topic}-a", f"{topic}-b")
    for words, exit_code in [(("topics", "alter", topic), 2), (some[:3], 2), (some, 4)]:
        done = told(*words, *at)
        assert done.returncode == exit_code
        assert done.stderr.splitlines()[-1] == "hint: did you mean retention.ms?"


def test_alter_sets_and_unsets_keys(broker: Process, topic: str) -> None:
    words = ("--config", "segment.ms=60000", "--unset", "retention.ms")
    assert told("topics", "alter", topic, *words, "-b", broker.ready).returncode == 0
    (told_of,) = json.loads(told("topics", "describe", topic, "--json", "-b", broker.ready).stdout)
    assert told_of["config"] == {"segment.ms": "60000"}
    assert told("topics", "alter", topic, "-b", broker.ready).returncode == 2
    wrong = told("topics", "alter", topic, "--config", "segment.ms=x", "-b", broker.ready)
    assert wrong.returncode == 2


def test_partitions_are_added(broker: Process, topic: str) -> None:
    assert told("topics", "add-partitions", topic, "4", "-b", broker.ready).returncode == 0
    assert told("topics", "add-partitions", topic, "3", "-b", broker.ready).returncode == 2


@pytest.mark.parametrize(("before", "start"), [("2", 2), ("end", 3), ("-1", 2), ("1h", 0)])
def test_trim_removes_what_is_before_a_place(
    broker: Process, topic: str, before: str, start: int
) -> None:
    words = (f"{topic}:0", f"--before={before}", "--json", "-y")
    (row,) = json.loads(told("topics", "trim", *words, "-b", broker.ready).stdout)
    assert row == {"topic": topic, "partition": 0, "start": start}


def test_what_is_not_there_exits_with_5_and_who_is_not_there_with_3(broker: Process) -> None:
    assert told("topics", "describe", "nothing", "-b", broker.ready).returncode == 5
    environment = {"KAFKALITE_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    unreachable = told("topics", "list", "-X", "kafkalite.bootstrap.timeout.ms=200", **environment)
    assert unreachable.returncode == 3
    error, why, hint = unreachable.stderr.splitlines()
    assert error == "error: cannot reach any broker of 127.0.0.1:1"
    assert why.startswith("  127.0.0.1:1  ")
    assert hint.startswith("hint: ")


def test_a_topic_has_as_many_partitions_as_the_broker_says(processes: Processes) -> None:
    """It got one, although the help named num.partitions."""
    broker = processes.serve("--set", "num.partitions=3")
    (made,) = json.loads(told("topics", "create", "t", "--json", "-b", broker.ready).stdout)
    assert made["partitions"] == 3
    help_of = " ".join(told("topics", "create", "--help").stdout.split())
    assert "Number of partitions. Default: the broker's num.partitions. " in help_of


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "alter", "{topic}", "--config", "retention.ms=9", "--unset", "retention.ms"),
        ("topics", "create", "new", "--config", "retention.ms=9", "--config", "retention.ms=10"),
        ("config", "alter", "--topic", "{topic}", "retention.ms=9", "retention.ms=10"),
        ("config", "alter", "--topic", "{topic}", "--unset", "retention.ms", "retention.ms=10"),
    ],
)
def test_a_key_that_is_given_twice_is_refused(
    broker: Process, topic: str, words: tuple[str, ...]
) -> None:
    """One of the two was dropped, and the answer said that the key is changed."""
    done = told(*(word.format(topic=topic) for word in words), "-b", broker.ready)
    assert done.returncode == 2
    assert "error: retention.ms is given twice: which of the two is meant?" in done.stderr


def test_trimming_behind_the_end_is_refused_with_the_ends(broker: Process, topic: str) -> None:
    """The hint was one for programs: to seek, and auto.offset.reset."""
    done = told("topics", "trim", topic, "--before", "99", "--yes", "-b", broker.ready)
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        [
            "error: offset 99 is behind the end",
            f"  {topic}-0 ends at 3",
            f"  {topic}-1 ends at 0",
            "hint: nothing is removed. `--before end` removes all records there are.",
        ],
    )
