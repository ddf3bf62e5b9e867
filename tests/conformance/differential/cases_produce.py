"""Produce: versions, acks, and every way a batch can be wrong."""

from __future__ import annotations

import gzip
import time
import uuid
from typing import Any

from tests.conformance.differential.registry import case, each
from tests.harness.patience import eventually
from tests.harness.requests import changed, with_payload, zstd_batch
from tests.harness.session import Session
from tests.harness.wire import batches
from tests.harness.wire.batches import Batch, Record, simple

GOOD = simple(b"one", b"two")


@each(range(3, 14))
def produce_is_served_in_every_version(s: Session, version: int) -> Any:
    topic = s.topic()
    return [s.produce(topic, GOOD, version=version) for _ in range(2)]


@each([-1, 1, 2, -2, 100])
def produce_takes_only_known_acks(s: Session, acks: int) -> Any:
    return s.produce(s.topic(), GOOD, acks=acks)


@case
def produce_with_acks_zero_gets_no_answer(s: Session) -> Any:
    topic = s.topic()
    part = {"Index": 0, "Records": GOOD}
    data = [{"Name": topic, "PartitionData": [part]}]
    s.open.send("Produce", 9, {"Acks": 0, "TimeoutMs": 1000, "TopicData": data})
    # Readable a moment after a new topic has its log directory: acks=0 waits for nothing.
    eventually(lambda: s.list_offset(topic, -1)["Offset"] > 0)
    return s.list_offset(topic, -1)


@case
def produce_with_acks_zero_and_an_error_closes_the_connection(s: Session) -> Any:
    part = {"Index": 0, "Records": GOOD}
    data = [{"Name": s.name(), "PartitionData": [part]}]
    s.open.send("Produce", 9, {"Acks": 0, "TimeoutMs": 1000, "TopicData": data})
    return s.call("Metadata", 9, Topics=[])


@case
def produce_to_an_unknown_topic(s: Session) -> Any:
    return s.produce(s.name(), GOOD)


@case
def produce_to_an_unknown_partition(s: Session) -> Any:
    return s.produce(s.topic(), GOOD, partition=7)


@each({"random": uuid.UUID(int=77), "zero": uuid.UUID(int=0)})
def produce_to_an_unknown_topic_id(s: Session, topic_id: uuid.UUID) -> Any:
    part = {"Index": 0, "Records": GOOD}
    data = [{"TopicId": topic_id, "PartitionData": [part]}]
    return s.call("Produce", 13, Acks=-1, TimeoutMs=1000, TopicData=data)


@case
def produce_of_nothing_at_all(s: Session) -> Any:
    return s.call("Produce", 9, Acks=-1, TimeoutMs=1000, TopicData=[])


BAD_BATCHES: dict[str, bytes | None] = {
    "null records": None,
    "empty records": b"",
    "wrong crc": changed(crc=12345),
    "magic 0": changed(magic=0),
    "magic 1": changed(magic=1),
    "magic 3": changed(magic=3),
    "magic 9": changed(magic=9),
    "two batches": GOOD + GOOD,
    "a batch and half a batch": GOOD + GOOD[:30],
    "a batch and garbage": GOOD + b"garbage",
    "half a batch": GOOD[:40],
    "only a header": GOOD[:61],
    "eleven bytes": GOOD[:11],
    "length of zero": changed(length=0),
    "negative length": changed(length=-1),
    "length too small": changed(length=20),
    "length beyond the end": changed(length=10_000),
    "count too high": changed(count=3),
    "count too low": changed(count=1),
    "count zero": changed(count=0),
    "count negative": changed(count=-1),
    "count huge": changed(count=2**31 - 1, last_offset_delta=2**31 - 2),
    "no records": Batch(()).encode(),
    "last offset delta too high": changed(last_offset_delta=5),
    "last offset delta too low": changed(last_offset_delta=0),
    "last offset delta negative": changed(last_offset_delta=-1),
    "offset deltas with a gap": Batch((Record(b"a"), Record(b"b", offset_delta=2))).encode(),
    "offset deltas that repeat": Batch((Record(b"a"), Record(b"b", offset_delta=0))).encode(),
    "offset deltas that start at one": Batch((Record(b"a", offset_delta=1),)).encode(),
    "bytes after the records": changed(trailer=b"\x00\x01\x02"),
    "control batch": changed(attributes=0x20),
    "transactional without a transaction": changed(attributes=0x10),
    "log append time from a producer": changed(attributes=0x08),
    "delete horizon set": changed(attributes=0x40),
    "unknown attribute bits": changed(attributes=0x4000),
    "base offset of five": changed(base_offset=5),
    "base offset negative": changed(base_offset=-5),
    "leader epoch of seven": changed(leader_epoch=7),
    "codec 5": changed(attributes=5),
    "codec 7": changed(attributes=7),
    "gzip of garbage": with_payload(1, b"not gzip at all", 2),
    "gzip cut short": with_payload(1, gzip.compress(Record(b"one").encode(0) * 9)[:-12], 9),
    "gzip with a wrong count": with_payload(1, gzip.compress(Record(b"one").encode(0)), 4),
    "gzip with bytes left over": with_payload(1, gzip.compress(Record(b"a").encode(0) * 2), 1),
    "snappy of garbage": with_payload(2, b"garbage", 1),
    "lz4 of garbage": with_payload(3, b"garbage", 1),
    "zstd of garbage": with_payload(4, b"garbage", 1),
    "max timestamp too high": changed(max_timestamp_ms=1_700_000_100_000),
    "max timestamp too low": changed(max_timestamp_ms=1),
    "max timestamp of -1": changed(max_timestamp_ms=-1),
    "base timestamp of -1": changed(base_timestamp_ms=-1),
    "base timestamp of -5": changed(base_timestamp_ms=-5),
    "a record with a negative key length": with_payload(0, b"\x08\x00\x00\x00\x03\x01", 1),
    "a record with a length beyond the end": with_payload(0, b"\x7e\x00\x00\x00\x01\x01\x00", 1),
    "a record of length zero": with_payload(0, b"\x00", 1),
    "a record with negative header count": with_payload(0, b"\x0c\x00\x00\x00\x01\x01\x01", 1),
    "a header with a null key": with_payload(0, b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1),
    "record attributes set": with_payload(0, b"\x0c\x07\x00\x00\x01\x01\x00", 1),
    "producer id without an epoch": changed(producer_id=5),
    "producer id without a sequence": changed(producer_id=5, producer_epoch=0),
    "sequence without a producer id": changed(base_sequence=0),
    "producer id of -2": changed(producer_id=-2),
}


