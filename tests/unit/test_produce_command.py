"""``kafkalite produce``: lines to records, and back by ``consume``."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tests.harness.process import PATIENCE_S, Process, Processes
from tests.unit.test_command_line import told


@pytest.fixture
def topic(broker: Process) -> str:
    """A topic of two partitions."""
    name = f"lines-{uuid.uuid4().hex[:8]}"
    assert told("topics", "create", name, "-p", "2", "-b", broker.ready).returncode == 0
    return name


def produced(
    broker: Process, topic: str, text: str, *words: str
) -> subprocess.CompletedProcess[str]:
    """What ``produce`` says when these lines stand on its stdin."""
    command = [sys.executable, "-m", "kafkalite", "produce", topic, *words, "-b", broker.ready]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE_S)


def consumed(broker: Process, *words: str) -> subprocess.CompletedProcess[str]:
    """What ``consume`` says up to the end of the topic."""
    return told("consume", *words, "--from-beginning", "-e", "-b", broker.ready)


def test_lines_become_records_and_lines_again(broker: Process, topic: str) -> None:
    done = produced(broker, topic, "one\ntwo\n\nlast without newline", "-p", "0")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(f"4 records sent to {topic} in ")
    again = consumed(broker, topic)
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == "one\ntwo\n\nlast without newline\n"


def test_a_file_is_sent_and_read_as_bytes(broker: Process, topic: str, tmp_path: Path) -> None:
    content = b"".join(b"%d \xff\n" % number for number in range(30_000))
    (tmp_path / "lines").write_bytes(content)
    words = ["--file", str(tmp_path / "lines"), "-p", "1", "-b", broker.ready]
    assert told("produce", topic, *words).returncode == 0
    command = [sys.executable, "-m", "kafkalite", "consume", topic, "--from-beginning", "-e"]
    done = subprocess.run([*command, "-b", broker.ready], capture_output=True, timeout=PATIENCE_S)
    assert done.stdout == content


def test_keys_headers_and_formats(broker: Process, topic: str) -> None:
    words = ("-K", "\\t", "-k", "none", "-H", "h=1", "-H", "g=2", "-p", "0")
    assert produced(broker, topic, "k\tv\nplain\n", *words).returncode == 0
    shape = "{topic} {partition} {offset} {key}={value} {headers}\\n"
    assert consumed(broker, topic, "-f", shape).stdout == (
        f"{topic} 0 0 k=v h=1,g=2\n{topic} 0 1 none=plain h=1,g=2\n"
    )


def test_json_goes_round(broker: Process, topic: str) -> None:
    now_ms = time.time_ns() // 1_000_000 - 5_000
    given = [
        {"key": "k", "value": "v", "timestamp_ms": now_ms},
        {"key_base64": "/w==", "value": None, "headers": [{"name": "h", "value": "x"}]},
        {"value": {"deep": [1, "ü"]}, "headers": {"a": "b", "none": None}},
    ]
    text = "".join(json.dumps(line) + "\n" for line in given)
    done = produced(broker, topic, text, "--input", "jsonl", "--json", "-p", "0")
    assert json.loads(done.stdout)["records"] == 3
    lines = [json.loads(line) for line in consumed(broker, topic, "--json").stdout.splitlines()]
    assert [line["offset"] for line in lines] == [0, 1, 2]
    assert (lines[0]["key"], lines[0]["value"]) == ("k", "v")
    assert lines[0]["timestamp_ms"] == now_ms
    assert (lines[1]["key_base64"], lines[1]["value"]) == ("/w==", None)
    assert lines[1]["headers"] == [{"name": "h", "value": "x"}]
    assert json.loads(lines[2]["value"]) == {"deep": [1, "ü"]}
    assert lines[2]["headers"] == [{"name": "a", "value": "b"}, {"name": "none", "value": None}]
    copied = produced(broker, topic, json.dumps(lines[0]) + "\n", "--input", "jsonl", "-p", "1")
    assert copied.returncode == 0


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", "not JSON, expecting value at column 1"),
        ("[]", "a list instead of an object"),
        ('{"vlaue": "v"}', 'unknown member "vlaue"'),
        ('{"key": "k"}', '"value" is missing; null makes a tombstone'),
        ('{"value": 1, "value_base64": "MQ=="}', 'both "value" and "value_base64"'),
        ('{"value_base64": "?"}', '"value_base64" is not base64'),
        ('{"value": 1, "value": 2}', "it has a member twice"),
        ('{"value": [NaN]}', "not JSON, NaN is none of its numbers"),
        ('{"value": -Infinity}', "not JSON, -Infinity is none of its numbers"),
        (
            '{"value": 1, "headers": {"h": "a", "h": "b"}}',
            '"headers" has a name twice: a list of pairs may have it',
        ),
        ('{"value": 1, "headers": 5}', '"headers" is a number, not an object or a list of pairs'),
        ('{"value": 1, "headers": [[1, 2]]}', "the name of a header is a number, not a text"),
        (
            '{"value": 1, "timestamp_ms": "soon"}',
            '"timestamp_ms" is not in milliseconds since 1970',
        ),
    ],
)
def test_a_line_that_is_no_record_is_named_with_the_cause(
    broker: Process, topic: str, line: str, why: str
) -> None:
    done = produced(broker, topic, f'{{"value": "v"}}\n{line}\n', "--input", "jsonl")
    assert done.returncode == 2
    error, hint = done.stderr.splitlines()
    assert error == f"error: line 2 is not a record: {why}"
    assert hint.startswith('hint: a record is written as {"key": "k"')


def test_headers_are_read_as_an_object_as_pairs_and_as_consume_writes_them(
    broker: Process, topic: str
) -> None:
    given = [{"a": "1"}, [["a", "1"], ["a", None]], [{"name": "a", "value_base64": "MQ=="}]]
    text = "".join(json.dumps({"value": "v", "headers": headers}) + "\n" for headers in given)
    assert produced(broker, topic, text, "--input", "jsonl", "-p", "0").returncode == 0
    assert consumed(broker, topic, "-f", "{headers}\\n").stdout == "a=1\na=1,a=\na=1\n"


_WRITTEN = [
    "12345678901234567890.123",
    "1e400",
    "1.10",
    "-0.0",
    '{"id": 12345678901234567890.123, "a": 1e400, "a" :[1.0,{"b":"\\u00e9, ]}"}] }',
    "true",
    "[]",
]


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_a_value_that_is_no_text_is_sent_as_it_was_written(
    broker: Process, topic: str, form: str
) -> None:
    """12345678901234567890.123 became 1.2345678901234567e+19, and 1e400 Infinity."""
    records = [
        f' {{"value" : {text} , "key":{text},"headers":{{"h": {text}}}}} ' for text in _WRITTEN
    ]
    records += [f'{{"headers":[["h",{text}]],"key":{text},"value":{text}}}' for text in _WRITTEN]
    records += [
        f'{{"value":{text},"headers":[{{"name":"h","value":{text}}}],"key":{text}}}'
        for text in _WRITTEN
    ]
    text = "[" + ",\n ".join(records) + " ] \n" if form == "json" else "\n".join(records)
    done = produced(broker, topic, text, "--input", form, "-p", "0")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in consumed(broker, topic, "--json").stdout.splitlines()]
    expected = _WRITTEN * 3
    assert [line["value"] for line in lines] == expected
    assert [line["key"] for line in lines] == expected
    assert [line["headers"] for line in lines] == [[{"name": "h", "value": v}] for v in expected]


def test_a_header_may_be_given_twice(broker: Process, topic: str) -> None:
    """The first of the two was dropped."""
    words = ("-H", "a=1", "-H", "a=2", "-p", "0")
    assert produced(broker, topic, "v\n", *words).returncode == 0
    assert consumed(broker, topic, "-f", "{headers}\n").stdout == "a=1,a=2\n"


@pytest.mark.parametrize(
    ("document", "values"),
    [
        ('[{"value": "one"},\n {"value": "two"}]\n', "one\ntwo\n"),
        ('{"value":\n"alone"}', "alone\n"),
        ("[]", ""),
        ("", ""),
    ],
)
def test_a_json_document_is_one_record_or_a_list_of_records(
    broker: Process, topic: str, document: str, values: str
) -> None:
    assert produced(broker, topic, document, "--input", "json", "-p", "0").returncode == 0
    assert consumed(broker, topic).stdout == values


def test_a_record_of_a_json_document_is_named_by_its_number(broker: Process, topic: str) -> None:
    done = produced(broker, topic, '[{"value": "v"}, 5]', "--input", "json")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: record 2 is not a record: a number instead of an object\n"
    )


def test_json_is_the_form_of_the_answer_and_not_of_the_input(broker: Process, topic: str) -> None:
    done = produced(broker, topic, '{"value": "v"}\n', "--json", "-p", "0")
    told_of = json.loads(done.stdout)
    assert (told_of["topic"], told_of["records"], told_of["created"]) == (topic, 1, False)
    assert consumed(broker, topic).stdout == '{"value": "v"}\n'


def test_compression_is_that_of_the_batches(processes: Processes, tmp_path: Path) -> None:
    broker = processes.serve("--topic", "t", data_dir=tmp_path / "data")
    assert produced(broker, "t", "text\n", "--compression", "zstd").returncode == 0
    dumped = told("log", "dump", str(tmp_path / "data" / "t-0"), "--json").stdout
    assert json.loads(dumped)["codec"] == "zstd"


def test_a_topic_that_is_created_is_named_with_its_partitions(broker: Process) -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"
    first = produced(broker, name, "one\n")
    assert first.stderr.splitlines()[0] == f"created topic {name} with 1 partition"
    assert "created" not in produced(broker, name, "two\n").stderr


def test_no_record_creates_no_topic(broker: Process) -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"
    assert produced(broker, name, "").stderr.startswith(f"0 records sent to {name}")
    assert told("topics", "describe", name, "-b", broker.ready).returncode == 5


def test_a_partition_that_a_new_topic_would_not_have_creates_nothing(broker: Process) -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"
    done = produced(broker, name, "one\n", "-p", "99")
    assert (done.returncode, done.stderr) == (
        5,
        f"error: topic {name} has no partition 99\n"
        "  the topic would be created with 1 partition, numbered from 0\n"
        f"hint: `kafkalite topics create {name} -p 100` makes as many as that takes.\n",
    )
    assert told("topics", "describe", name, "-b", broker.ready).returncode == 5


def test_a_partition_that_a_topic_does_not_have_is_refused_at_once(
    broker: Process, topic: str
) -> None:
    done = produced(broker, topic, "one\n", "-p", "2")
    assert (done.returncode, done.stderr.splitlines()[:2]) == (
        5,
        [
            f"error: topic {topic} has no partition 2",
            "  the topic has 2 partitions, numbered from 0",
        ],
    )


def test_a_mistyped_topic_gets_a_hint_at_the_one_that_was_meant(processes: Processes) -> None:
    broker = processes.serve("--topic", "orders", "--set", "auto.create.topics.enable=false")
    done = produced(broker, "ordrs", "one\n")
    assert done.returncode == 5
    assert done.stderr.splitlines()[-1] == "hint: did you mean orders?"
    made = processes.serve("--topic", "orders")
    assert "did you mean orders?" in produced(made, "ordrs", "one\n").stderr


def typed(broker: Process, *words: str, text: str) -> str:
    """What a terminal shows on which ``produce`` is started, and this is typed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "kafkalite", "produce", *words, "-b", broker.ready]
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while b"Ctrl-D" not in shown:
            shown += os.read(ours, 1 << 16)
        # At the beginning of a line it ends the input.
        os.write(ours, text.encode() + b"\x04")
        while part := os.read(ours, 1 << 16):
            shown += part
    except OSError:
        pass  # Linux says so that the other end is closed.
    os.close(ours)
    assert child.wait(PATIENCE_S) == 0
    return shown.decode().replace("\r\n", "\n")


