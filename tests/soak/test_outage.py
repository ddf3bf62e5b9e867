"""A million records through an outage: each is there once, where it was acknowledged, in order."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, TopicPartition

import kafkalite as kl
from tests.harness.patience import ended

RECORDS = 1_000_000
PARTITIONS = 4
KEYS = 97
OUTAGE_S = 10.0
PATIENCE_S = 300.0


def values_by_partition(bootstrap: str, topic: str) -> list[list[int]]:
    """What confluent-kafka reads in each partition, in the order of offsets without a gap."""
    places = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "judge", "enable.auto.commit": False}
    )
    try:
        found: list[list[int]] = [[] for _ in places]
        left = sum(consumer.get_watermark_offsets(place, PATIENCE_S)[1] for place in places)
        consumer.assign(places)
        deadline = time.monotonic() + PATIENCE_S
        while left > 0 and time.monotonic() < deadline:
            for message in consumer.consume(min(left, 10_000), timeout=5.0):
                assert message.error() is None, message.error()
                values = found[message.partition() or 0]
                assert message.offset() == len(values)
                values.append(int(message.value() or b""))
                left -= 1
        return found
    finally:
        consumer.close()


def test_a_million_records_come_once_and_in_order_through_ten_seconds_without_a_broker() -> None:
    acknowledged: list[list[int]] = [[] for _ in range(PARTITIONS)]
    refused: list[kl.KafkaliteError] = []
    at_the_kill: list[int] = []

    def tell(error: kl.KafkaliteError | None, metadata: kl.RecordMetadata | None) -> None:
        if metadata is None:
            assert error is not None
            refused.append(error)
        else:
            acknowledged[metadata.partition].append(metadata.offset)

    def go_away() -> None:
        at_the_kill.append(sum(map(len, acknowledged)))
        broker.kill()
        time.sleep(OUTAGE_S)
        broker.start()

    with kl.Broker(in_process=False, topics={"t": PARTITIONS}) as broker:
        outage = threading.Thread(target=go_away)
        began = time.monotonic()
        with kl.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(RECORDS):
                key = b"%d" % (number % KEYS)
                producer.produce("t", b"%0100d" % number, key=key, on_delivery=tell)
                if number == RECORDS // 2:
                    outage.start()
            ended(outage)
            producer.flush(PATIENCE_S)
        took = time.monotonic() - began
        found = values_by_partition(broker.bootstrap_servers, "t")

    print(f"{RECORDS} records in {took:.1f} s, {at_the_kill[0]} acknowledged before the kill")
    assert not refused, refused[:3]
    assert 0 < at_the_kill[0] < RECORDS
    # Those of a partition are acknowledged in order, each at an offset of its own.
    assert acknowledged == [list(range(len(values))) for values in found]
    assert sorted(number for values in found for number in values) == list(range(RECORDS))
    assert all(values == sorted(values) for values in found)
