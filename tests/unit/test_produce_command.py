"""``kafkalite produce``: lines to records, and back by ``consume``."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tests.harness.process import PATIENCE_S, Process
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
    done = produced(broker, topic, text, "--json", "-p", "0")
    assert json.loads(done.stdout)["records"] == 3
    lines = [json.loads(line) for line in consumed(broker, topic, "--json").stdout.splitlines()]
    assert [line["offset"] for line in lines] == [0, 1, 2]
    assert (lines[0]["key"], lines[0]["value"]) == ("k", "v")
    assert lines[0]["timestamp_ms"] == now_ms
    assert (lines[1]["key_base64"], lines[1]["value"]) == ("/w==", None)
    assert lines[1]["headers"] == [{"name": "h", "value": "x"}]
    assert json.loads(lines[2]["value"]) == {"deep": [1, "ü"]}
    assert lines[2]["headers"] == [{"name": "a", "value": "b"}, {"name": "none", "value": None}]
    copied = produced(broker, topic, json.dumps(lines[0]) + "\n", "--json", "-p", "1")
    assert copied.returncode == 0


def test_a_line_that_is_no_record_is_told(broker: Process, topic: str) -> None:
    for line in ("nonsense", "[]", '{"vlaue": "v"}'):
        done = produced(broker, topic, f'{{"value": "v"}}\n{line}\n', "--json")
        assert done.returncode == 2
        assert done.stderr.startswith("error: line 2 is no record: ")


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("produce", "t", "-X", "lingerms=1"), 2),
        (("produce", "t", "-H", "name"), 2),
        (("produce", "t", "--file", "missing"), 2),
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
