"""aiokafka: an asyncio client with its own codec; it bootstraps with old Metadata versions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError
from aiokafka.structs import OffsetAndMetadata

from tests.harness.brokers import Broker
from tests.harness.load import create_topic

CODECS = (None, "gzip", "snappy", "lz4", "zstd")
Unique = Callable[[str], str]
Scenario = Callable[[], Awaitable[None]]


def play(scenario: Scenario, seconds: float = 60) -> None:
    """Run a scenario with a deadline."""
    asyncio.run(asyncio.wait_for(scenario(), seconds))


async def create(broker: Broker, name: str, partitions: int = 3, **config: str) -> None:
    """Create a topic."""
    await asyncio.to_thread(create_topic, broker.bootstrap, name, partitions, **config)


async def send(broker: Broker, topic: str, rows: list[dict[str, Any]], **config: Any) -> None:
    """Produce rows (arguments of ``send``) and wait for all."""
    config = {"acks": "all", **config}
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **config)
    await producer.start()
    try:
        await asyncio.gather(*[await producer.send(topic, **row) for row in rows])
    finally:
        await producer.stop()


async def start(broker: Broker, *topics: str, group: str | None = None) -> AIOKafkaConsumer:
    """A started consumer from the beginning, committing by hand."""
    consumer = AIOKafkaConsumer(
        *topics,
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=20000,
        heartbeat_interval_ms=500,
        metadata_max_age_ms=1000,
    )
    await consumer.start()
    return consumer


async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    """The next ``count`` records."""
    got: list[Any] = []
    while len(got) < count:
        for batch in (await consumer.getmany(timeout_ms=500)).values():
            got += batch
    return got


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_each_codec_come_back_as_they_were_sent(
    broker: Broker, unique: Unique, codec: str | None
) -> None:
    topic = unique("aiokafka")

    async def scenario() -> None:
        await create(broker, topic)
        values = [b"%d" % i + b"y" * (i % 300) for i in range(1_000)]
        rows = [{"value": v, "key": b"k", "partition": 0} for v in values]
        await send(broker, topic, rows, compression_type=codec, enable_idempotence=True)
        consumer = await start(broker, topic)
        got = await take(consumer, len(values))
        await consumer.stop()
        assert [record.value for record in got] == values
        assert [record.offset for record in got] == list(range(len(values)))

    play(scenario)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_delivers(broker: Broker, unique: Unique, acks: object) -> None:
    topic = unique("aiokafka-acks")

    async def scenario() -> None:
        await create(broker, topic)
        await send(broker, topic, [{"value": b"%d" % i} for i in range(100)], acks=acks)
        consumer = await start(broker, topic)
        got = await take(consumer, 100)
        await consumer.stop()
        assert len({record.value for record in got}) == 100

    play(scenario)


def test_headers_nulls_and_timestamps_pass_through(broker: Broker, unique: Unique) -> None:
    topic = unique("aiokafka-headers")

    async def scenario() -> None:
        await create(broker, topic)
        row = {"value": None, "key": b"k", "timestamp_ms": 1_600_000_000_123}
        headers = [("a", b"1"), ("a", b"2"), ("empty", b"")]
        await send(broker, topic, [{**row, "headers": headers}])
        consumer = await start(broker, topic)
        (record,) = await take(consumer, 1)
        await consumer.stop()
        assert (record.key, record.value, record.timestamp) == (b"k", None, 1_600_000_000_123)
        assert list(record.headers) == headers

    play(scenario)


def test_a_record_above_the_limit_of_the_topic_is_refused(broker: Broker, unique: Unique) -> None:
    topic = unique("aiokafka-large")

    async def scenario() -> None:
        await create(broker, topic, **{"max.message.bytes": "2000000"})
        rows = [{"value": bytes(1_900_000)}]
        await send(broker, topic, rows, max_request_size=9_000_000)
        with pytest.raises(MessageSizeTooLargeError):
            rows = [{"value": bytes(2_500_000)}]
            await send(broker, topic, rows, max_request_size=9_000_000)

    play(scenario)


def test_a_seek_by_time_finds_the_first_record_at_or_after_it(
    broker: Broker, unique: Unique
) -> None:
    topic, base = unique("aiokafka-time"), 1_650_000_000_000

    async def scenario() -> None:
        await create(broker, topic)
        rows = [{"value": b"v", "partition": 0, "timestamp_ms": base + i} for i in range(50)]
        await send(broker, topic, rows)
        consumer = await start(broker, topic)
        part = TopicPartition(topic, 0)
        for stamp, offset in ((0, 0), (base + 20, 20), (base + 49, 49)):
            found = await consumer.offsets_for_times({part: stamp})
            assert found[part].offset == offset
        assert (await consumer.offsets_for_times({part: base + 50}))[part] is None
        assert (await consumer.beginning_offsets([part]))[part] == 0
        assert (await consumer.end_offsets([part]))[part] == 50
        await consumer.stop()

    play(scenario)


def test_an_offset_out_of_range_is_an_error_when_no_reset_is_wanted(
    broker: Broker, unique: Unique
) -> None:
    topic = unique("aiokafka-range")

    async def scenario() -> None:
        await create(broker, topic)
        await send(broker, topic, [{"value": b"v", "partition": 0}])
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="none")
        await consumer.start()
        part = TopicPartition(topic, 0)
        consumer.assign([part])
        consumer.seek(part, 77)
        with pytest.raises(OffsetOutOfRangeError):
            await consumer.getone()
        await consumer.stop()

    play(scenario)


def test_a_group_resumes_at_its_committed_offsets(broker: Broker, unique: Unique) -> None:
    topic, group = unique("aiokafka-resume"), unique("g")

    async def scenario() -> None:
        await create(broker, topic)
        await send(broker, topic, [{"value": b"%d" % i, "partition": 1} for i in range(20)])
        part = TopicPartition(topic, 1)
        first = await start(broker, topic, group=group)
        await take(first, 20)
        await first.commit({part: OffsetAndMetadata(12, "a note")})
        assert await first.committed(part) == 12
        await first.stop()
        second = await start(broker, topic, group=group)
        got = await take(second, 8)
        await second.stop()
        assert [record.value for record in got] == [b"%d" % i for i in range(12, 20)]

    play(scenario)


def test_two_members_share_a_topic_and_one_takes_over(broker: Broker, unique: Unique) -> None:
    topic, group = unique("aiokafka-share"), unique("g")

    async def until(members: list[AIOKafkaConsumer], shares: list[int]) -> None:
        while sorted(len(member.assignment()) for member in members) != shares:
            await asyncio.gather(*[member.getmany(timeout_ms=100) for member in members])

    async def scenario() -> None:
        await create(broker, topic)
        first = await start(broker, topic, group=group)
        await until([first], [3])
        second = await start(broker, topic, group=group)
        await until([first, second], [1, 2])
        await second.stop()
        await until([first], [3])
        await first.stop()

    play(scenario)


def test_the_admin_client_creates_describes_grows_and_deletes(
    broker: Broker, unique: Unique
) -> None:
    topic = unique("aiokafka-admin")

    async def partitions(admin: AIOKafkaAdminClient, count: int) -> None:
        while len((await admin.describe_topics([topic]))[0]["partitions"]) != count:
            await asyncio.sleep(0.05)

    async def scenario() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(topic, 2, 1)])
        await partitions(admin, 2)
        await admin.create_partitions({topic: NewPartitions(4)})
        await partitions(admin, 4)
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        names = {entry[0] for entry in answer.resources[0][4]}
        assert {"cleanup.policy", "retention.ms", "max.message.bytes"} <= names
        await admin.delete_topics([topic])
        while topic in await admin.list_topics():
            await asyncio.sleep(0.05)
        await admin.close()

    play(scenario)


def test_the_admin_client_sees_groups_and_their_offsets(broker: Broker, unique: Unique) -> None:
    topic, group = unique("aiokafka-groups"), unique("g")

    async def scenario() -> None:
        await create(broker, topic)
        await send(broker, topic, [{"value": b"v", "partition": 0}] * 5)
        consumer = await start(broker, topic, group=group)
        await take(consumer, 5)
        await consumer.commit()
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        assert group in {entry[0] for entry in await admin.list_consumer_groups()}
        offsets = await admin.list_consumer_group_offsets(group)
        assert offsets[TopicPartition(topic, 0)].offset == 5
        await admin.close()
        await consumer.stop()

    play(scenario)