@each(BAD_BATCHES)
def produce_of_a_batch_that_is_odd(s: Session, records: bytes | None) -> Any:
    topic = s.topic()
    return {"answer": s.produce(topic, records), "end": s.list_offset(topic, -1)["Offset"]}


@each(BAD_BATCHES)
def produce_of_an_odd_batch_beside_a_good_one(s: Session, records: bytes | None) -> Any:
    """Only the partition with the bad batch is refused."""
    topic = s.topic(2)
    parts = [{"Index": 0, "Records": records}, {"Index": 1, "Records": GOOD}]
    data = [{"Name": topic, "PartitionData": parts}]
    answer = s.call("Produce", 8, Acks=1, TimeoutMs=1000, TopicData=data)
    found = answer["Responses"][0]["PartitionResponses"]
    return {part["Index"]: part["ErrorCode"] for part in found}


@each([3, 6, 7, 9])
def produce_of_zstd_needs_version_seven(s: Session, version: int) -> Any:
    return s.produce(s.topic(), zstd_batch(), version=version)


@each({"below": 100, "above": 2_000})
def produce_of_a_batch_around_max_message_bytes(s: Session, size: int) -> Any:
    return s.produce(s.topic(max_message_bytes="1000"), simple(b"x" * size))


@each({"keyed": b"k", "keyless": None})
def produce_to_a_compacted_topic(s: Session, key: bytes | None) -> Any:
    topic = s.topic(cleanup_policy="compact")
    records = (Record(b"a", key=b"k"), Record(b"b", key=key), Record(None, key=b"k"))
    return s.produce(topic, Batch(records).encode())


@case
def produce_keyless_to_a_topic_that_compacts_and_deletes(s: Session) -> Any:
    return s.produce(s.topic(cleanup_policy="compact,delete"), GOOD)


@each({"hour ahead": 3_500_000, "two hours ahead": 7_200_000, "year back": -31_536_000_000})
def produce_of_a_timestamp_off_the_clock(s: Session, off_ms: int) -> Any:
    now_ms = int(time.time() * 1000)
    return s.produce(s.topic(), changed(base_timestamp_ms=now_ms + off_ms))


@case
def produce_of_an_old_timestamp_where_the_topic_limits_it(s: Session) -> Any:
    return s.produce(s.topic(message_timestamp_before_max_ms="1000"), GOOD)


@case
def produce_to_a_topic_with_log_append_time(s: Session) -> Any:
    topic = s.topic(message_timestamp_type="LogAppendTime")
    answer = s.produce(topic, GOOD)
    stamped = answer.pop("LogAppendTimeMs") > 1_750_000_000_000
    part = s.fetch(topic, 0)["Responses"][0]["Partitions"][0]
    heads = [head[1::2] for head in batches.batch_heads(part["Records"])]
    return {"answer": answer, "stamped": stamped, "count and attributes": heads}


@each(["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def produce_to_a_topic_with_its_own_codec(s: Session, codec: str) -> Any:
    topic = s.topic(compression_type=codec)
    answer = s.produce(topic, GOOD)
    part = s.fetch(topic, 0)["Responses"][0]["Partitions"][0]
    return answer, [head[1::2] for head in batches.batch_heads(part["Records"])]


@case
def produce_to_an_internal_topic(s: Session) -> Any:
    s.call("FindCoordinator", 2, Key="any", KeyType=0)
    eventually(lambda: s.leaders("__consumer_offsets") > 0)
    return s.produce("__consumer_offsets", GOOD)


@case
def a_wrong_max_timestamp_is_corrected_in_the_log(s: Session) -> Any:
    topic = s.topic()
    s.produce(topic, changed(max_timestamp_ms=1_700_000_100_000))
    part = s.fetch(topic, 0)["Responses"][0]["Partitions"][0]
    return batches.batch_heads(part["Records"])


@case
def the_partition_twice_in_one_request(s: Session) -> Any:
    parts = [{"Index": 0, "Records": GOOD}, {"Index": 0, "Records": GOOD}]
    data = [{"Name": s.topic(), "PartitionData": parts}]
    return s.call("Produce", 9, Acks=-1, TimeoutMs=1000, TopicData=data)
