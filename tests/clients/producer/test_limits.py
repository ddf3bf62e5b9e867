"""What a producer does when brokers are slow, or gone: memory is bounded, waits have an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import kafkalite as kl
from tests.clients.producer.reading import read

PATIENCE_S = 60.0


@pytest.fixture
def child() -> Iterator[kl.Broker]:
    """A broker in a process of its own, to be killed."""
    with kl.Broker(in_process=False, topics=["t"]) as broker:
        yield broker


def acknowledge_one(producer: kl.Producer) -> None:
    """Send until a record is acknowledged, whatever time one may take: then its way is known."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            producer.send("t", b"first").result(PATIENCE_S)
            return
        except (kl.RequestTimedOut, kl.DeliveryTimeout):
            if time.monotonic() > deadline:
                raise


def refusal(call: Callable[[], object]) -> BaseException:
    """What a call is refused with, by a broker that was given the time to answer."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with pytest.raises(kl.KafkaliteError) as caught:
            call()
        if not isinstance(caught.value, kl.RequestTimedOut) or time.monotonic() > deadline:
            return caught.value


def test_a_million_sends_without_an_await_take_no_more_memory_than_they_may(
    kafkalite_bootstrap: str, name: str
) -> None:
    limit = 1 << 20
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap, buffer_memory=limit) as producer:
        value = b"x" * 10
        free = []
        for number in range(1_000_000):
            producer.produce(name, value)
            if number % 10_000 == 0:
                free.append(producer.metrics()["buffer-available-bytes"])
        producer.flush(PATIENCE_S)
        assert producer.metrics()["record-send-total"] == 1_000_000.0
    assert min(free) >= 0
    assert max(free) <= limit


def test_a_full_buffer_blocks_for_max_block_and_then_refuses(child: kl.Broker) -> None:
    with kl.Producer(
        bootstrap_servers=child.bootstrap_servers, buffer_memory=100_000, max_block_ms=300
    ) as producer:
        acknowledge_one(producer)
        child.kill()
        began = time.monotonic()
        with pytest.raises(kl.BufferFullError, match=r"buffer\.memory") as caught:
            while True:
                producer.produce("t", b"x" * 1_000)
        assert time.monotonic() - began >= 0.3
        assert caught.value.retriable
        with pytest.raises(kl.BufferFullError):
            producer.send_batch("t", [b"x" * 1_000] * 200)
        child.start()
        producer.flush(PATIENCE_S)
        assert producer.send("t", b"last").result(PATIENCE_S).offset > 50


def test_a_batch_larger_than_the_buffer_is_sent_piece_by_piece(
    kafkalite_bootstrap: str, name: str
) -> None:
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap, buffer_memory=200_000) as producer:
        delivery = producer.send_batch(name, [b"%0100d" % number for number in range(50_000)])
        assert delivery.result(PATIENCE_S) == [kl.DeliveredRange(name, 0, 0, 50_000)]


def test_a_call_of_more_than_is_appended_in_one_go_sends_all_of_it(
    kafkalite_bootstrap: str, name: str
) -> None:
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap) as producer:
        # Above 64 MiB, after which a call looks at signals; one value, so that it takes no memory.
        delivery = producer.send_batch(name, [b"x" * 900_000] * 80)
        assert delivery.result(PATIENCE_S) == [kl.DeliveredRange(name, 0, 0, 80)]


def test_a_record_beyond_a_limit_is_refused_at_once(kafkalite_bootstrap: str, name: str) -> None:
    with kl.Producer(
        bootstrap_servers=kafkalite_bootstrap, max_request_size=1_000, buffer_memory=2_000
    ) as producer:
        with pytest.raises(kl.MessageTooLarge, match=r"max\.request\.size is 1000"):
            producer.send(name, b"x" * 1_000)
        with pytest.raises(kl.MessageTooLarge):
            producer.send_batch(name, [b"x", b"x" * 1_000])
        assert producer.send(name, b"x" * 900).result(PATIENCE_S).offset == 0


def test_a_topic_that_does_not_come_is_an_error_in_time() -> None:
    with (
        kl.Broker(config={"auto.create.topics.enable": False}) as broker,
        kl.Producer(bootstrap_servers=broker.bootstrap_servers, max_block_ms=1_000) as producer,
    ):
        calls: list[tuple[Callable[[], object], type[kl.KafkaliteError]]] = [
            (lambda: producer.send("missing", b"v"), kl.UnknownTopicError),
            (lambda: producer.partitions_for("missing"), kl.UnknownTopicError),
            (lambda: producer.send("no such/name", b"v"), kl.InvalidTopicError),
        ]
        for call, error in calls:
            assert isinstance(refusal(call), error)


def test_a_broker_killed_in_mid_stream_gets_every_record_once_and_in_order(
    child: kl.Broker,
) -> None:
    count = 30_000
    with kl.Producer(bootstrap_servers=child.bootstrap_servers, linger_ms=1) as producer:
        told: list[int] = []

        def tell(error: kl.KafkaliteError | None, metadata: kl.RecordMetadata | None) -> None:
            assert error is None, error
            assert metadata is not None
            told.append(metadata.offset)

        for number in range(count):
            producer.produce("t", b"%d" % number, on_delivery=tell)
            if number in (count // 3, count // 2):
                # With batches on their way, whose answers are lost.
                child.kill()
                child.start()
        producer.flush(PATIENCE_S)
        assert producer.metrics()["record-error-total"] == 0
    assert sorted(told) == list(range(count))
    found = read(child.bootstrap_servers, "t", count)
    assert [int(record.value or b"") for record in found] == list(range(count))


def test_what_is_not_delivered_in_time_fails(child: kl.Broker) -> None:
    with kl.Producer(
        bootstrap_servers=child.bootstrap_servers,
        request_timeout_ms=200,
        delivery_timeout_ms=400,
        linger_ms=0,
    ) as producer:
        acknowledge_one(producer)
        child.kill()
        delivery = producer.send("t", b"lost")
        with pytest.raises(kl.DeliveryTimeout, match="did not acknowledge"):
            delivery.result(PATIENCE_S)


def test_an_absent_broker_is_an_error_of_the_first_record() -> None:
    with (
        kl.Producer(
            bootstrap_servers="127.0.0.1:1", kafkalite_bootstrap_timeout_ms=200
        ) as producer,
        pytest.raises(kl.NoBrokerReachable, match=r"127\.0\.0\.1:1"),
    ):
        producer.send("t", b"v")
