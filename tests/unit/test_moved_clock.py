"""A test moves the broker's clock: what takes days happens now."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import kafkalite
from kafkalite.errors import InvalidArgumentError, KafkaliteError
from tests.harness import reading
from tests.harness.openapi import asked
from tests.harness.patience import eventually
from tests.harness.process import PATIENCE_S
from tests.harness.wire.connection import Connection


@pytest.fixture
def broker() -> Iterator[kafkalite.Broker]:
    """A broker of its own: its clock is not moved back."""
    with kafkalite.Broker(admin_port=0) as broker:
        yield broker


@pytest.fixture
def admin(broker: kafkalite.Broker) -> Iterator[kafkalite.AdminClient]:
    """An admin client."""
    with kafkalite.AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


def send(broker: kafkalite.Broker, topic: str, *pairs: tuple[bytes | None, bytes | None]) -> None:
    """Write records with today's time, each in a batch of its own."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for key, value in pairs:
        producer.produce(topic, value, key=key, partition=0)
        assert producer.flush(PATIENCE_S) == 0


def span(broker: kafkalite.Broker, topic: str) -> tuple[int, int]:
    """The first offset and the end of partition 0."""
    keys = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "span"}
    consumer = Consumer({**keys, "enable.auto.commit": False})
    try:
        found: tuple[int, int] = consumer.get_watermark_offsets(
            TopicPartition(topic, 0), timeout=PATIENCE_S
        )
        return found
    finally:
        consumer.close()


def test_records_of_a_week_are_deleted_now(
    broker: kafkalite.Broker, admin: kafkalite.AdminClient
) -> None:
    admin.create_topic("t", config={"retention.ms": str(7 * 86_400_000)})
    send(broker, "t", (None, b"old"))
    broker.clock.advance("6d")
    assert span(broker, "t") == (0, 1)
    began = time.monotonic()
    broker.clock.advance("25h")
    assert time.monotonic() - began < PATIENCE_S
    assert span(broker, "t") == (1, 1)


def test_a_week_of_ten_partitions_and_a_group_takes_less_than_a_second(
    broker: kafkalite.Broker, admin: kafkalite.AdminClient
) -> None:
    week_ms, partitions, each = 7 * 86_400_000, 10, 2_000
    admin.create_topic("t", partitions=partitions, config={"retention.ms": str(week_ms)})
    keys = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer(keys)
    for number in range(partitions * each):
        producer.produce("t", b"old" * 30, partition=number % partitions)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**keys, "group.id": "g", "enable.auto.commit": False})
    all_of_it = [TopicPartition("t", partition, each) for partition in range(partitions)]
    consumer.commit(offsets=all_of_it, asynchronous=False)
    assert consumer.get_watermark_offsets(all_of_it[0], timeout=PATIENCE_S) == (0, each)
    began = time.monotonic()
    broker.clock.advance("8d")
    took = time.monotonic() - began
    for one in all_of_it:
        assert consumer.get_watermark_offsets(one, timeout=PATIENCE_S) == (each, each)
    consumer.close()
    assert "g" not in {group.group_id for group in admin.list_groups()}
    assert took < 1


def producers(wire: Connection) -> int:
    """How many producers the broker knows of partition 0 of ``t``."""
    asks = {"Topics": [{"Name": "t", "PartitionIndexes": [0]}]}
    (topic,) = wire.call("DescribeProducers", 0, asks)["Topics"]
    return len(topic["Partitions"][0]["ActiveProducers"])


