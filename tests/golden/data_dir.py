"""Makes ``data_dir_v0_1.tar.gz``, and says what a client sees of a broker that serves it.

The archive holds what the last commit before metadata had a schema (ea79863) left on the disk:
``stopped`` after a clean stop, ``killed`` after some more work and kill -9. Beside it
``data_dir_v0_1.json`` says what a client saw just before, and which batches were sent that a
broker must recognise when they come again.

Run with the package of the commit whose bytes are wanted; it overwrites both files:

    python -m tests.golden.data_dir
"""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafkalite as kl
from tests.harness.patience import eventually
from tests.harness.process import Process, Processes
from tests.harness.requests import join, producer, sync
from tests.harness.session import BASE_MS, Session
from tests.harness.wire.batches import Batch, Record

GOLDEN = Path(__file__).parent
ARCHIVE = GOLDEN / "data_dir_v0_1.tar.gz"
SEEN = GOLDEN / "data_dir_v0_1.json"

#: The log directories of the broker, side by side.
DIRS = ("one", "two")

#: Nothing may vanish because time goes by between the capture and a test.
SETTINGS = {
    "log.retention.ms": "-1",
    "offsets.retention.minutes": "2147483647",
    "log.message.timestamp.after.max.ms": str(2**62),
    "log.cleaner.enable": "false",
    "offsets.topic.num.partitions": "3",
    "group.max.session.timeout.ms": "2147483647",
    "group.initial.rebalance.delay.ms": "0",
}

#: 2100-01-01: a producer that was heard of then is not forgotten before.
LATER_MS = 4_102_444_800_000

#: Large enough for several segments of a topic with the least ``segment.bytes``, yet small packed.
LARGE = bytes(400_000)

TOPIC, BROKER = 2, 4
SET = 0

#: The last batch of each idempotent producer by its id, and the offset it was given.
Sent = dict[str, dict[str, Any]]


def serve(processes: Processes, directory: Path, **more: str) -> Process:
    """A broker over the two log directories in ``directory``."""
    dirs = ",".join(str(directory / name) for name in DIRS)
    settings = {"log.dirs": dirs, **SETTINGS, **{k.replace("_", "."): v for k, v in more.items()}}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    common = ["serve", "--listen", "127.0.0.1:0", "--admin-port", "0"]
    running = processes.start(*common, *words).wait_ready()
    session = Session(running.ready, "ready")
    session.call("FindCoordinator", 2, Key="any", KeyType=0)
    eventually(
        lambda: not session.call("DescribeGroups", 0, Groups=["any"])["Groups"][0]["ErrorCode"]
    )
    session.close()
    return running


# What is kept


