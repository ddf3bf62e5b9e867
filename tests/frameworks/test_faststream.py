"""FastStream, on aiokafka and on confluent-kafka: delivery, groups, batches, acknowledgement."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import faststream.confluent
import faststream.kafka
import pytest
from faststream import AckPolicy

from tests.harness.brokers import Broker
from tests.harness.load import create_topic

KINDS = pytest.mark.parametrize(
    "kind", [faststream.kafka, faststream.confluent], ids=["aiokafka", "confluent"]
)
Unique = Callable[[str], str]


def play(scenario: Callable[[], Awaitable[None]], seconds: float = 60) -> None:
    """Run a scenario with a deadline."""

    async def bounded() -> None:
        await asyncio.wait_for(scenario(), seconds)

    asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another task does."""
    while not condition():
        await asyncio.sleep(0.02)


def collector(kind: ModuleType, broker: Broker, topic: str, group: str, **how: Any) -> Any:
    """A FastStream broker with one subscriber that keeps what it gets in ``.got``."""
    made = kind.KafkaBroker(broker.bootstrap)
    made.got = []

    @made.subscriber(topic, group_id=group, auto_offset_reset="earliest", **how)
    async def keep(message: Any) -> None:
        made.got.append(message)

    return made


@KINDS
def test_headers_keys_and_correlation_ids_pass_through(
    broker: Broker, unique: Unique, kind: ModuleType
) -> None:
    topic = unique("fs-headers")

    async def scenario() -> None:
        app, seen = kind.KafkaBroker(broker.bootstrap), []

        @app.subscriber(topic, group_id=topic, auto_offset_reset="earliest")
        async def keep(body: str, message: kind.annotations.KafkaMessage) -> None:
            raw = message.raw_message
            key = raw.key() if callable(raw.key) else raw.key
            seen.append((body, key, message.headers["tenant"], message.correlation_id))

        await app.start()
        await app.publish("a", topic, key=b"k", headers={"tenant": "t1"}, correlation_id="c1")
        await until(lambda: bool(seen))
        await app.stop()
        assert seen == [("a", b"k", "t1", "c1")]

    play(scenario)


@KINDS
def test_a_restarted_service_goes_on_where_it_stopped(
    broker: Broker, unique: Unique, kind: ModuleType
) -> None:
    topic, group = unique("fs-resume"), unique("g")

    async def scenario() -> None:
        first = collector(kind, broker, topic, group)
        await first.start()
        for number in range(10):
            await first.publish({"n": number}, topic)
        await until(lambda: len(first.got) == 10)
        await first.stop()
        second = collector(kind, broker, topic, group)
        await second.start()
        await second.publish({"n": 10}, topic)
        await until(lambda: bool(second.got))
        await second.stop()
        assert second.got == [{"n": 10}]

    play(scenario)


@KINDS
def test_two_services_of_a_group_share_the_partitions(
    broker: Broker, unique: Unique, kind: ModuleType
) -> None:
    topic, group = unique("fs-share"), unique("g")
    create_topic(broker.bootstrap, topic, 4)

    async def scenario() -> None:
        apps = [collector(kind, broker, topic, group) for _ in range(2)]
        for app in apps:
            await app.start()
        # Both have joined when each has had a record; what was read before may come to both.
        number = 0
        while not all(app.got for app in apps):
            for partition in range(4):
                await apps[0].publish(number, topic, partition=partition)
                number += 1
            await asyncio.sleep(0.1)
        await until(lambda: set(apps[0].got) | set(apps[1].got) == set(range(number)))
        # Of those some may come again, and later still.
        rest = range(number, number + 100)
        for later in rest:
            await apps[0].publish(later, topic, partition=later % 4)

        def shares() -> list[list[int]]:
            return [[one for one in app.got if one in rest] for app in apps]

        await until(lambda: sum(map(len, shares())) >= len(rest))
        for app in apps:
            await app.stop()
        assert sorted(itertools.chain(*shares())) == list(rest)
        assert all(shares())

    play(scenario)


@KINDS
def test_a_batch_subscriber_gets_lists(broker: Broker, unique: Unique, kind: ModuleType) -> None:
    topic = unique("fs-batch")

    async def scenario() -> None:
        app = collector(kind, broker, topic, topic, batch=True)
        await app.start()
        await app.publish_batch(*range(50), topic=topic)
        await until(lambda: sum(map(len, app.got)) == 50)
        await app.stop()
        assert [row for batch in app.got for row in batch] == list(range(50))
        assert len(app.got) < 50

    play(scenario)


@KINDS
def test_a_message_that_was_refused_is_delivered_again(
    broker: Broker, unique: Unique, kind: ModuleType
) -> None:
    topic = unique("fs-nack")

    async def scenario() -> None:
        app, tries = kind.KafkaBroker(broker.bootstrap), []

        @app.subscriber(
            topic,
            group_id=topic,
            auto_offset_reset="earliest",
            ack_policy=AckPolicy.NACK_ON_ERROR,
        )
        async def keep(body: int) -> None:
            tries.append(body)
            if tries.count(1) == 1 and body == 1:
                raise ValueError("not yet")

        await app.start()
        for number in range(3):
            await app.publish(number, topic)
        await until(lambda: 2 in tries and tries.count(1) == 2)
        await app.stop()
        assert tries[:3] == [0, 1, 1]

    play(scenario)


@KINDS
def test_a_request_gets_its_answer(broker: Broker, unique: Unique, kind: ModuleType) -> None:
    topic, answers = unique("fs-request"), unique("fs-answers")

    async def scenario() -> None:
        app, got = kind.KafkaBroker(broker.bootstrap), []

        @app.subscriber(topic, group_id=topic, auto_offset_reset="earliest")
        async def double(body: int) -> int:
            return body * 2

        @app.subscriber(answers, group_id=answers, auto_offset_reset="earliest")
        async def keep(body: int) -> None:
            got.append(body)

        await app.start()
        await app.publish(21, topic, reply_to=answers)
        await until(lambda: bool(got))
        await app.stop()
        assert got == [42]

    play(scenario)


@KINDS
def test_a_service_outlives_a_restart_of_the_broker(
    own_broker: Callable[..., Broker], broker_kind: str, unique: Unique, kind: ModuleType
) -> None:
    if broker_kind == "kafka" and kind is faststream.kafka:
        pytest.skip("aiokafka 0.14 does not come back from an outage as long as Kafka's start")
    topic, broker = unique("fs-outage"), own_broker()

    async def scenario() -> None:
        app = collector(kind, broker, topic, topic)
        await app.start()
        await app.publish(1, topic)
        await until(lambda: app.got == [1])
        await asyncio.to_thread(broker.restart)
        await app.publish(2, topic)
        await until(lambda: app.got[-1] == 2)
        await app.stop()

    play(scenario, 90)
