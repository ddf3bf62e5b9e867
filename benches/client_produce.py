"""How fast Python's producers are, ours beside confluent-kafka's, against one broker in one run.

    python benches/client_produce.py                      # 100-byte and 1-KiB values
    python benches/client_produce.py --sizes 100 --rounds 9 --gate
    python benches/client_produce.py --codec zstd --megabytes 60 --rounds 3

Each round sends the same records by every way, one after the other, in an order that turns; a way's
time is from its first call to the end of the flush, so what a client only promises is not counted.
The ratio is taken inside a round and the median is over the rounds: a machine that is busy with
other things slows all ways alike, and only ratios are worth comparing.

Both producers have acks=all, are idempotent and linger for 5 ms; batch sizes are each client's own
default. What is measured: records a second, from bytes that exist already.

Both were started before and are kept, as a program keeps its producer: connections stand, producer
ids are there, and the memory that batches lie in was touched. ``send_batch, new`` has none of that:
each of its rounds makes a producer and closes it. Of confluent-kafka there is no such line, because
librdkafka asks for a producer id every 500 ms only, longer than a round takes.

A program that only sends batches of a megabyte which were made before takes its turn as well, five
in flight: what the broker takes on a machine that it shares with its client. Where that is less
than a gate, nobody can be so much faster, and the gate is nine tenths of it.

With a codec the values are lines of JSON, of which gzip leaves 0.36, and neither batches made
before nor gates count: every client compresses on the thread that sends.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import confluent_kafka
from run import load_at

import kafkalite as kl

TOPIC = "speed"
#: Records of one call of ``send_batch``.
CHUNK = 10_000
PREMADE = "batches made before"


@dataclass(frozen=True)
class Way:
    """A way to send, and the least it must be faster than confluent-kafka's ``produce``."""

    name: str
    gate: float | None
    send: Callable[[str, str, list[bytes]], None]


@lru_cache
def theirs(servers: str, codec: str) -> confluent_kafka.Producer:
    """One that is started, and has its producer id."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": codec,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    producer.produce(TOPIC, b"first")
    producer.flush(60)
    return producer


@lru_cache
def ours(servers: str, codec: str) -> kl.Producer:
    """One that is started, for all ways but the one that measures a new one."""
    return kl.Producer(bootstrap_servers=servers, compression_type=codec)


def confluent(servers: str, codec: str, values: list[bytes]) -> None:
    """confluent-kafka's ``produce``, as its documentation shows it."""
    producer = theirs(servers, codec)
    for value in values:
        while True:
            try:
                producer.produce(TOPIC, value)
                break
            except BufferError:
                producer.poll(0.01)
    while producer.flush(60):
        pass


def produce(servers: str, codec: str, values: list[bytes]) -> None:
    """Ours, record by record."""
    producer = ours(servers, codec)
    for value in values:
        producer.produce(TOPIC, value)
    producer.flush()


def send(servers: str, codec: str, values: list[bytes]) -> None:
    """Ours, record by record, each with a delivery."""
    producer = ours(servers, codec)
    for value in values:
        producer.send(TOPIC, value)
    producer.flush()


def send_batch(servers: str, codec: str, values: list[bytes]) -> None:
    """Ours, ten thousand at a time."""
    in_chunks(ours(servers, codec), values)


def send_batch_new(servers: str, codec: str, values: list[bytes]) -> None:
    """The same by a producer that is new, and closed afterwards."""
    with kl.Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        in_chunks(producer, values)


def in_chunks(producer: kl.Producer, values: list[bytes]) -> None:
    """Sends all, and returns when they are delivered."""
    for start in range(0, len(values), CHUNK):
        producer.send_batch(TOPIC, values[start : start + CHUNK])
    producer.flush()


def arrow(servers: str, codec: str, values: list[bytes]) -> None:
    """Ours, from Arrow arrays that were made before."""
    arrays, producer = arrow_of(values), ours(servers, codec)
    began = time.perf_counter()
    for array in arrays:
        producer.send_batch(TOPIC, array)
    producer.flush()
    elapsed.append(time.perf_counter() - began)


def premade(servers: str, codec: str, values: list[bytes]) -> None:
    """Batches that were made before, by the load generator of the data plane's benches."""
    size, count = len(values[0]), len(values)
    flags = {"topic": TOPIC, "acks": "-1", "batch-bytes": "1000000", "in-flight": "5"}
    flags |= {"record-bytes": str(size), "seconds": "60", "warm-up": "5"}
    flags |= {"max-megabytes": str(max(20, size * count / 1e6))}
    figures = load_at(servers, flags)
    records = figures["records_with_warm_up"] / figures["requests_with_warm_up"]
    elapsed.append(count / (figures["requests_per_second"] * records))


