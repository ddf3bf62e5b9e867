"""The first record through a fresh group, as a test suite meets it: each client on ``Broker()``.

The clock runs from before the consumer is made until it has the record: a consumer subscribes as
the only member of a new group, a producer is made and sends one record to a topic that exists. Of
each broker its very first group, for which it makes ``__consumer_offsets``, is told apart from
those after it. Needs confluent-kafka and kafka-python; aiokafka where it is installed.

    python benches/first_record.py            # prints the figures, exits with 1 beyond the gate
    python benches/first_record.py --rounds 3 --only kafkalite
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaConsumer, KafkaProducer

import kafkalite as kl

GATE_MS = 150
GROUPS_EACH = 4
PATIENCE_S = 10

#: Whose own timers are longer than the gate, as their logs say, on whatever broker.
TIMERS = {
    "confluent-kafka": "librdkafka waits 50 ms before a second connection "
    "(half of reconnect.backoff.ms) and 100 ms before it looks an offset up",
}


def kafkalite(address: str, topic: str, group: str) -> float:
    """Ours."""
    begin = time.perf_counter()
    with (
        kl.Consumer(
            topic, group_id=group, bootstrap_servers=address, auto_offset_reset="earliest"
        ) as consumer,
        kl.Producer(bootstrap_servers=address) as producer,
    ):
        producer.produce(topic, b"v")
        assert consumer.poll(PATIENCE_S) is not None
        return time.perf_counter() - begin


def kafkalite_async(address: str, topic: str, group: str) -> float:
    """Ours in asyncio; the loop runs already."""

    async def first() -> float:
        begin = time.perf_counter()
        async with (
            kl.AsyncConsumer(
                topic, group_id=group, bootstrap_servers=address, auto_offset_reset="earliest"
            ) as consumer,
            kl.AsyncProducer(bootstrap_servers=address) as producer,
        ):
            sending = asyncio.create_task(producer.send(topic, b"v"))
            assert await consumer.poll(PATIENCE_S) is not None
            took = time.perf_counter() - begin
            await sending
            return took

    return asyncio.run(first())


def confluent(address: str, topic: str, group: str) -> float:
    """confluent-kafka, as it is without any tuning."""
    begin = time.perf_counter()
    consumer = ConfluentConsumer(
        {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    producer = ConfluentProducer({"bootstrap.servers": address})
    producer.produce(topic, b"v")
    assert consumer.poll(PATIENCE_S) is not None
    took = time.perf_counter() - begin
    consumer.close()
    producer.flush()
    return took


def aiokafka(address: str, topic: str, group: str) -> float:
    """aiokafka, as it is without any tuning."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def first() -> float:
        begin = time.perf_counter()
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest"
        )
        producer = AIOKafkaProducer(bootstrap_servers=address)
        await asyncio.gather(consumer.start(), producer.start())
        await producer.send(topic, b"v")
        await asyncio.wait_for(consumer.getone(), PATIENCE_S)
        took = time.perf_counter() - begin
        await asyncio.gather(consumer.stop(), producer.stop())
        return took

    return asyncio.run(first())


def kafka_python(address: str, topic: str, group: str) -> float:
    """kafka-python, as it is without any tuning."""
    begin = time.perf_counter()
    consumer = KafkaConsumer(
        topic, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest"
    )
    producer = KafkaProducer(bootstrap_servers=address)
    producer.send(topic, b"v")
    next(consumer)
    took = time.perf_counter() - begin
    consumer.close()
    producer.close()
    return took


def clients() -> dict[str, Callable[[str, str, str], float]]:
    """Who is measured here."""
    found = {
        "kafkalite": kafkalite,
        "kafkalite, asyncio": kafkalite_async,
        "confluent-kafka": confluent,
        "kafka-python": kafka_python,
    }
    if importlib.util.find_spec("aiokafka"):
        found["aiokafka"] = aiokafka
    return found


def measure(
    client: Callable[[str, str, str], float], rounds: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of each broker's first group, and of those after it."""
    first, later = [], []
    # The round before those that count imports and loads what the client needs.
    for counts in [False] + [True] * rounds:
        with kl.Broker(topics=[f"t{number}" for number in range(GROUPS_EACH)]) as broker:
            times = [
                client(broker.bootstrap_servers, f"t{number}", f"g{number}") * 1e3
                for number in range(GROUPS_EACH)
            ]
        if counts:
            first.append(times[0])
            later += times[1:]
    return first, later


def main() -> int:
    """Run as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="brokers for each client")
    parser.add_argument("--only", default="", help="clients whose name holds this")
    arguments = parser.parse_args()
    missed = []
    print(f"ms to the first record of a fresh group, median [lowest - highest]; gate {GATE_MS}")
    for name, client in clients().items():
        if arguments.only not in name:
            continue
        for what, times in zip(
            ("a broker's first group", "groups after it"),
            measure(client, arguments.rounds),
            strict=True,
        ):
            median = statistics.median(times)
            told = f"{name}: {what}"
            verdict = ""
            if median > GATE_MS:
                verdict = f"  {TIMERS.get(name, 'MISSED')}"
                missed += [told] if name not in TIMERS else []
            print(f"  {told:42} {median:7.1f}  [{min(times):.1f} - {max(times):.1f}]{verdict}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