def fill(s: Session, sent: Sent) -> None:
    """Topics of every kind, groups, configs; ``sent`` gets the idempotent batches."""
    _make(s, "plain", 3)
    for partition in range(3):
        s.fill("plain", count=2 + partition, partition=partition)
    _make(s, "empty", 8)
    _make(s, "segments", 1, segment_bytes=str(1 << 20), index_interval_bytes="1000")
    for number in range(6):
        _send(s, "segments", Batch((Record(LARGE, b"%d" % number),), BASE_MS + number))
    _make(s, "odd", 2, message_timestamp_type="LogAppendTime", max_message_bytes="2000000")
    headers = (("", b""), ("twice", b"1"), ("twice", None), ("ключ", "значение".encode()))
    odd = (Record(None, b"tombstone"), Record(b"", b""), Record("ü".encode(), None, headers))
    _send(s, "odd", Batch(odd), partition=1)
    _make(s, "codecs", 4)
    for partition, codec in enumerate(("gzip", "snappy", "lz4", "zstd")):
        config = {"bootstrap.servers": s.address, "compression.type": codec}
        with kl.Producer(config=config, enable_idempotence=False) as client:
            for number in range(20):
                value = b"the same again and again " * 5
                client.send("codecs", value, key=b"%d" % number, partition=partition,
                            timestamp_ms=BASE_MS + number)  # fmt: skip
            client.flush()
    _make(s, "trimmed", 1)
    s.fill("trimmed", 4)
    _delete_records(s, "trimmed", 5)
    _compact(s)
    _make(s, "grown", 1)
    s.fill("grown", 1)
    _grow(s, "grown", 3)
    _make(s, "sequences", 1)
    for number, count in enumerate((1, 2, 3)):
        pid, epoch = producer(s)
        for sequence in range(number + 3):
            _send_once(s, sent, pid, epoch, sequence * count, count)
    _make(s, "gone", 2, retention_ms="1000000000000")
    _make(s, "again", 4, cleanup_policy="delete")
    for name in ("gone", "again"):
        s.fill(name, 2)
    _commit(s, "readers", {("plain", 0): 3, ("plain", 2): 0, ("gone", 1): 0, ("again", 0): 2})
    _commit(s, "made-again", {("plain", 1): 1})
    _delete(s, "gone", "again")
    _make(s, "again", 2, segment_ms="1000000")
    s.fill("again", 1, partition=1)
    s.call("DeleteGroups", 2, GroupsNames=["made-again"])
    _commit(s, "made-again", {("again", 1): 2})
    _member(s, "members")
    _alter(s, BROKER, str(s.broker_id()), "message.max.bytes", "2000000")
    _alter(s, BROKER, "", "log.cleaner.threads", "2")
    _alter(s, TOPIC, "plain", "max.message.bytes", "500000")
    _alter(s, TOPIC, "plain", "retention.bytes", "1000000000")


def fill_more(s: Session, sent: Sent) -> None:
    """After a restart, in another leader epoch."""
    s.fill("plain", 1)
    pid, epoch = producer(s)
    _send_once(s, sent, pid, epoch, 0, 2)
    _commit(s, "readers", {("plain", 1): 4})


def fill_last(s: Session, sent: Sent) -> None:
    """Before the kill: among others so much metadata that the broker writes a snapshot."""
    s.fill("plain", 2, partition=2)
    name = "follower.replication.throttled.replicas"
    _make(s, "snapshot", 1)
    for number in range(40):
        _alter(s, TOPIC, "snapshot", name, ",".join([f"{number}:1"] * 6_000))
    _alter(s, TOPIC, "snapshot", name, "1:1")
    _make(s, "last", 2, retention_ms="2000000000000")
    s.fill("last", 1)
    pid, epoch = producer(s)
    _send_once(s, sent, pid, epoch, 0, 1)
    _commit(s, "readers", {("plain", 1): 5})
    _commit(s, "late", {("last", 0): 1})
    _make(s, "gone", 1)
    s.fill("gone", 1)
    _delete(s, "gone")


def _make(s: Session, name: str, partitions: int, **config: str) -> None:
    created = s.create(name, partitions, **config)
    assert created["ErrorCode"] == 0, created
    eventually(lambda: s.leaders(name) == partitions)


def _send(s: Session, topic: str, batch: Batch, partition: int = 0) -> dict[str, Any]:
    answer = s.produce(topic, batch.encode(), partition=partition)
    assert answer["ErrorCode"] == 0, answer
    return answer


def _send_once(s: Session, sent: Sent, pid: int, epoch: int, sequence: int, count: int) -> None:
    records = tuple(Record(b"%d" % (sequence + place)) for place in range(count))
    fields: dict[str, Any] = {
        "producer_id": pid,
        "producer_epoch": epoch,
        "base_sequence": sequence,
    }
    batch = Batch(records, base_timestamp_ms=LATER_MS, **fields)
    offset = _send(s, "sequences", batch)["BaseOffset"]
    sent[str(pid)] = {"batch": batch.encode().hex(), "base_offset": offset}


def _delete_records(s: Session, topic: str, offset: int) -> None:
    asked = [{"Name": topic, "Partitions": [{"PartitionIndex": 0, "Offset": offset}]}]
    answer = s.call("DeleteRecords", 2, Topics=asked, TimeoutMs=30_000)
    assert answer["Topics"][0]["Partitions"][0]["ErrorCode"] == 0, answer