#: A way that prepares something says here how long the rest took.
elapsed: list[float] = []


def arrow_of(values: list[bytes]) -> list[object]:
    """The values as binary arrays of one chunk each."""
    import pyarrow

    return [
        pyarrow.array(values[start : start + CHUNK], pyarrow.binary())
        for start in range(0, len(values), CHUNK)
    ]


WAYS = [
    Way("confluent produce", None, confluent),
    Way("produce", 1.0, produce),
    Way("send", None, send),
    Way("send_batch", 2.4, send_batch),
    Way("Arrow in", 3.0, arrow),
    Way("send_batch, new", None, send_batch_new),
    Way(PREMADE, None, premade),
]


def json_line(size: int, chance: random.Random) -> bytes:
    """``size`` bytes of JSON, as programs log it: words that repeat, numbers that do not."""
    words = ("order", "payment", "user", "click", "view", "cart")
    text = f'{{"user": "user-{chance.randrange(100_000)}", "price": {chance.random() * 1_000}'
    while len(text) < size:
        text += f', "{chance.choice(words)}": "{chance.getrandbits(48):x}"'
    return text[:size].encode()


def measure(servers: str, codec: str, way: Way, values: list[bytes]) -> float:
    """Records a second of one way, once."""
    gc.collect()
    elapsed.clear()
    began = time.perf_counter()
    way.send(servers, codec, values)
    took = elapsed[0] if elapsed else time.perf_counter() - began
    return len(values) / took


def compare(
    servers: str, codec: str, size: int, count: int, rounds: int
) -> dict[str, tuple[float, float]]:
    """Median records a second and median ratio of each way."""
    chance = random.Random(size)
    plain = codec == "none"
    values = [b"%0*d" % (size, at) if plain else json_line(size, chance) for at in range(count)]
    ways = [way for way in WAYS if plain or way.name != PREMADE]
    for way in ways:
        way.send(servers, codec, values[: count // 20])
    rates: dict[str, list[float]] = {way.name: [] for way in ways}
    for number in range(rounds):
        turn = number % len(ways)
        for way in ways[turn:] + ways[:turn]:
            rates[way.name].append(measure(servers, codec, way, values))
    base = rates[ways[0].name]
    return {
        name: (
            statistics.median(of),
            statistics.median(rate / first for rate, first in zip(of, base, strict=True)),
        )
        for name, of in rates.items()
    }


def main() -> int:
    """Run it; 1 if a gate is missed and ``--gate`` was given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1024])
    parser.add_argument(
        "--megabytes", type=int, default=100, help="of values, each way, each round"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gate", action="store_true")
    parser.add_argument(
        "--bootstrap-servers", help="a broker that runs; else one of ours is started"
    )
    parser.add_argument(
        "--codec", default="none", choices=["none", "gzip", "snappy", "lz4", "zstd"]
    )
    arguments = parser.parse_args()
    missed = []
    # A process of its own, as a broker usually is. Old segments go at once: else the disk's speed
    # would be measured, which is the same for all.
    config = {
        "log.retention.bytes": 1 << 28,
        "log.segment.bytes": 1 << 26,
        "log.retention.check.interval.ms": 500,
        "log.segment.delete.delay.ms": 0,
    }
    with kl.Broker(in_process=False, topics={TOPIC: 1}, config=config) as broker:
        servers = arguments.bootstrap_servers or broker.bootstrap_servers
        for size in arguments.sizes:
            count = arguments.megabytes * 1_000_000 // size
            print(f"{count} values of {size} bytes, {arguments.rounds} rounds")
            results = compare(servers, arguments.codec, size, count, arguments.rounds)
            for name, (rate, ratio) in results.items():
                gate = next(way.gate for way in WAYS if way.name == name)
                if gate is not None:
                    ceiling = results.get(PREMADE)
                    gate = min(gate, 0.9 * ceiling[1]) if ceiling else None
                verdict = "" if gate is None else f"   gate {gate:.1f}x"
                if gate is not None and ratio < gate:
                    missed.append(f"{name}, {size} bytes: {ratio:.2f}x")
                    verdict += "  MISSED"
                print(f"  {name:<18} {rate / 1e3:8.0f} k/s {ratio:6.2f}x{verdict}")
        ours(servers, arguments.codec).close()
    for line in missed:
        print(f"below its gate: {line}", file=sys.stderr)
    return 1 if missed and arguments.gate else 0


if __name__ == "__main__":
    sys.exit(main())
