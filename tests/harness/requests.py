"""Everyday requests of the tests: one call each, and what is asked of its answer."""

from __future__ import annotations

from typing import Any

from tests.harness.patience import eventually
from tests.harness.session import Session
from tests.harness.wire import batches
from tests.harness.wire.batches import Batch, Record

LOADING = 14

META = b"\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"


def join(
    s: Session,
    group: str,
    member: str = "",
    *,
    version: int = 5,
    protocols: tuple[str, ...] = ("range",),
    kind: str = "consumer",
    timeout_ms: int = 10_000,
    instance: str | None = None,
) -> dict[str, Any]:
    """One JoinGroup and its answer."""
    listed = [{"Name": name, "Metadata": META} for name in protocols]
    body: dict[str, Any] = {
        "GroupId": group,
        "SessionTimeoutMs": timeout_ms,
        "MemberId": member,
        "ProtocolType": kind,
        "Protocols": listed,
    }
    if version >= 1:
        body["RebalanceTimeoutMs"] = 10_000
    if version >= 5:
        body["GroupInstanceId"] = instance
    return s.call("JoinGroup", version, **body)


def member_of(s: Session, group: str, instance: str | None = None) -> tuple[str, int]:
    """A member that joined and synced a group of its own; its id and generation."""
    first = join(s, group, instance=instance)
    member = first["MemberId"]
    if first["ErrorCode"] == 79:
        first = join(s, group, member, instance=instance)
    generation = first["GenerationId"]
    sync(s, group, member, generation, assign={member: b"share"})
    return member, generation


def sync(
    s: Session,
    group: str,
    member: str,
    generation: int,
    *,
    assign: dict[str, bytes] | None = None,
    version: int = 3,
    **more: Any,
) -> dict[str, Any]:
    """One SyncGroup and its answer."""
    listed = [{"MemberId": m, "Assignment": a} for m, a in (assign or {}).items()]
    return s.call(
        "SyncGroup", version, GroupId=group, GenerationId=generation, MemberId=member,
        Assignments=listed, **more,
    )  # fmt: skip


def beat(s: Session, group: str, member: str, generation: int, **more: Any) -> int:
    """The error of one Heartbeat."""
    answer = s.call("Heartbeat", 3, GroupId=group, GenerationId=generation, MemberId=member, **more)
    return answer["ErrorCode"]


def commit(s: Session, group: str, topic: str, offset: int, **more: Any) -> Any:
    """OffsetCommit of one partition; the error of it."""
    part = {"PartitionIndex": more.pop("partition", 0), "CommittedOffset": offset}
    part["CommittedMetadata"] = more.pop("metadata", "note")
    asked = [{"Name": topic, "Partitions": [part]}]
    answer = s.call("OffsetCommit", more.pop("version", 8), GroupId=group, Topics=asked, **more)
    return answer["Topics"][0]["Partitions"][0]["ErrorCode"]


def committed(s: Session, group: str, topic: str | None, version: int = 7) -> Any:
    """OffsetFetch up to version 7; None asks for all topics."""
    asked = None if topic is None else [{"Name": topic, "PartitionIndexes": [0]}]
    answer = s.call("OffsetFetch", version, GroupId=group, Topics=asked)
    for one in answer["Topics"]:
        one.pop("Name")
    return answer


def create(s: Session, *topics: dict[str, Any], version: int = 7, validate: bool = False) -> Any:
    """CreateTopics; its answer without the list of configs."""
    filled = [{"NumPartitions": 1, "ReplicationFactor": 1, **one} for one in topics]
    answer = s.call("CreateTopics", version, Topics=filled, timeoutMs=10_000, validateOnly=validate)
    for one in answer["Topics"]:
        one.pop("Name")
        listed = [config["Name"] for config in one.get("Configs") or ()]
        # Keys of our own stand beside Kafka's; the cases that list all keys show them.
        one["Configs"] = len([key for key in listed if not key.startswith("kafkalite.")])
    return answer["Topics"]


def alter(
    s: Session, name: str, changes: list[tuple[str, int, str | None]], kind: int = 2, **body: Any
) -> int:
    """IncrementalAlterConfigs of one resource with (key, operation, value); its error."""
    configs = [{"Name": k, "ConfigOperation": op, "Value": value} for k, op, value in changes]
    asked = [{"ResourceType": kind, "ResourceName": name, "Configs": configs}]
    answer = s.call("IncrementalAlterConfigs", 1, Resources=asked, **body)
    return answer["Responses"][0]["ErrorCode"]


def described(s: Session, name: str, keys: list[str] | None, kind: int = 2, **body: Any) -> Any:
    """DescribeConfigs of one resource: error, and by name what is said of each key."""
    s.settle()
    asked = [{"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": keys}]
    (one,) = s.call("DescribeConfigs", 4, Resources=asked, **body)["Results"]
    return one["ErrorCode"], {config.pop("Name"): config for config in one["Configs"]}


def epoch_end(s: Session, topic: str, epoch: int, version: int = 4, current: int = -1) -> Any:
    """The end offset of a leader epoch, as OffsetForLeaderEpoch answers."""
    part = {"Partition": 0, "LeaderEpoch": epoch, "CurrentLeaderEpoch": current}
    asked = [{"Topic": topic, "Partitions": [part]}]
    body: dict[str, Any] = {"Topics": asked}
    if version >= 3:
        body["ReplicaId"] = -1
    return s.call("OffsetForLeaderEpoch", version, **body)


def delete(s: Session, topic: str, offset: int, version: int = 2, partition: int = 0) -> Any:
    """Delete the records below an offset; the answer for the partition."""
    parts = [{"PartitionIndex": partition, "Offset": offset}]
    asked = [{"Name": topic, "Partitions": parts}]
    answer = s.call("DeleteRecords", version, Topics=asked, TimeoutMs=5000)
    return answer["Topics"][0]["Partitions"][0]


def changed(**fields: Any) -> bytes:
    """A batch of two records with some header fields set by hand."""
    return Batch((Record(b"one"), Record(b"two")), **fields).encode()


def with_payload(attributes: int, payload: bytes, count: int) -> bytes:
    """A batch whose records are these bytes, whatever they are."""
    last = count - 1
    return Batch(
        (), attributes=attributes, count=count, last_offset_delta=last, payload=payload
    ).encode()


def zstd_batch() -> bytes:
    """A good batch of one record in a zstd frame that keeps it as it is (RFC 8878)."""
    record = Record(b"one").encode(0)
    block = (1 | len(record) << 3).to_bytes(3, "little")
    payload = b"\x28\xb5\x2f\xfd\x20" + bytes([len(record)]) + block + record
    return with_payload(batches.ZSTD, payload, 1)


def producer(s: Session, version: int = 4) -> tuple[int, int]:
    """A fresh producer id and its epoch."""
    got: dict[str, Any] = {}

    def granted() -> bool:
        body = {"TransactionalId": None, "TransactionTimeoutMs": 60_000}
        got.update(s.call("InitProducerId", version, **body))
        # A broker that just started may still wait for its first block of ids.
        return got["ErrorCode"] != LOADING

    eventually(granted)
    assert got["ErrorCode"] == 0, got
    return got["ProducerId"], got["ProducerEpoch"]


def batch(pid: int, epoch: int, sequence: int, count: int = 1) -> bytes:
    """An idempotent batch."""
    records = tuple(Record(b"%d" % i) for i in range(count))
    return Batch(records, producer_id=pid, producer_epoch=epoch, base_sequence=sequence).encode()
