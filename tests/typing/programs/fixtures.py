"""Tests that name the fixtures."""

import asyncio

import kafkalite as kl


def test_round_trip(
    kafkalite_topic: str, kafkalite_producer: kl.Producer, kafkalite_consumer: kl.Consumer
) -> None:
    kafkalite_producer.send(kafkalite_topic, b"v").result(timeout=5)
    record = kafkalite_consumer.poll(timeout=5)
    assert record is not None
    assert record.value == b"v"


def test_asyncio(kafkalite_topic: str, kafkalite_async_producer: kl.AsyncProducer) -> None:
    async def send() -> int:
        return (await kafkalite_async_producer.send(kafkalite_topic, b"v")).offset

    assert asyncio.run(send()) == 0
