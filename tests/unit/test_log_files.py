"""``kafkalite log dump`` and ``verify``: segments on the disk, seen from outside."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.harness.process import PATIENCE_S, Processes
from tests.unit.test_command_line import told

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def data_dir(processes: Processes, tmp_path: Path) -> Path:
    """A directory with a topic of one batch for each codec, its broker stopped."""
    process = processes.serve("--topic", "t:1", "--topic", "empty", data_dir=tmp_path / "data")
    for codec in CODECS:
        keys = {"bootstrap.servers": process.ready, "compression.type": codec, "linger.ms": 100}
        producer = Producer(keys | {"enable.idempotence": True})
        for value in (b"first " * 20, None, b"\xff"):
            producer.produce("t", value, b"k", headers=[("h", codec.encode())])
        assert producer.flush(PATIENCE_S) == 0
    assert process.end() == 0
    return tmp_path / "data"


def test_dump_tells_batches_and_records(data_dir: Path) -> None:
    done = told("log", "dump", str(data_dir / "t-0"), "--json")
    batches = [json.loads(line) for line in done.stdout.splitlines()]
    records = [record for batch in batches for record in batch["records"]]
    assert (done.returncode, done.stderr) == (0, "")
    assert [record["offset"] for record in records] == list(range(15))
    assert records[0]["value"] == "first " * 20
    assert records[1]["value"] is None
    assert records[2]["value_base64"] == "/w=="
    assert records[3]["headers"] == [{"name": "h", "value": "gzip"}]
    assert {batch["codec"] for batch in batches} == set(CODECS)
    assert all(batch["flaw"] is None and batch["producer_id"] >= 0 for batch in batches)


def test_dump_begins_and_ends_at_the_given_places(data_dir: Path) -> None:
    words = ["log", "dump", str(data_dir / "t-0"), "--offset", "7", "-n", "1", "--no-records"]
    batch = json.loads(told(*words, "--json").stdout)
    assert batch["base_offset"] <= 7 <= batch["last_offset"]
    assert "records" not in batch
    lines = told("log", "dump", str(data_dir / "t-0")).stdout.splitlines()
    assert any(line.endswith("k: null  h=none") for line in lines)


def test_dump_tells_the_entries_of_indexes(processes: Processes, tmp_path: Path) -> None:
    words = ("--topic", "t:1", "--set", "log.index.interval.bytes=1")
    process = processes.serve(*words, data_dir=tmp_path / "data")
    producer = Producer({"bootstrap.servers": process.ready})
    for number in range(4):
        producer.produce("t", b"v", timestamp=1_700_000_000_000 + number)
        assert producer.flush(PATIENCE_S) == 0
    assert process.end() == 0
    (log,) = (tmp_path / "data/t-0").glob("*.log")
    dumped = told("log", "dump", str(log), "--json", "--no-records").stdout
    batches = [json.loads(line) for line in dumped.splitlines()]
    found = json.loads(told("log", "dump", str(log.with_suffix(".index")), "--json").stdout)
    # The first batch needs none: it is where the segment begins.
    assert found == [
        {"offset": batch["last_offset"], "position": batch["position"]} for batch in batches[1:]
    ]
    times = told("log", "dump", str(log.with_suffix(".timeindex")), "--offset", "3").stdout
    assert times.split() == ["offset", "timestamp", "ms", "3", "1700000000003"]


def test_dump_tells_what_records_say_of_groups(processes: Processes, tmp_path: Path) -> None:
    process = processes.serve(
        "--topic", "t:1", "--set", "offsets.topic.num.partitions=1", data_dir=tmp_path / "data"
    )
    settings = {
        "bootstrap.servers": process.ready,
        "group.id": "g",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.subscribe(["t"])
    producer = Producer({"bootstrap.servers": process.ready})
    producer.produce("t", b"v")
    assert consumer.poll(PATIENCE_S) is not None
    consumer.commit(offsets=[TopicPartition("t", 0, 1, "done")], asynchronous=False)
    consumer.close()
    assert process.end() == 0
    place = str(tmp_path / "data/__consumer_offsets-0")
    batches = map(json.loads, told("log", "dump", place, "--json").stdout.splitlines())
    records = [record["decoded"] for batch in batches for record in batch["records"]]
    (joined, *_) = [one for one in records if one["kind"] == "group" and one["members"]]
    assert (joined["group"], joined["protocol_type"]) == ("g", "consumer")
    assert [(one["topics"], one["assignment"]) for one in joined["members"]] == [
        (["t"], [["t", 0]])
    ]
    (committed, *_) = [one for one in records if one["kind"] == "offset"]
    assert (committed["group"], committed["topic"], committed["partition"]) == ("g", "t", 0)
    # confluent-kafka ends metadata with a zero.
    assert (committed["offset"], committed["metadata"]) == (1, "done\0")
    lines = told("log", "dump", place).stdout
    assert "offset of g for t-0: 1" in lines
    assert " reads t  has t-0" in lines
    assert "offset of g" not in told("log", "dump", place, "--decode", "none").stdout


def test_verify_finds_a_sound_directory_sound(data_dir: Path) -> None:
    done = told("log", "verify", str(data_dir), "--json")
    rows = {row["partition"]: row for row in json.loads(done.stdout)}
    assert (done.returncode, done.stderr) == (0, "")
    assert (rows["t-0"]["records"], rows["t-0"]["log_end_offset"]) == (15, 15)
    assert rows["empty-0"]["records"] == 0
    assert all(row["sound"] for row in rows.values())


def test_verify_tells_what_is_damaged_and_exits_with_4(data_dir: Path) -> None:
    (segment,) = (data_dir / "t-0").glob("*.log")
    damaged = bytearray(segment.read_bytes())
    damaged[65] ^= 0xFF
    segment.write_bytes(damaged)
    done = told("log", "verify", str(data_dir))
    assert done.returncode == 4
    error, why, hint = done.stderr.splitlines()
    assert error == "error: 1 of 2 partitions are damaged"
    assert why.startswith("  t-0: 00000000000000000000.log: position 0: ")
    assert hint.startswith("hint: `kafkalite log dump`")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert {row[0]: row[-1] for row in rows} == {
        "partition": "sound",
        "empty-0": "yes",
        "t-0": "no",
    }
    dumped = told("log", "dump", str(segment)).stdout
    assert "DAMAGED: " in dumped


def test_a_place_without_segments_is_refused(tmp_path: Path) -> None:
    done = told("log", "dump", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.splitlines()[0].startswith("error: cannot read the log")
    assert told("log", "dump", str(tmp_path / "missing")).returncode == 2


def peak_mib(*words: str, within_s: float = PATIENCE_S) -> tuple[float, int, str]:
    """The most memory that a command held, its exit code, and what it said on stderr."""
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(
            [sys.executable, "-m", "kafkalite", *words], stdout=subprocess.DEVNULL, stderr=said
        )
        handle = os.pidfd_open(child.pid)
        try:
            ended = select.select([handle], [], [], within_s)[0]
            if not ended:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
        # Not `Popen.wait`: it does not tell what the process used.
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert ended, f"{words} does not end within {within_s} s"
        said.seek(0)
        return usage.ru_maxrss / 1024, child.returncode, said.read()


@pytest.mark.parametrize("name", ["log", "index", "timeindex"])
def test_a_fifo_is_refused(data_dir: Path, name: str) -> None:
    """It was opened as a file, which waits for a writer without end."""
    partition = data_dir / "t-0"
    file = next(partition.glob("*.log")).with_suffix(f".{name}")
    file.unlink()
    os.mkfifo(file)
    commands = [("verify", partition), ("dump", file)]
    if name == "log":
        commands.append(("dump", partition))
    for command, path in commands:
        _, code, said = peak_mib("log", command, str(path))
        assert code == 1
        assert said.startswith("error: cannot read the log\n"), said


def test_a_fifo_in_the_place_of_leader_epochs_is_an_error(data_dir: Path) -> None:
    file = data_dir / "t-0" / "leader-epoch-checkpoint"
    file.unlink()
    os.mkfifo(file)
    _, code, said = peak_mib("log", "verify", str(data_dir / "t-0"))
    assert code == 4
    assert "not a regular file" in said


def test_what_a_sparse_file_claims_is_not_taken_into_memory(data_dir: Path) -> None:
    """A header that claims 2 GB took 2 GB, and an index of 60 GB was read whole."""
    log = next((data_dir / "t-0").glob("*.log"))
    header = bytearray(log.read_bytes()[:61])
    usual, code, _ = peak_mib("log", "verify", str(data_dir / "t-0"))
    assert code == 0
    header[8:12] = (2_000_000_000 - 12).to_bytes(4, "big")
    with log.open("r+b") as file:
        file.truncate(2_000_000_000)
        file.write(header)
    for name in ("index", "timeindex"):
        with log.with_suffix(f".{name}").open("r+b") as file:
            file.truncate(60 << 30)
    with (log.parent / "leader-epoch-checkpoint").open("r+b") as file:
        file.truncate(60 << 30)
    assert "too large: its records are not shown" in told("log", "dump", str(log)).stdout
    for words in (["verify", log.parent], ["dump", log], ["dump", log.with_suffix(".index")]):
        peak, code, said = peak_mib("log", *map(str, words), within_s=4 * PATIENCE_S)
        assert peak < usual + 150, (words, peak, usual)
        assert code == (4 if words[0] == "verify" else 0), said