def _compact(s: Session) -> None:
    """A topic whose older segments were compacted: offsets with gaps, and a tombstone."""
    config = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}
    _make(s, "compacted", 1, segment_bytes=str(1 << 20), **config)
    for number in range(9):
        key = b"%d" % (number % 3)
        value = None if number == 7 else LARGE
        _send(s, "compacted", Batch((Record(value, key),), BASE_MS + number))
    eventually(lambda: _first_batch(s, "compacted") > 0)


def _first_batch(s: Session, topic: str) -> int:
    records = s.fetch(topic, 0)["Responses"][0]["Partitions"][0]["Records"]
    return int.from_bytes(records[:8], "big")


def _delete(s: Session, *names: str) -> None:
    asked = [{"Name": name} for name in names]
    answer = s.call("DeleteTopics", 6, Topics=asked, TimeoutMs=30_000)
    assert not any(one["ErrorCode"] for one in answer["Responses"]), answer


def _grow(s: Session, topic: str, count: int) -> None:
    asked = [{"Name": topic, "Count": count, "Assignments": None}]
    answer = s.call("CreatePartitions", 3, Topics=asked, TimeoutMs=30_000)
    assert answer["Results"][0]["ErrorCode"] == 0, answer


def _commit(s: Session, group: str, offsets: dict[tuple[str, int], int]) -> None:
    for (topic, partition), offset in offsets.items():
        part = {"PartitionIndex": partition, "CommittedOffset": offset,
                "CommittedLeaderEpoch": 0, "CommittedMetadata": f"at {offset}"}  # fmt: skip
        topics = [{"Name": topic, "Partitions": [part]}]
        answer = s.call("OffsetCommit", 8, GroupId=group, MemberId="",
                        GenerationIdOrMemberEpoch=-1, Topics=topics)  # fmt: skip
        assert answer["Topics"][0]["Partitions"][0]["ErrorCode"] == 0, answer


def _member(s: Session, group: str) -> None:
    """A group with a static member that has its share, and stays for weeks."""
    joined = join(s, group, instance="static", timeout_ms=2_000_000_000)
    member = joined["MemberId"]
    if joined["ErrorCode"] == 79:
        joined = join(s, group, member, instance="static", timeout_ms=2_000_000_000)
    assert joined["ErrorCode"] == 0, joined
    sync(s, group, member, joined["GenerationId"], assign={member: b"share"})


def _alter(s: Session, kind: int, name: str, key: str, value: str) -> None:
    configs = [{"Name": key, "ConfigOperation": SET, "Value": value}]
    asked = [{"ResourceType": kind, "ResourceName": name, "Configs": configs}]
    answer = s.call("IncrementalAlterConfigs", 1, Resources=asked)
    assert answer["Responses"][0]["ErrorCode"] == 0, answer


# What a client sees


def observe(address: str, restarts: int = 0) -> dict[str, Any]:
    """All that a client is told; the same again so many ``restarts`` of the broker later.

    Each start raises the leader epoch of every partition by one, and is taken away again here.
    """
    s = Session(address, "observer")
    metadata = s.call("Metadata", 12, Topics=None)
    (broker,) = metadata["Brokers"]
    names = sorted(topic["Name"] for topic in metadata["Topics"])
    seen = {
        "cluster_id": metadata["ClusterId"],
        "broker_configs": {who: _configs(s, BROKER, who) for who in (str(broker["NodeId"]), "")},
        "topics": {name: _topic(s, name, restarts) for name in names},
        "groups": _groups(s),
        "directories": _directories(s),
    }
    s.close()
    # As JSON gives it back: lists for tuples, texts for keys.
    same: dict[str, Any] = json.loads(json.dumps(seen))
    return same


