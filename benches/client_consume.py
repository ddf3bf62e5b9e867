"""How fast clients read, side by side on one broker: records/s, and the ratios that are gates.

Every reader reads the same records from the beginning of one topic; rounds of all readers take
turns, so that whatever else runs on the machine slows all of them. A figure is the median of its
rounds; the clock begins with the first record. Needs confluent-kafka; pyarrow and aiokafka where
they are installed.

    python benches/client_consume.py            # prints the figures, exits with 1 below a gate
    python benches/client_consume.py --rounds 3 --records 400000 --sizes 100
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from servers import serving

import kafkalite

TOPIC = "consume-{size}"
#: Who must be how much faster than whom.
GATES = [
    ("kafkalite batches()", "confluent consume(1000)", 3.0),
    ("kafkalite Arrow", "confluent consume(1000)", 5.0),
    ("kafkalite async batches()", "aiokafka async for", 5.0),
]


@dataclass(frozen=True)
class Task:
    """What a reader reads."""

    address: str
    topic: str
    count: int


def write(task: Task, size: int) -> None:
    """Fill the topic with values that do not compress to nothing."""
    producer = Producer(
        {"bootstrap.servers": task.address, "linger.ms": 20, "batch.size": 1 << 20, "acks": 1}
    )
    values = [(f"{number:08d}" * (size // 8 + 1))[:size].encode() for number in range(97)]
    for number in range(task.count):
        while True:
            try:
                producer.produce(task.topic, values[number % 97], partition=0)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0


class Clock:
    """Measures from the first record to the last."""

    def __init__(self, count: int) -> None:
        """Measure ``count`` records."""
        self.left = self.total = count
        self.begin = 0.0
        self.first = 0
        self.rate = 0.0

    def saw(self, records: int) -> bool:
        """Count records; ``True`` when these were the last."""
        if not self.begin:
            self.begin = time.perf_counter()
            self.first = records
        self.left -= records
        if self.left <= 0:
            seconds = time.perf_counter() - self.begin
            self.rate = (self.total - self.first) / seconds
        return self.left <= 0


def confluent(task: Task) -> float:
    """``consume(1000)``, counting messages."""
    consumer = ConfluentConsumer({"bootstrap.servers": task.address, "group.id": "bench"})
    consumer.assign([ConfluentPartition(task.topic, 0, 0)])
    clock = Clock(task.count)
    while True:
        # It waits until it has as many as were asked for: no more than are there.
        messages = consumer.consume(min(1000, clock.left), 5)
        if messages and clock.saw(len(messages)):
            break
    consumer.close()
    return clock.rate


def ours(task: Task) -> kafkalite.Consumer:
    """Make our consumer, as it is without any tuning."""
    consumer = kafkalite.Consumer(bootstrap_servers=task.address, auto_offset_reset="earliest")
    consumer.assign([(task.topic, 0)])
    return consumer


def consume(task: Task) -> float:
    """``consume(1000)`` of ours: a record object for each."""
    clock = Clock(task.count)
    with ours(task) as consumer:
        while not clock.saw(len(consumer.consume(1000, 5))):
            pass
    return clock.rate


def poll(task: Task) -> float:
    """``for record in consumer``."""
    clock = Clock(task.count)
    with ours(task) as consumer:
        for _ in consumer:
            if clock.saw(1):
                break
    return clock.rate


def batches(task: Task) -> float:
    """``batches()``: decoded, without an object for each record."""
    clock = Clock(task.count)
    with ours(task) as consumer:
        for batch in consumer.batches(timeout=5):
            if clock.saw(len(batch)):
                break
    return clock.rate


def batch_values(task: Task) -> float:
    """``batches()`` and every value as bytes."""
    clock = Clock(task.count)
    with ours(task) as consumer:
        for batch in consumer.batches(timeout=5):
            if clock.saw(len(batch.values())):
                break
    return clock.rate


def arrow(task: Task) -> float:
    """``batches()``, each made into Arrow's columns."""
    reader: Callable[[kafkalite.RecordBatch], object]
    if importlib.util.find_spec("pyarrow"):
        import pyarrow

        reader = pyarrow.record_batch
    else:
        reader = kafkalite.RecordBatch.__arrow_c_array__
    clock = Clock(task.count)
    with ours(task) as consumer:
        for batch in consumer.batches(timeout=5):
            table = reader(batch)
            if clock.saw(len(batch)):
                break
            del table
    return clock.rate


