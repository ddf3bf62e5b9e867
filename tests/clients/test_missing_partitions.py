"""Missing partitions are an error after one look at the cluster, without a wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import kafkalite as kl

PATIENCE_S = 30
TEXT = "UNKNOWN_TOPIC_OR_PARTITION: {name} has 3 partitions, there is no 99"


@pytest.fixture
def three(admin: kl.AdminClient, name: str) -> str:
    """A topic of three partitions."""
    admin.create_topic(name, partitions=3)
    return name


@pytest.mark.parametrize(
    "send",
    [
        lambda p, t: p.send(t, b"v", partition=99),
        lambda p, t: p.produce(t, b"v", partition=99),
        lambda p, t: p.send_batch(t, [b"v"], partitions=99),
        lambda p, t: p.send_batch(t, [b"v", b"w"], partitions=[0, 99]),
    ],
)
def test_a_producer_refuses_one(
    kafkalite_bootstrap: str, three: str, send: Callable[[Any, str], object]
) -> None:
    with (
        kl.Producer(bootstrap_servers=kafkalite_bootstrap) as producer,
        pytest.raises(kl.UnknownTopicError) as caught,
    ):
        send(producer, three)
    assert str(caught.value) == TEXT.format(name=three)
    assert caught.value.hint is not None
    assert f"kafkalite topics add-partitions {three} 100" in caught.value.hint


def test_a_producer_finds_partitions_that_were_added_since(
    kafkalite_bootstrap: str, admin: kl.AdminClient, three: str
) -> None:
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap) as producer:
        producer.send(three, b"before", partition=2).result(PATIENCE_S)
        admin.create_partitions(three, 6)
        assert producer.send(three, b"v", partition=3).result(PATIENCE_S).partition == 3
        batch = producer.send_batch(three, [b"v"], partitions=5)
        assert batch.result(PATIENCE_S)[0].partition == 5


def test_an_async_producer_does_both(
    kafkalite_bootstrap: str, admin: kl.AdminClient, three: str
) -> None:
    async def program() -> None:
        async with kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap) as producer:
            with pytest.raises(kl.UnknownTopicError) as caught:
                await producer.send(three, b"v", partition=99)
            assert str(caught.value) == TEXT.format(name=three)
            await asyncio.to_thread(admin.create_partitions, three, 4)
            assert (await producer.send(three, b"v", partition=3)).partition == 3

    asyncio.run(asyncio.wait_for(program(), PATIENCE_S))


@pytest.mark.parametrize(
    "ask",
    [
        lambda c, p: c.end_offsets(p),
        lambda c, p: c.beginning_offsets(p),
        lambda c, p: c.offsets_for_times({p: 5}),
    ],
)
def test_a_consumer_that_asks_for_its_offsets_gets_an_error(
    kafkalite_bootstrap: str, three: str, ask: Callable[[Any, tuple[str, int]], object]
) -> None:
    with (
        kl.Consumer(bootstrap_servers=kafkalite_bootstrap) as consumer,
        pytest.raises(kl.UnknownTopicError) as caught,
    ):
        ask(consumer, (three, 99))
    assert str(caught.value) == TEXT.format(name=three)


def test_a_consumer_that_reads_one_gets_one_error_and_reads_the_others(
    kafkalite_bootstrap: str, three: str
) -> None:
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap) as producer:
        producer.send(three, b"here", partition=0).result(PATIENCE_S)
    with kl.Consumer(
        bootstrap_servers=kafkalite_bootstrap,
        group_id=three,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.assign([(three, 0), (three, 99)])
        errors: list[str] = []
        values: list[bytes | None] = []
        while not (errors and values):
            try:
                record = consumer.poll(PATIENCE_S)
                assert record is not None
                values.append(record.value)
            except kl.UnknownTopicError as error:
                errors.append(str(error))
        assert (errors, values) == ([TEXT.format(name=three)], [b"here"])
        with pytest.raises(kl.UnknownTopicError, match="there is no 99"):
            consumer.position((three, 99))
        with pytest.raises(kl.UnknownTopicError, match="there is no 99"):
            consumer.commit({kl.TopicPartition(three, 99): 5})
        consumer.seek((three, 99), 5)
        assert consumer.poll(0.3) is None


def test_a_partition_that_comes_later_is_read(
    kafkalite_bootstrap: str, admin: kl.AdminClient, three: str
) -> None:
    with kl.Consumer(
        bootstrap_servers=kafkalite_bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(three, 3)])
        with pytest.raises(kl.UnknownTopicError, match="has 3 partitions, there is no 3"):
            consumer.poll(PATIENCE_S)
        admin.create_partitions(three, 4)
        with kl.Producer(bootstrap_servers=kafkalite_bootstrap) as producer:
            producer.send(three, b"late", partition=3).result(PATIENCE_S)
        record = consumer.poll(PATIENCE_S)
    assert record is not None
    assert record.value == b"late"
