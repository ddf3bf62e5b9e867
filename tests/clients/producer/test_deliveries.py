"""Who gets a record's outcome, when, and how often."""

from __future__ import annotations

import asyncio
import copy
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import kafkalite as kl
from tests.harness.patience import ended

PATIENCE_S = 30.0
NOW_MS = int(time.time() * 1000)


@pytest.fixture
def producer(kafkalite_bootstrap: str) -> Iterator[kl.Producer]:
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap) as made:
        yield made


def test_a_delivery_tells_where_its_record_is(name: str, producer: kl.Producer) -> None:
    delivery = producer.send(name, b"v", partition=0, timestamp_ms=NOW_MS)
    metadata = delivery.result(timeout=PATIENCE_S)
    assert (metadata.topic, metadata.partition, metadata.offset) == (name, 0, 0)
    assert metadata.timestamp_ms == NOW_MS
    assert delivery.done()
    assert delivery.exception() is None
    assert metadata == delivery.result()
    assert hash(metadata) == hash(delivery.result())
    assert repr(metadata).startswith(f"RecordMetadata(topic='{name}', partition=0, offset=0")


@pytest.mark.parametrize(
    "told",
    [
        kl.RecordMetadata("orders", 1, 7, NOW_MS),
        kl.DeliveredRange("orders", 1, 7, 3),
    ],
)
def test_where_records_are_can_be_copied_and_told_to_another_process(told: object) -> None:
    assert pickle.loads(pickle.dumps(told)) == told
    assert copy.deepcopy(told) == told


def test_every_callback_is_called_once_and_in_order(name: str, producer: kl.Producer) -> None:
    told: list[int] = []

    def tell(error: kl.KafkaliteError | None, metadata: kl.RecordMetadata | None) -> None:
        assert error is None
        assert metadata is not None
        told.append(metadata.offset)

    for _ in range(5_000):
        producer.produce(name, b"v", partition=0, on_delivery=tell)
    producer.flush(PATIENCE_S)
    assert told == list(range(5_000)), "after a flush all callbacks were called"


def test_a_flush_waits_for_the_callbacks_before_it_whatever_comes_after_it(
    name: str, producer: kl.Producer
) -> None:
    # It counted callbacks: those of later records stood in for one that still ran.
    begun, go_on, told = threading.Event(), threading.Event(), threading.Event()

    def slow(_error: kl.KafkaliteError | None, _metadata: kl.RecordMetadata | None) -> None:
        begun.set()
        go_on.wait(PATIENCE_S)
        told.set()

    def disturb() -> None:
        while not go_on.is_set():
            known.add_done_callback(lambda _delivery: None)

    known = producer.send(name, b"v", partition=0)
    known.result(PATIENCE_S)
    producer.produce(name, b"v", partition=0, on_delivery=slow)
    assert begun.wait(PATIENCE_S)
    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        with pytest.raises(kl.RequestTimedOut):
            producer.flush(0.3)
    finally:
        go_on.set()
        ended(disturber)
    producer.flush(PATIENCE_S)
    assert told.is_set()


def test_callbacks_of_deliveries_get_the_delivery(name: str, producer: kl.Producer) -> None:
    told: list[object] = []
    early = producer.send(name, b"v")
    early.add_done_callback(told.append)
    producer.flush(PATIENCE_S)
    early.add_done_callback(told.append)
    assert told == [early, early]
    batch = producer.send_batch(name, [b"v"] * 1_000)
    batch.add_done_callback(told.append)
    producer.flush(PATIENCE_S)
    batch.add_done_callback(told.append)
    assert told[2:] == [batch, batch]
    assert batch.done()
    assert batch.errors() == {}


