"""``kafkalite consume``: records to lines."""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_kafka import Producer

from tests.conftest import PATIENCE_S, Process
from tests.unit.test_command_line import told


@pytest.fixture
def topic(broker: Process) -> str:
    """A topic of two partitions with five records in the first."""
    name = f"lines-{uuid.uuid4().hex[:8]}"
    assert told("topics", "create", name, "-p", "2", "-b", broker.ready).returncode == 0
    producer = Producer({"bootstrap.servers": broker.ready})
    for number in range(5):
        producer.produce(name, b"%d" % number, b"k\xff", partition=0, headers=[("h", b"x")])
    assert producer.flush(PATIENCE_S) == 0
    return name


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("-n", "2", "--from-beginning"), "01"),
        (("-e", "--offset", "3"), "34"),
        (("-e", "--offset", "-1"), "4"),
        (("-e", "--offset", "1h"), "01234"),
        (("-e",), ""),
    ],
)
def test_consume_begins_and_ends_where_it_is_told(
    broker: Process, topic: str, words: tuple[str, ...], values: str
) -> None:
    done = told("consume", f"{topic}:0", *words, "-b", broker.ready)
    assert (done.returncode, done.stdout) == (0, "".join(f"{value}\n" for value in values))
    assert done.stderr == ""


def test_records_are_written_in_a_format_or_in_json(broker: Process, topic: str) -> None:
    words = ("consume", topic, "--from-beginning", "-n", "1", "-b", broker.ready)
    assert told(*words, "-f", "{topic}\\t{partition} {offset} {value} {headers}\\n").stdout == (
        f"{topic}\t0 0 0 h=x\n"
    )
    record = json.loads(told(*words, "--json").stdout)
    assert (record["key_base64"], record["value"], record["offset"]) == ("a/8=", "0", 0)
    assert record["headers"] == [{"name": "h", "value": "x"}]


def test_a_group_goes_on_where_it_was(broker: Process, topic: str) -> None:
    words = ("consume", topic, "-g", topic, "--from-beginning", "-b", broker.ready)
    assert told(*words, "-n", "2").stdout == "0\n1\n"
    assert told(*words, "-n", "3").stdout == "2\n3\n4\n"


def test_fewer_records_than_wanted_exit_with_4(broker: Process, topic: str) -> None:
    done = told("consume", topic, "-n", "1", "--idle", "0", "-b", broker.ready)
    assert done.returncode == 4
    assert done.stderr.splitlines()[0] == "error: there were 0 records, not 1"


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("consume", "no-such-topic", "-e"), 5),
        (("consume", "t", "-g", "g", "-e"), 2),
        (("consume", "t", "-f", "{nothing}"), 2),
        (("consume", "t:x"), 2),
    ],
)
def test_what_cannot_be_is_refused(broker: Process, words: tuple[str, ...], exit_code: int) -> None:
    assert told(*words, "-b", broker.ready).returncode == exit_code
