"""``kafkalite consume``: records to lines."""

from __future__ import annotations

import json
import signal
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer

from kafkalite import AdminClient, Consumer
from kafkalite.cli.connecting import Cluster
from kafkalite.cli.failures import ExitCode
from kafkalite.cli.places import PlaceValue
from kafkalite.cli.readers import Limits, alone, member, read
from kafkalite.descriptions import ListedOffset
from kafkalite.records import TopicPartition
from tests.harness.process import PATIENCE_S, Process, Processes
from tests.unit.test_command_line import on_a_terminal, told


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
        (("-e", "--offset", "-1h"), "01234"),
        (("-e", "-o", "1h30m"), "01234"),
        (("-e", "-o", "0s"), ""),
        (("-e", "-o", "yesterday"), "01234"),
        (("-e", "-o", "2026-03-01"), "01234"),
        (("-e", "-o", "2999-03-01T12:00Z"), ""),
        (("-e",), ""),
    ],
)
def test_consume_begins_and_ends_at_the_given_places(
    broker: Process, topic: str, words: tuple[str, ...], values: str
) -> None:
    done = told("consume", f"{topic}:0", *words, "-b", broker.ready)
    assert (done.returncode, done.stdout) == (0, "".join(f"{value}\n" for value in values))
    assert done.stderr == ""


def test_on_a_terminal_no_bar_stands_among_the_records(broker: Process, topic: str) -> None:
    words = ("consume", f"{topic}:0", "--from-beginning", "-n", "2", "-b", broker.ready)
    assert on_a_terminal(*words) == "0\r\n1\r\n"


def test_records_are_written_in_a_format_or_in_json(broker: Process, topic: str) -> None:
    words = ("consume", topic, "--from-beginning", "-n", "1", "-b", broker.ready)
    assert told(*words, "-f", "{topic}\\t{partition} {offset} {value} {headers}\\n").stdout == (
        f"{topic}\t0 0 0 h=x\n"
    )
    record = json.loads(told(*words, "--json").stdout)
    assert (record["key_base64"], record["value"], record["offset"]) == ("a/8=", "0", 0)
    assert record["headers"] == [{"name": "h", "value": "x"}]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%p %o %s %v\\n", "0 0 0 0\n"),
        ("%k{hex} %v{base64} %h 100%%", "6bff MA== h=x 100%"),
        ("%K %S", "2 1"),
        ("{key:hex} {value:base64} {{}}", "6bff MA== {}"),
        ("%v{value}", "00"),
        ("%T{%Y} {timestamp:%Y}", "{year} {year}"),
    ],
)
def test_a_format_has_letters_or_names(
    broker: Process, topic: str, line: str, expected: str
) -> None:
    words = ("consume", topic, "--from-beginning", "-n", "1", "-f", line, "-b", broker.ready)
    year = datetime.now(UTC).strftime("%Y")
    assert told(*words).stdout == expected.replace("{year}", year)


def test_a_time_is_written_in_iso_8601(broker: Process, topic: str) -> None:
    words = ("consume", topic, "--from-beginning", "-n", "1", "-b", broker.ready)
    iso, ms = told(*words, "-f", "%T{iso} %T").stdout.split()
    assert datetime.fromisoformat(iso).timestamp() * 1000 == pytest.approx(int(ms))
    assert iso.endswith("Z")


def test_topics_are_named_by_a_regular_expression(broker: Process, topic: str) -> None:
    words = ("-e", "--from-beginning", "-f", "{topic} {value}\\n", "-b", broker.ready)
    assert told("consume", f"^{topic[:-1]}.", *words).stdout.startswith(f"{topic} 0\n")
    # The whole name has to match.
    assert told("consume", f"^{topic[:-1]}", *words).returncode == 5


def test_a_mistyped_topic_gets_a_hint_at_the_one_that_was_meant(
    broker: Process, topic: str
) -> None:
    done = told("consume", f"{topic}x", "-e", "-b", broker.ready)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (5, f"hint: did you mean {topic}?")