def test_what_a_callback_raises_goes_to_the_unraisable_hook(
    name: str, producer: kl.Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[str] = []

    def hook(unraisable: Any) -> None:
        raised.append(str(unraisable.exc_value))

    def fail(error: object, metadata: object) -> None:
        raise ValueError("in a callback")

    monkeypatch.setattr(sys, "unraisablehook", hook)
    told: list[object] = []
    producer.produce(name, b"v", on_delivery=fail)
    producer.produce(name, b"v", on_delivery=lambda error, metadata: told.append(metadata))
    producer.flush(PATIENCE_S)
    assert raised == ["in a callback"]
    assert len(told) == 1


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("what", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_what_ends_a_program_passes_through_a_callback_that_is_called_at_once(
    name: str, producer: kl.Producer, batch: bool, what: type[BaseException]
) -> None:
    """Ctrl-C in it went to the unraisable hook, and the program went on."""
    delivery = producer.send_batch(name, [b"v"]) if batch else producer.send(name, b"v")
    delivery.result(PATIENCE_S)

    def end(_: object) -> None:
        raise what

    with pytest.raises(what):
        delivery.add_done_callback(end)


@pytest.mark.parametrize("batch", [False, True])
def test_what_a_callback_raises_that_is_called_at_once_goes_to_the_unraisable_hook(
    name: str, producer: kl.Producer, monkeypatch: pytest.MonkeyPatch, batch: bool
) -> None:
    delivery = producer.send_batch(name, [b"v"]) if batch else producer.send(name, b"v")
    delivery.result(PATIENCE_S)
    raised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)

    def fail(_: object) -> None:
        raise ValueError

    delivery.add_done_callback(fail)
    assert [(type(one.exc_value), one.object) for one in raised] == [(ValueError, fail)]


def test_a_callback_may_send(name: str, producer: kl.Producer) -> None:
    done = threading.Event()

    def again(error: object, metadata: kl.RecordMetadata | None) -> None:
        assert metadata is not None
        if metadata.offset < 20:
            producer.produce(name, b"v", on_delivery=again)
        else:
            done.set()

    producer.produce(name, b"v", on_delivery=again)
    assert done.wait(PATIENCE_S)


def test_a_failed_record_fails_its_delivery_and_its_callback(
    name: str, admin: kl.AdminClient, producer: kl.Producer
) -> None:
    admin.create_topic(name, config={"max.message.bytes": 200})
    told: list[kl.KafkaliteError | None] = []
    producer.produce(name, b"x" * 500, on_delivery=lambda error, metadata: told.append(error))
    delivery = producer.send(name, b"x" * 500)
    with pytest.raises(kl.MessageTooLarge, match="MESSAGE_TOO_LARGE"):
        delivery.result(PATIENCE_S)
    assert isinstance(delivery.exception(), kl.MessageTooLarge)
    producer.flush(PATIENCE_S)
    assert [type(error) for error in told] == [kl.MessageTooLarge]


def test_each_failure_of_a_batch_has_its_index(
    name: str, admin: kl.AdminClient, producer: kl.Producer
) -> None:
    admin.create_topic(name, config={"max.message.bytes": 1_000})
    values = [b"x" * (2_000 if number in (3, 70) else 10) for number in range(100)]
    delivery = producer.send_batch(name, values)
    assert set(delivery.errors(PATIENCE_S)) == {3, 70}
    with pytest.raises(kl.PartialError) as caught:
        delivery.result(PATIENCE_S)
    assert {index: type(error) for index, error in caught.value.errors.items()} == {
        3: kl.MessageTooLarge,
        70: kl.MessageTooLarge,
    }
    assert sum(done.count for done in caught.value.done.values()) == 98
    with pytest.raises(kl.MessageTooLarge):
        producer.send_batch(name, [b"x" * 2_000] * 3).result(PATIENCE_S)


def test_a_wait_that_is_too_short_times_out_and_can_be_repeated(
    kafkalite_bootstrap: str, name: str
) -> None:
    with kl.Producer(
        bootstrap_servers=kafkalite_bootstrap, linger_ms=3_600_000, delivery_timeout_ms=4_000_000
    ) as producer:
        delivery = producer.send(name, b"v")
        batch = producer.send_batch(name, [b"v"])
        with pytest.raises(kl.RequestTimedOut):
            delivery.result(timeout=0.01)
        with pytest.raises(TimeoutError):
            batch.result(timeout=0)
        assert not delivery.done()
        assert not batch.done()
        producer.flush(PATIENCE_S)
        assert delivery.result(0).offset == 0
        assert batch.result(0)[0].base_offset == 1