def _configs(s: Session, kind: int, name: str) -> dict[str, str]:
    """What was set at run time on a resource."""
    asked = [{"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": None}]
    answer = s.call("DescribeConfigs", 4, Resources=asked, IncludeSynonyms=False)
    (result,) = answer["Results"]
    at_run_time = (1, 2, 3, 8)
    found = [one for one in result["Configs"] if one["ConfigSource"] in at_run_time]
    return {one["Name"]: one["Value"] for one in sorted(found, key=lambda one: one["Name"])}


def _topic(s: Session, name: str, restarts: int) -> dict[str, Any]:
    metadata = s.metadata(name)
    listed = sorted(metadata["Partitions"], key=lambda one: one["PartitionIndex"])
    partitions = []
    for one in listed:
        epoch = one["LeaderEpoch"] - restarts
        seen = {
            "leader": [one["LeaderId"], epoch],
            "replicas": [one["ReplicaNodes"], one["IsrNodes"], one["OfflineReplicas"]],
        }
        # What the groups' topic holds is seen by looking at the groups.
        if not metadata["IsInternal"]:
            seen |= _partition(s, name, one["PartitionIndex"], epoch)
        partitions.append(seen)
    return {
        "id": str(metadata["TopicId"]),
        "internal": metadata["IsInternal"],
        "configs": _configs(s, TOPIC, name),
        "partitions": partitions,
    }


def _partition(s: Session, topic: str, index: int, leader_epoch: int) -> dict[str, Any]:
    offsets = {}
    for timestamp in (-1, -2, -3, BASE_MS + 3_000, LATER_MS):
        asked = [{"PartitionIndex": index, "Timestamp": timestamp}]
        answer = s.call("ListOffsets", 7, ReplicaId=-1,
                        Topics=[{"Name": topic, "Partitions": asked}])  # fmt: skip
        (one,) = answer["Topics"][0]["Partitions"]
        offsets[str(timestamp)] = [one["ErrorCode"], one["Offset"], one["Timestamp"]]
    named = [{"Name": topic, "PartitionIndexes": [index]}]
    answer = s.call("DescribeProducers", 0, Topics=named)
    producers = answer["Topics"][0]["Partitions"][0]["ActiveProducers"]
    first, end = offsets["-2"][1], offsets["-1"][1]
    epochs = [_epoch_end(s, topic, index, epoch) for epoch in range(leader_epoch)]
    return {
        "offsets": offsets,
        "producers": sorted(producers, key=lambda one: one["ProducerId"]),
        "epoch_ends": epochs,
        "records": list(_records(s.address, topic, index, first, end)),
        "bytes": _digest(b"".join(_batches(s, topic, index, first, end))),
    }


def _epoch_end(s: Session, topic: str, index: int, epoch: int) -> list[int]:
    part = {"Partition": index, "LeaderEpoch": epoch, "CurrentLeaderEpoch": -1}
    asked = [{"Topic": topic, "Partitions": [part]}]
    answer = s.call("OffsetForLeaderEpoch", 4, ReplicaId=-1, Topics=asked)
    (one,) = answer["Topics"][0]["Partitions"]
    return [one["LeaderEpoch"], one["EndOffset"]]


def _batches(s: Session, topic: str, index: int, first: int, end: int) -> Iterator[bytes]:
    """The batches of a partition as they go over the wire."""
    while first < end:
        part = {"PartitionMaxBytes": 1}
        answer = s.fetch(topic, first, partition=index, part=part, MaxBytes=1)
        data = answer["Responses"][0]["Partitions"][0]["Records"]
        length = 12 + int.from_bytes(data[8:12], "big")
        yield data[:length]
        first = int.from_bytes(data[:8], "big") + int.from_bytes(data[23:27], "big") + 1


def _records(address: str, topic: str, index: int, first: int, end: int) -> Iterator[list[Any]]:
    """Offset, time, key, value and headers of every record."""
    with kl.Consumer(bootstrap_servers=address, auto_offset_reset="none") as consumer:
        consumer.assign([kl.TopicPartition(topic, index)])
        consumer.seek((topic, index), first)
        while consumer.position((topic, index)) < end:
            for one in consumer.consume(100, timeout=1.0):
                kind = one.timestamp_type
                headers = [[name, _text(value)] for name, value in one.headers]
                yield [one.offset, one.timestamp_ms, kind, one.leader_epoch, _text(one.key),
                       _text(one.value), headers]  # fmt: skip