def test_producer_ids_expire_now(broker: kafkalite.Broker, admin: kafkalite.AdminClient) -> None:
    admin.create_topic("t")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    producer.produce("t", b"x", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    with Connection(broker.bootstrap_servers, PATIENCE_S) as wire:
        broker.clock.advance("23h")
        assert producers(wire) == 1
        # producer.id.expiration.ms is a day.
        broker.clock.advance("2h")
        assert producers(wire) == 0
    assert span(broker, "t") == (0, 1), "the records stay"


def test_what_became_due_is_done_in_order(
    broker: kafkalite.Broker, admin: kafkalite.AdminClient
) -> None:
    """Retention, compaction, groups: the disk holds each of them, and the next does not begin."""
    config = {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": "3600000",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "1000",
    }
    admin.create_topic("t", config=config)
    admin.create_topic("old", config={"retention.ms": "3600000"})
    send(broker, "old", (None, b"x"))
    send(broker, "t", (b"k", b"1"), (b"k", b"2"))
    broker.clock.advance("1m")
    # A later record seals the segment before it.
    now_ms = round(broker.clock.now.timestamp() * 1_000)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("t", b"3", key=b"last", partition=0, timestamp=now_ms)
    assert producer.flush(PATIENCE_S) == 0
    commits = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
    consumer = Consumer({**commits, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("old", 0, 1)], asynchronous=False)
    consumer.close()
    faults, offsets = broker.faults, "__consumer_offsets"
    with (
        ThreadPoolExecutor(1) as pool,
        faults.disk("slow", ms=600_000, operation="read", topic="t") as compaction,
        # A segment that is sealed is synced: that is no expiry.
        faults.disk("slow", ms=600_000, operation="write", topic=offsets) as groups,
    ):
        move = pool.submit(broker.clock.advance, "8d")
        eventually(lambda: compaction.fired > 0)
        assert span(broker, "old") == (1, 1), "retention is before compaction"
        assert groups.fired == 0
        compaction.remove()
        eventually(lambda: groups.fired > 0)
        assert read(broker) == [b"2", b"3"], "compaction is before groups"
        assert not move.done()
        groups.remove()
        move.result(PATIENCE_S)
    assert "g" not in {group.group_id for group in admin.list_groups()}


def test_only_what_is_old_is_deleted(
    broker: kafkalite.Broker, admin: kafkalite.AdminClient
) -> None:
    admin.create_topic("t", config={"retention.ms": "3600000", "segment.ms": "1000"})
    send(broker, "t", (None, b"old"))
    broker.clock.advance("2h")
    now_ms = round(broker.clock.now.timestamp() * 1_000)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("t", b"new", partition=0, timestamp=now_ms)
    assert producer.flush(PATIENCE_S) == 0
    broker.clock.advance("30m")
    assert span(broker, "t") == (1, 2)


def test_a_compaction_that_has_to_wait_is_done_now(
    broker: kafkalite.Broker, admin: kafkalite.AdminClient
) -> None:
    config = {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": "3600000",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "60000",
    }
    admin.create_topic("t", config=config)
    send(broker, "t", (b"k", b"1"), (b"k", b"2"), (b"other", b"3"))
    broker.clock.advance("30m")
    now_ms = round(broker.clock.now.timestamp() * 1_000)
    # A later record seals the segment before it.
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("t", b"4", key=b"last", partition=0, timestamp=now_ms)
    assert producer.flush(PATIENCE_S) == 0
    broker.clock.advance("20m")
    assert read(broker) == [b"1", b"2", b"3", b"4"]
    broker.clock.advance("20m")
    assert read(broker) == [b"2", b"3", b"4"]


def read(broker: kafkalite.Broker) -> list[bytes | None]:
    """Every value of ``t``."""
    return reading.values(broker.bootstrap_servers, "t")


def test_offsets_of_an_empty_group_expire_now(
    broker: kafkalite.Broker, admin: kafkalite.AdminClient
) -> None:
    admin.create_topic("t")
    send(broker, "t", (None, b"x"))
    keys = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
    consumer = Consumer({**keys, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    consumer.close()
    broker.clock.advance("6d")
    assert "g" in {group.group_id for group in admin.list_groups()}
    broker.clock.advance("2d")
    assert "g" not in {group.group_id for group in admin.list_groups()}


def members(admin: kafkalite.AdminClient) -> int:
    """How many members the group ``g`` has."""
    if "g" not in {group.group_id for group in admin.list_groups()}:
        return 0
    return len(admin.describe_group("g").members)


@pytest.mark.parametrize(("monotonic", "left"), [(False, 1), (True, 0)])
def test_a_silent_member_loses_its_session_when_deadlines_move(
    broker: kafkalite.Broker, admin: kafkalite.AdminClient, monotonic: bool, left: int
) -> None:
    admin.create_topic("t")
    consumer = kafkalite.Consumer(
        "t",
        group_id="g",
        bootstrap_servers=broker.bootstrap_servers,
        heartbeat_interval_ms=15_000,
        enable_auto_commit=False,
    )
    with consumer:
        deadline = time.monotonic() + PATIENCE_S
        while members(admin) == 0 or admin.describe_group("g").state.upper() != "STABLE":
            consumer.poll(timeout=0.1)
            assert time.monotonic() < deadline
        broker.clock.advance("10m", monotonic=monotonic)
        assert members(admin) == left


def test_a_request_that_waits_ends_when_deadlines_move(broker: kafkalite.Broker) -> None:
    with broker.faults.delay(3_600_000, api="ListOffsets") as fault:
        keys = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "w"}
        send(broker, "t", (None, b"x"))
        consumer = Consumer({**keys, "enable.auto.commit": False})
        asked = TopicPartition("t", 0, 0)
        ends: list[object] = []

        def ask() -> None:
            ends.append(consumer.get_watermark_offsets(asked, timeout=PATIENCE_S))

        asking = threading.Thread(target=ask)
        asking.start()
        deadline = time.monotonic() + PATIENCE_S
        while fault.fired == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        # Two requests, one after the other on a connection: each waits for an hour.
        while asking.is_alive():
            broker.clock.advance("1h", monotonic=True)
            asking.join(0.05)
            assert time.monotonic() < deadline
        consumer.close()
        assert ends == [(0, 1)]


def test_the_clock_tells_how_far_it_was_moved(broker: kafkalite.Broker) -> None:
    before, ahead = broker.clock.now, broker.clock.ahead
    after = broker.clock.advance(timedelta(days=2))
    assert broker.clock.ahead == ahead + timedelta(days=2)
    assert timedelta(days=2) <= after - before < timedelta(days=2, hours=1)
    assert broker.clock.now >= after


@pytest.mark.parametrize("duration", ["", "7", "d", "-1d", "1y", "1e9d", -1, float("nan"), "7 d"])
def test_what_is_no_duration_is_refused(broker: kafkalite.Broker, duration: str | float) -> None:
    with pytest.raises((InvalidArgumentError, KafkaliteError), match="is no duration"):
        broker.clock.advance(duration)


@pytest.mark.parametrize("monotonic", [False, True])
def test_a_hundred_years_are_the_limit(broker: kafkalite.Broker, monotonic: bool) -> None:
    broker.clock.advance("18250d", monotonic=monotonic)
    with pytest.raises(InvalidArgumentError, match="100 years"):
        broker.clock.advance("18251d", monotonic=monotonic)


def test_records_with_the_time_of_the_broker_are_kept(
    broker: kafkalite.Broker, admin: kafkalite.AdminClient
) -> None:
    admin.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
    broker.clock.advance("8d")
    send(broker, "t", (None, b"new"))
    broker.clock.advance("6d")
    assert span(broker, "t") == (0, 1)


def test_a_client_of_any_language_moves_the_clock_over_http(broker: kafkalite.Broker) -> None:
    url, day = broker.admin_url or "", 86_400_000
    status, moved = asked(url, "POST", "/clock/advance", {"ms": day})
    assert (status, moved["wall_ahead_ms"]) == (201, day)
    status, told = asked(url, "GET", "/clock")
    assert (status, told["wall_ahead_ms"], told["monotonic_ahead_ms"]) == (200, day, 0)
    status, refused = asked(url, "POST", "/clock/advance", {"ms": 101 * 365 * day})
    assert (status, "100 years" in refused["why"]) == (400, True)


def connected(broker: kafkalite.Broker) -> socket.socket:
    """A connection to the admin port."""
    address = urllib.parse.urlsplit(broker.admin_url or "")
    return socket.create_connection((str(address.hostname), int(address.port or 0)), PATIENCE_S)


def test_a_stall_ends_over_http_while_moves_of_the_clock_wait_for_it(
    broker: kafkalite.Broker, admin: kafkalite.AdminClient
) -> None:
    # Two moves held all threads of the API, so nothing but a restart ended the stall.
    admin.create_topic("t")
    broker.faults.stall("log", topic="t")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("t", b"1" * 200_000)
    producer.poll(0)
    url = f"{broker.admin_url}/api/v1"

    def waits(api: str) -> bool:
        with urllib.request.urlopen(f"{url}/requests?kind=waiting", timeout=PATIENCE_S) as told:
            return any(row["api"] == api for row in json.load(told)["requests"])

    eventually(lambda: waits("Produce"))
    move = json.dumps({"ms": 3_600_000, "monotonic": True})
    head = f"POST /api/v1/clock/advance HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(move)}"
    with ExitStack() as stack:
        moves = [stack.enter_context(connected(broker)) for _ in range(2)]
        for one in moves:
            one.sendall(f"{head}\r\n\r\n{move}".encode())
        eventually(lambda: broker.clock.ahead == timedelta(hours=1))
        end = urllib.request.Request(f"{url}/faults", method="DELETE")
        with urllib.request.urlopen(end, timeout=PATIENCE_S) as told:
            assert json.load(told) == {"removed": 1}
        for one in moves:
            assert one.recv(12) == b"HTTP/1.1 201"
    assert producer.flush(PATIENCE_S) == 0
