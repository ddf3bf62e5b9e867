"""Producer ids, epochs and sequences."""

from __future__ import annotations

from typing import Any

from tests.conformance.differential.registry import case, each
from tests.harness.requests import batch, producer
from tests.harness.session import Session

TOP = 2**31 - 1


def play(s: Session, steps: list[tuple[int, int, int]]) -> Any:
    """Send (epoch, sequence, count) one after the other; error and offset of each."""
    topic = s.topic()
    pid, _ = producer(s)
    seen = []
    for epoch, sequence, count in steps:
        answer = s.produce(topic, batch(pid, epoch, sequence, count))
        seen.append((answer["ErrorCode"], answer["BaseOffset"], answer["LogStartOffset"]))
    return seen


STEPS: dict[str, list[tuple[int, int, int]]] = {
    "in order": [(0, 0, 2), (0, 2, 3), (0, 5, 1)],
    "the last batch again": [(0, 0, 2), (0, 2, 2), (0, 2, 2)],
    "the first of five again": [(0, i, 1) for i in range(5)] + [(0, 0, 1)],
    "the first of six again": [(0, i, 1) for i in range(6)] + [(0, 0, 1)],
    "the same start with another count": [(0, 0, 2), (0, 0, 1)],
    "overlapping the last batch": [(0, 0, 4), (0, 2, 4)],
    "a gap": [(0, 0, 1), (0, 2, 1)],
    "a gap and then the right one": [(0, 0, 1), (0, 5, 1), (0, 1, 1)],
    "an unknown producer that starts at five": [(0, 5, 1), (0, 6, 1)],
    "an unknown producer with a high epoch": [(7, 0, 1), (7, 1, 1)],
    "a new epoch that starts at zero": [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1)],
    "a new epoch that does not start at zero": [(0, 0, 1), (1, 1, 1)],
    "an old epoch": [(1, 0, 1), (0, 1, 1)],
    "an old epoch repeating its batch": [(0, 0, 1), (1, 0, 1), (0, 0, 1)],
    "sequences that wrap": [(0, TOP, 1), (0, 0, 1), (0, 1, 1)],
    "a batch that wraps inside": [(0, TOP - 1, 4), (0, 2, 1)],
    "a wrapped batch again": [(0, TOP - 1, 4), (0, TOP - 1, 4)],
}


@each(STEPS)
def sequences(s: Session, steps: list[tuple[int, int, int]]) -> Any:
    return play(s, steps)


@each(range(6))
def init_producer_id_without_a_transactional_id(s: Session, version: int) -> Any:
    first = s.call("InitProducerId", version, TransactionalId=None, TransactionTimeoutMs=1000)
    second = s.call("InitProducerId", version, TransactionalId=None, TransactionTimeoutMs=1000)
    rising = second.pop("ProducerId") > first.pop("ProducerId") >= 0
    return first, second, rising


@case
def init_producer_id_with_an_empty_transactional_id(s: Session) -> Any:
    got = s.call("InitProducerId", 4, TransactionalId="", TransactionTimeoutMs=1000)
    return got["ErrorCode"], got["ProducerEpoch"]


@case
def init_producer_id_with_an_id_that_the_client_brings(s: Session) -> Any:
    """The epoch may go up by this only for transactions."""
    pid, epoch = producer(s)
    answer = s.call(
        "InitProducerId", 4, TransactionalId=None, TransactionTimeoutMs=1000,
        ProducerId=pid, ProducerEpoch=epoch,
    )  # fmt: skip
    return answer["ErrorCode"], answer["ProducerEpoch"]


@case
def a_duplicate_is_known_after_its_records_were_deleted(s: Session) -> Any:
    topic = s.topic()
    pid, _ = producer(s)
    for sequence in range(3):
        s.produce(topic, batch(pid, 0, sequence))
    parts = [{"PartitionIndex": 0, "Offset": -1}]
    s.call("DeleteRecords", 2, Topics=[{"Name": topic, "Partitions": parts}], TimeoutMs=5000)
    return [s.produce(topic, batch(pid, 0, sequence)) for sequence in (2, 3, 9)]


@case
def describe_producers_names_the_active_producer(s: Session) -> Any:
    topic = s.topic()
    pid, _ = producer(s)
    s.produce(topic, batch(pid, 0, 0, 3))
    asked = [{"Name": topic, "PartitionIndexes": [0]}]
    (part,) = s.call("DescribeProducers", 0, Topics=asked)["Topics"][0]["Partitions"]
    seen = [
        (one["ProducerId"] == pid, one["ProducerEpoch"], one["LastSequence"])
        for one in part["ActiveProducers"]
    ]
    return part["ErrorCode"], seen