def _text(data: bytes | None) -> str | None:
    """Bytes for JSON; long ones by their digest."""
    if data is None:
        return None
    return data.decode("latin-1") if len(data) < 200 else _digest(data)


def _digest(data: bytes) -> str:
    return f"{len(data)} bytes {hashlib.sha256(data).hexdigest()[:16]}"


def _groups(s: Session) -> dict[str, Any]:
    listed = s.call("ListGroups", 4, StatesFilter=[])["Groups"]
    found = {}
    for group in sorted(one["GroupId"] for one in listed):
        (described,) = s.call("DescribeGroups", 5, Groups=[group])["Groups"]
        asked = [{"GroupId": group, "Topics": None}]
        (committed,) = s.call("OffsetFetch", 8, Groups=asked)["Groups"]
        offsets = {
            f"{topic['Name']}-{part['PartitionIndex']}": [
                part["CommittedOffset"],
                part["CommittedLeaderEpoch"],
                part["Metadata"],
            ]
            for topic in committed["Topics"]
            for part in topic["Partitions"]
        }
        members = [
            [one["GroupInstanceId"], one["MemberId"], one["MemberAssignment"].decode("latin-1")]
            for one in described["Members"]
        ]
        found[group] = {
            "state": described["GroupState"],
            "protocol": [described["ProtocolType"], described["ProtocolData"]],
            "members": members,
            "offsets": dict(sorted(offsets.items())),
        }
    return found


def _directories(s: Session) -> dict[str, list[str]]:
    """Which partitions each log directory has."""
    results = s.call("DescribeLogDirs", 4, Topics=None)["Results"]
    return {
        Path(one["LogDir"]).name: sorted(
            f"{topic['Name']}-{part['PartitionIndex']}"
            for topic in one["Topics"]
            for part in topic["Partitions"]
        )
        for one in sorted(results, key=lambda one: str(one["LogDir"]))
    }


# The capture


def capture(processes: Processes, work: Path) -> dict[str, Any]:
    """Fill, stop, copy; fill, kill, copy. Returns what was seen before each."""
    data = work / "data"
    sent: Sent = {}
    seen: dict[str, Any] = {}
    steps = [
        (fill, "", signal.SIGTERM, {"log_cleaner_enable": "true", "log_cleaner_backoff_ms": "100"}),
        (fill_more, "stopped", signal.SIGTERM, {}),
        (fill_last, "killed", signal.SIGKILL, {}),
    ]
    for step, name, number, settings in steps:
        running = serve(processes, data, **settings)
        session = Session(running.ready, "capture")
        step(session, sent)
        session.close()
        if name:
            seen[name] = {**observe(running.ready), "sent": dict(sent)}
        running.end(number)
        if name:
            shutil.copytree(data, work / "archive" / name)
    return seen


def main() -> None:
    """Make the archive and what was seen."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        processes = Processes(work)
        try:
            seen = capture(processes, work)
        finally:
            processes.close()
        pack = ["tar", "--sparse", "--sort=name", "--mtime=@0", "--owner=0", "--group=0"]
        pack += ["--numeric-owner", "-C", str(work / "archive"), "-cf", "-", *seen]
        whole = subprocess.run(pack, check=True, capture_output=True).stdout
        packed = subprocess.run(["gzip", "-9n"], check=True, input=whole, capture_output=True)
        ARCHIVE.write_bytes(packed.stdout)
        SEEN.write_text(json.dumps(seen, indent=1, ensure_ascii=False) + "\n")
        print(f"{ARCHIVE.name}: {len(packed.stdout)} bytes; {SEEN.name}: {SEEN.stat().st_size}")


if __name__ == "__main__":
    main()