def test_a_group_is_drained_up_to_the_ends(broker: Process, topic: str) -> None:
    words = ("consume", topic, "-g", topic, "-e", "--from-beginning", "-b", broker.ready)
    first = told(*words)
    assert (first.returncode, first.stdout) == (0, "0\n1\n2\n3\n4\n")
    assert told(*words).stdout == ""
    rows = json.loads(told("groups", "lag", topic, "--json", "-b", broker.ready).stdout)
    assert [row["lag"] for row in rows if row["partition"] == 0] == [0]


def test_a_member_that_gets_no_partition_has_nothing_to_drain(
    processes: Processes, broker: Process
) -> None:
    name = f"lines-{uuid.uuid4().hex[:8]}"
    assert told("topics", "create", name, "-b", broker.ready).returncode == 0
    words = ("consume", name, "-g", name, "-b", broker.ready)
    other = processes.start(*words, "-X", "group.instance.id=first")
    deadline = time.monotonic() + PATIENCE_S
    while (
        '"assignment": [['
        not in told("groups", "describe", name, "--json", "-b", broker.ready).stdout
    ):
        assert time.monotonic() < deadline
    assert told(*words, "-e").returncode == 0
    assert other.end(signal.SIGINT) == ExitCode.INTERRUPTED


def test_a_member_is_not_at_its_end_while_its_group_rebalances(broker: Process, topic: str) -> None:
    """It has no partition meanwhile: it stopped with 0, and left its records unread."""
    quick = {"heartbeat.interval.ms": "50", "auto.offset.reset": "earliest"}
    cluster = Cluster(broker.ready, quick)
    drains, ends = member(cluster, (topic,), topic, from_beginning=True, to_end=True)
    silent = Consumer(topic, group_id=topic, config=cluster.keys())
    deadline = time.monotonic() + PATIENCE_S

    def polls_until(done: Callable[[], bool], *consumers: Consumer[bytes, bytes]) -> None:
        while not done():
            assert time.monotonic() < deadline
            for consumer in consumers:
                consumer.poll(0.05)

    assert ends is not None
    polls_until(lambda: bool(drains.assignment() and silent.assignment()), drains, silent)
    # A third member joins, and the group waits for the one that does not poll.
    late = Consumer(topic, group_id=topic, config=cluster.keys())
    polls_until(lambda: not drains.assignment(), drains, late)
    assert not ends.are_reached(drains, idle=True)
    silent.close()
    polls_until(lambda: ends.are_reached(drains, idle=True), drains, late)
    late.close()
    drains.close()


