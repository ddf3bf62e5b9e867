"""The clients of asyncio."""

import asyncio

import kafkalite as kl


async def round_trip(servers: str) -> bytes | None:
    async with (
        kl.AsyncProducer(bootstrap_servers=servers) as producer,
        kl.AsyncConsumer("orders", bootstrap_servers=servers) as consumer,
    ):
        where = await producer.send("orders", b"v")
        print(where.offset)
        async for record in consumer:
            return record.value
        return None


async def text(consumer: kl.AsyncConsumer[bytes, str]) -> str | None:
    record = await consumer.poll(timeout=1)
    return record.value if record is not None else None


asyncio.run(round_trip("localhost:9092"))