def async_batches(task: Task) -> float:
    """``async for batch in consumer.batches()``."""

    async def read() -> float:
        clock = Clock(task.count)
        consumer = kafkalite.AsyncConsumer(
            bootstrap_servers=task.address, auto_offset_reset="earliest"
        )
        async with consumer:
            consumer.assign([(task.topic, 0)])
            async for batch in consumer.batches(timeout=5):
                if clock.saw(len(batch)):
                    break
        return clock.rate

    return asyncio.run(read())


def aiokafka(task: Task) -> float:
    """``async for`` of aiokafka."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> float:
        clock = Clock(task.count)
        consumer = AIOKafkaConsumer(bootstrap_servers=task.address, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([TopicPartition(task.topic, 0)])
            async for _ in consumer:
                if clock.saw(1):
                    break
        finally:
            await consumer.stop()
        return clock.rate

    return asyncio.run(read())


def readers() -> dict[str, tuple[Callable[[Task], float], float]]:
    """Return each reader and the share of the records that it has patience for."""
    found: dict[str, tuple[Callable[[Task], float], float]] = {
        "confluent consume(1000)": (confluent, 1.0),
        "kafkalite consume(1000)": (consume, 1.0),
        "kafkalite for record": (poll, 1.0),
        "kafkalite batches()": (batches, 1.0),
        "kafkalite batches().values()": (batch_values, 1.0),
        "kafkalite Arrow": (arrow, 1.0),
        "kafkalite async batches()": (async_batches, 1.0),
    }
    if importlib.util.find_spec("aiokafka"):
        found["aiokafka async for"] = (aiokafka, 0.2)
    return found


def measure(address: str, size: int, count: int, rounds: int, only: str) -> dict[str, list[float]]:
    """Return the rates of every round of every reader."""
    task = Task(address, TOPIC.format(size=size), count)
    write(task, size)
    rates: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, (reader, share) in readers().items():
            if only in name:
                part = Task(task.address, task.topic, max(1, int(count * share)))
                rates.setdefault(name, []).append(reader(part))
    return rates


def show(size: int, rates: dict[str, list[float]]) -> list[str]:
    """Print a table; return the gates that were missed."""
    medians = {name: statistics.median(values) for name, values in rates.items()}
    print(f"\nvalues of {size} bytes: records/s, median [lowest - highest]")
    for name, values in rates.items():
        low, high = min(values), max(values)
        print(f"  {name:30} {medians[name]:12,.0f}  [{low:,.0f} - {high:,.0f}]")
    missed = []
    for fast, slow, gate in GATES:
        if fast in medians and slow in medians:
            ratio = medians[fast] / medians[slow]
            verdict = "holds" if ratio >= gate else "MISSED"
            print(f"  {fast} / {slow}: {ratio:.1f} (gate {gate:.0f}) {verdict}")
            if ratio < gate:
                missed.append(f"{size} bytes: {fast} / {slow} is {ratio:.1f}, below {gate}")
    return missed


def main() -> int:
    """Run as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--records",
        type=int,
        default=2_000_000,
        help="so many that what a client fetched ahead of the clock is a small part of them",
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1024])
    parser.add_argument("--only", default="", help="readers whose name holds this")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    missed: list[str] = []
    results: dict[int, dict[str, list[float]]] = {}
    with serving("kafkalite --profile dev") as server:
        for size in arguments.sizes:
            rates = measure(
                server.address, size, arguments.records, arguments.rounds, arguments.only
            )
            results[size] = rates
            missed += show(size, rates)
    if arguments.json:
        print(json.dumps(results))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