@pytest.mark.parametrize("place", [PlaceValue(word="earliest"), PlaceValue(offset=1)])
def test_what_is_left_of_a_log_is_read_where_its_first_records_are_gone(
    broker: Process, topic: str, place: PlaceValue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was written: the reader went on behind the last record, and exited with 0."""
    assign = Consumer.assign

    def delete_before(self: Consumer, places: Any) -> None:
        with AdminClient(bootstrap_servers=broker.ready) as admin:
            admin.delete_records({(topic, 0): 3})
        assign(self, places)

    monkeypatch.setattr(Consumer, "assign", delete_before)
    reader, ends = alone(Cluster(broker.ready), (topic,), place, to_end=True)
    with reader:
        found = [one.offset for some in read(reader, ends, Limits(None, None)) for one in some]
    assert found == [3, 4]


def test_an_offset_behind_the_end_of_a_log_is_its_end(broker: Process, topic: str) -> None:
    words = ("consume", f"{topic}:0", "-b", broker.ready, "--idle", "0")
    done = told(*words, "-o", "99")
    assert (done.returncode, done.stdout) == (0, "")


def test_the_end_of_a_committed_reader_is_where_an_open_transaction_begins() -> None:
    """`-e` waited for the transaction's end: its end was that of the log."""

    class Admin:
        """A log of nine records, the last four of them of an open transaction."""

        def list_offsets(self, places: Any, at: str, **more: Any) -> Any:
            end = 5 if more.get("isolation_level") == "read_committed" else 9
            return {TopicPartition(*place): ListedOffset(end, None, None) for place in places}

    admin: Any = Admin()
    for level, end in [("read_uncommitted", 9), ("read_committed", 5)]:
        cluster = Cluster("x:1", {"isolation.level": level})
        found = PlaceValue(word="latest").resolve(admin, [("t", 0)], cluster)
        assert found == {("t", 0): end}


def test_a_group_goes_on_where_it_was(broker: Process, topic: str) -> None:
    words = ("consume", topic, "-g", topic, "--from-beginning", "-b", broker.ready)
    assert told(*words, "-n", "2").stdout == "0\n1\n"
    assert told(*words, "-n", "3").stdout == "2\n3\n4\n"


def test_what_a_group_wrote_before_ctrl_c_it_does_not_write_again(
    processes: Processes, broker: Process, topic: str
) -> None:
    words = ("consume", topic, "-g", topic, "--from-beginning", "-b", broker.ready)
    reads = processes.start(*words)
    assert reads.popen.stdout is not None
    assert [reads.popen.stdout.readline() for _ in range(5)] == [f"{n}\n" for n in range(5)]
    # Once it wrote the next record it has asked for more than the first five.
    producer = Producer({"bootstrap.servers": broker.ready})
    producer.produce(topic, b"5", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    assert reads.popen.stdout.readline() == "5\n"
    assert reads.end(signal.SIGINT) == ExitCode.INTERRUPTED
    assert told(*words, "--idle", "1").stdout in ("", "5\n")


def test_a_key_of_consumers_is_for_the_consumer_alone(broker: Process, topic: str) -> None:
    """The admin client beside it refused the key: `-X fetch.min.bytes=1` could not be given."""
    words = ("consume", topic, "--from-beginning", "-e", "-X", "fetch.min.bytes=1")
    done = told(*words, "-b", broker.ready)
    assert (done.returncode, done.stdout) == (0, "0\n1\n2\n3\n4\n")


def test_fewer_records_than_wanted_exit_with_4(broker: Process, topic: str) -> None:
    done = told("consume", topic, "-n", "1", "--idle", "0", "-b", broker.ready)
    assert done.returncode == 4
    assert done.stderr.splitlines()[0] == "error: there were 0 records, not 1"


@pytest.mark.parametrize("words", [(), ("-n", "9")])
def test_ctrl_c_exits_with_130_whatever_was_read(
    processes: Processes, broker: Process, topic: str, words: tuple[str, ...]
) -> None:
    at = ("--from-beginning", "-b", broker.ready)
    reads = processes.start("consume", topic, *words, *at)
    assert reads.popen.stdout is not None
    assert [reads.popen.stdout.readline() for _ in range(5)] == [f"{n}\n" for n in range(5)]
    assert reads.end(signal.SIGINT) == ExitCode.INTERRUPTED
    assert "Traceback" not in reads.stderr


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("consume", "no-such-topic", "-e"), 5),
        (("consume", "^no-such-topic", "-e"), 5),
        (("consume", "^(", "-e"), 2),
        (("consume", "t", "-g", "g", "-o", "1"), 2),
        (("consume", "t", "-f", "%x"), 2),
        (("consume", "t", "-f", "50%"), 2),
        (("consume", "t", "-f", "{topic:hex}"), 2),
        (("consume", "t", "-o", "tomorrow"), 2),
        (("consume", "t", "-f", "{nothing}"), 2),
        (("consume", "t:x"), 2),
    ],
)
def test_what_cannot_be_is_refused(broker: Process, words: tuple[str, ...], exit_code: int) -> None:
    assert told(*words, "-b", broker.ready).returncode == exit_code