def test_on_a_terminal_there_is_a_prompt_and_no_bar_over_the_typing(
    broker: Process, topic: str
) -> None:
    shown = typed(broker, topic, "-p", "0", text="one\ntwo\n")
    assert shown.startswith(f"type records for {topic}, one a line; Ctrl-D ends\n")
    assert f"2 records sent to {topic} in " in shown
    assert "\x1b" not in shown
    assert consumed(broker, topic).stdout == "one\ntwo\n"


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("produce", "t", "-X", "lingerms=1"), 2),
        (("produce", "t", "-H", "name"), 2),
        (("produce", "t", "--file", "missing"), 2),
        (("produce", "t", "--input", "xml"), 2),
        (("produce", "t", "--input", "jsonl", "-K", ":"), 2),
        (("produce", "t", "--compression", "rar"), 2),
    ],
)
def test_what_cannot_be_is_refused(broker: Process, words: tuple[str, ...], exit_code: int) -> None:
    assert told(*words, "-b", broker.ready).returncode == exit_code


def test_a_long_line_takes_time_in_proportion(broker: Process, topic: str, tmp_path: Path) -> None:
    """Every read joined the line from its beginning: 64 MB took minutes and twice their memory."""
    path = tmp_path / "lines"
    with path.open("wb") as file:
        for _ in range(8):
            file.write(b"x" * (8 << 20))
        file.write(b"\nsmall\n")
    largest = f"max.request.size={100 << 20}"
    words = ["produce", topic, "--file", str(path), "-X", largest, "-b", broker.ready]
    done = told(*words, "-X", f"buffer.memory={200 << 20}")
    # The topic takes no record of that size: what is tested is the way to the producer.
    assert "RECORD_TOO_LARGE" in done.stderr or "MESSAGE_TOO_LARGE" in done.stderr, done.stderr


def test_a_line_without_an_end_is_refused(broker: Process, topic: str) -> None:
    """Its memory had no bound: `produce < /dev/zero` took all there is."""
    command = [sys.executable, "-m", "kafkalite", "produce", topic, "-b", broker.ready]
    with Path("/dev/zero").open("rb") as zeros:
        done = subprocess.run(
            command, stdin=zeros, capture_output=True, text=True, timeout=PATIENCE_S
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: line 1 has more than 16777216 bytes\n")


def test_bytes_that_are_no_text_are_keys_separators_and_formats(
    broker: Process, topic: str
) -> None:
    words = ("-K", "\\xff", "-p", "0", "-b", broker.ready)
    command = [sys.executable, "-m", "kafkalite", "produce", topic, *words]
    subprocess.run(command, input=b"k\xffv\n", check=True, capture_output=True, timeout=PATIENCE_S)
    assert consumed(broker, topic, "-f", "{key}\\u00fc{value}\\\\").stdout == "küv\\"
