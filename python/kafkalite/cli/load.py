"""``kafkalite perf produce|consume|e2e``: how fast records go in, out, and through.

Without ``-b``, a broker is started in its own process. Its CPU does not count as the client's.
"""

from __future__ import annotations

import functools
import time
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from . import suggesting
from .answers import answer_table, json_option, progress, say
from .connecting import Cluster, cluster_options, key_values
from .helping import examples
from .places import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..consumer import Consumer
    from ..producer import Producer
    from .answers import Progress

_COLUMNS = ["test", "records", "seconds", "records_per_s", "mib_per_s", "cpu_s"]
#: Records a call: of ``send_batch``, and of what ``consume`` and ``batches`` hand out.
_BATCH_RECORDS = 10_000
#: Maximum bytes of prepared values; one value may exceed it.
_BATCH_BYTES = 64 << 20
#: A value has no more: a request's size has 32 bits.
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Load:
    """What is sent: how many values, of which size, to which topic."""

    cluster: Cluster
    topic: str
    records: int
    size: int

    def values(self, count: int | None = None) -> list[bytes]:
        """Return values that differ, so that no codec gets them for nothing."""
        if count is None:
            fitting = max(1, _BATCH_BYTES // self.size)
            count = min(_BATCH_RECORDS, fitting, self.records)
        return [(b"%012d" % at).ljust(self.size, b"x")[: self.size] for at in range(count)]

    def row(self, test: str, seconds: float, cpu_s: float) -> dict[str, object]:
        """Return the figures of a run."""
        return {
            "test": test,
            "records": self.records,
            "bytes": self.records * self.size,
            "seconds": round(seconds, 4),
            "records_per_s": round(self.records / seconds),
            "mib_per_s": round(self.records * self.size / seconds / (1 << 20), 1),
            "cpu_s": round(cpu_s, 3),
        }


def load_options(default_records: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of every load; the command gets ``load``, with its topic in place."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(
            "-t",
            "--topic",
            shell_complete=suggesting.topics,
            help="Existing topic to use. Default: a new topic, deleted at the end.",
        )
        @click.option(
            "-n", "--records", type=click.IntRange(1), default=default_records, show_default=True
        )
        @click.option(
            "-s",
            "--size",
            type=click.IntRange(1, _MOST_BYTES),
            default=100,
            show_default=True,
            help="Size of a value, in bytes.",
        )
        @click.option("-p", "--partitions", type=PARTITIONS, default=1, show_default=True)
        @functools.wraps(command)
        def with_load(
            *args: Any,
            cluster: Cluster,
            topic: str | None,
            records: int,
            size: int,
            partitions: int,
            **kwargs: Any,
        ) -> Any:
            # The current context does not count: a load is meant for a cluster that is named.
            source_of = click.get_current_context().get_parameter_source
            sources = {source_of("servers"), source_of("context")}
            given = sources != {ParameterSource.DEFAULT}
            with ExitStack() as stack:
                if not given:
                    pairs = click.get_current_context().params["client_pairs"]
                    config = key_values(pairs, "--client-config")
                    cluster = stack.enter_context(_own_broker(config, cluster.timeout))
                if topic is None:
                    topic = stack.enter_context(_own_topic(cluster, partitions))
                return command(*args, load=Load(cluster, topic, records, size), **kwargs)

        return with_load

    return decorate


@contextmanager
def _own_broker(config: dict[str, str], timeout: float | None) -> Iterator[Cluster]:
    from ..broker import Broker

    with Broker(in_process=False) as broker:
        say(f"a broker of its own: {broker.bootstrap_servers}")
        yield Cluster(broker.bootstrap_servers, config, timeout)


@contextmanager
def _own_topic(cluster: Cluster, partitions: int) -> Iterator[str]:
    name = f"kafkalite-perf-{uuid.uuid4().hex[:12]}"
    with cluster.admin(beside=True) as admin:
        try:
            admin.create_topic(name, partitions=partitions, timeout=cluster.timeout)
        except KeyboardInterrupt:
            # The topic may be there already.
            admin.delete_topic(name, missing_ok=True)
            raise
        try:
            yield name
        finally:
            admin.delete_topic(name, missing_ok=True)


@click.command(
    "produce",
    epilog=examples(
        "kafkalite perf produce", "kafkalite perf produce -n 100000 -s 1000 -b localhost:9092"
    ),
)
@click.option(
    "--by",
    type=click.Choice(["batch", "record", "delivery"]),
    default="batch",
    show_default=True,
    help="Method to call: send_batch, produce, or send with a delivery for each record.",
)
@json_option
@cluster_options
@load_options(1_000_000)
def produce(load: Load, by: str, as_json: bool) -> None:
    """Measure how fast records are sent and acknowledged."""
    from ..producer import Producer

    with (
        Producer(config=load.cluster.keys()) as producer,
        progress("produce", load.records, "records") as advance,
    ):
        producer.partitions_for(load.topic)
        seconds, cpu_s = _timed(lambda: _SENDERS[by](producer, load, advance))
    answer_table([load.row(f"produce by {by}", seconds, cpu_s)], _COLUMNS, as_json=as_json)


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that some work took, and those of CPU in this process."""
    started, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - cpu


def _send_batches(producer: Producer, load: Load, advance: Progress) -> None:
    values = load.values()
    left = load.records
    last = None
    while left:
        part = values[: min(left, len(values))]
        last = producer.send_batch(load.topic, part)
        left -= len(part)
        advance(len(part))
    producer.flush()
    if last is not None:
        last.result()


def _send_records(producer: Producer, load: Load, advance: Progress) -> None:
    values = load.values()
    failed: list[Exception] = []

    def delivered(error: Exception | None, metadata: object) -> None:
        if error is not None:
            failed.append(error)

    produce, topic = producer.produce, load.topic
    for start in range(0, load.records, len(values)):
        part = values[: load.records - start]
        for value in part:
            produce(topic, value, on_delivery=delivered)
        advance(len(part))
    producer.flush()
    if failed:
        raise failed[0]


def _send_deliveries(producer: Producer, load: Load, advance: Progress) -> None:
    values = load.values()
    for start in range(0, load.records, len(values)):
        part = values[: load.records - start]
        deliveries = [producer.send(load.topic, value) for value in part]
        for delivery in deliveries:
            delivery.result()
        advance(len(part))


_SENDERS = {"batch": _send_batches, "record": _send_records, "delivery": _send_deliveries}


@click.command(
    "consume",
    epilog=examples(
        "kafkalite perf consume --by arrow",
        "kafkalite perf consume -t orders -n 1000 -b localhost:9092",
    ),
)
@click.option(
    "--by",
    type=click.Choice(["batch", "list", "record", "arrow"]),
    default="batch",
    show_default=True,
    help="Method to call: batches(), consume(1000), poll(), or batches() to Arrow.",
)
@json_option
@cluster_options
@load_options(1_000_000)
def consume(load: Load, by: str, as_json: bool) -> None:
    """Measure how fast records are read. A new topic is filled first."""
    from ..consumer import Consumer
    from ..producer import Producer

    with load.cluster.admin(beside=True) as admin:
        places = [(load.topic, p.partition) for p in admin.describe_topic(load.topic).partitions]
        ends = admin.list_offsets(places, "latest")
        starts = admin.list_offsets(places, "earliest")
    missing = load.records - sum(ends[at].offset - starts[at].offset for at in ends)
    if missing > 0:
        say(f"filling {load.topic} with {missing} records ...")
        filling = Load(load.cluster, load.topic, missing, load.size)
        with Producer(config=load.cluster.keys()) as producer:
            _send_batches(producer, filling, lambda advance: None)
    with (
        Consumer(config=load.cluster.keys(enable_auto_commit="false")) as consumer,
        progress("consume", load.records, "records") as advance,
    ):
        consumer.assign(places)
        consumer.seek_to_beginning()
        seconds, cpu_s = _timed(lambda: _READERS[by](consumer, load.records, advance))
    answer_table([load.row(f"consume by {by}", seconds, cpu_s)], _COLUMNS, as_json=as_json)


def _read_batches(consumer: Consumer, count: int, advance: Progress) -> None:
    for batch in consumer.batches():
        advance(len(batch))
        count -= len(batch)
        if count <= 0:
            return


def _read_arrow(consumer: Consumer, count: int, advance: Progress) -> None:
    for batch in consumer.batches():
        batch.__arrow_c_stream__()
        advance(len(batch))
        count -= len(batch)
        if count <= 0:
            return


def _read_lists(consumer: Consumer, count: int, advance: Progress) -> None:
    while count > 0:
        records = consumer.consume(1_000, timeout=10)
        advance(len(records))
        count -= len(records)


def _read_records(consumer: Consumer, count: int, advance: Progress) -> None:
    left = count
    while left > 0:
        if consumer.poll(timeout=10) is not None:
            left -= 1
    # Once: a bar that moves with each record would be measured as well.
    advance(count)


_READERS = {
    "batch": _read_batches,
    "list": _read_lists,
    "record": _read_records,
    "arrow": _read_arrow,
}


@click.command(
    "e2e",
    epilog=examples("kafkalite perf e2e", "kafkalite perf e2e -n 100 --json -b localhost:9092"),
)
@json_option
@cluster_options
@load_options(1_000)
def e2e(load: Load, as_json: bool) -> None:
    """Measure the latency of one record at a time: sent, acknowledged, read."""
    from ..consumer import Consumer
    from ..producer import Producer

    (value,) = load.values(1)
    took: list[float] = []
    with (
        Producer(config=load.cluster.keys(linger_ms="0")) as producer,
        Consumer(config=load.cluster.keys(enable_auto_commit="false")) as consumer,
        progress("e2e", load.records, "records") as advance,
    ):
        place = producer.send(load.topic, value, partition=0).result(timeout=30)
        consumer.assign([(load.topic, 0)])
        consumer.seek((load.topic, 0), place.offset)
        consumer.poll(timeout=30)
        for _ in range(load.records):
            started = time.perf_counter()
            producer.send(load.topic, value, partition=0).result(timeout=30)
            while consumer.poll(timeout=30) is None:
                pass
            took.append((time.perf_counter() - started) * 1e3)
            advance(1)
    took.sort()
    told: dict[str, object] = {"test": "e2e", "records": len(took)}
    for name, share in [("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("max_ms", 1.0)]:
        told[name] = round(took[min(len(took) - 1, int(share * len(took)))], 3)
    answer_table([told], list(told), as_json=as_json)
