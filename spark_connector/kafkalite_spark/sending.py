"""What a task of a sink does: sends its rows with a producer that its worker process keeps.

Idempotent and acks=all: a task returns when every row is acknowledged. A task that Spark runs again
sends its rows again: at least once, as Spark's own sink.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import WriterCommitMessage

from .clients import Clients
from .errors import WriteError
from .kafka_keys import told
from .options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalite.producer import Producer

__all__ = ["Sent", "send_rows"]

#: Batches under way before the first of them is waited for.
UNDER_WAY = 8


@dataclass
class Sent(WriterCommitMessage):
    """What a task delivered."""

    rows: int


def _producer(config: dict[str, str]) -> Producer:
    from kafkalite.producer import Producer

    return Producer(config=config)


#: Of a task that failed none is kept: whatever it holds is sent again by the next try.
_producers = Clients(_producer)


def send_rows(
    batches: Iterator[pa.RecordBatch],
    options: WriteOptions,
    clock: Callable[[], float] = time.monotonic,
) -> Sent:
    """Send all rows and wait until each is acknowledged.

    A producer that has reached no broker yet gives up within seconds; one that has waits for
    ``delivery.timeout.ms``. Whether a task has a new worker changes nothing: it waits as long.

    Raises:
        WriteError: A row without a topic, or what the brokers refuse.
    """
    from kafkalite.errors import KafkaliteError

    rows = 0
    patience_s = _delivery_timeout_s(options.kafka)
    under_way: deque[Any] = deque()
    try:
        with _producers.lent(options.kafka) as producer:
            for batch in batches:
                for topic, part in _by_topic(batch, options.topic):
                    send = _sending(producer, topic, part)
                    under_way.append(_when_reached(send, patience_s, clock))
                    rows += part.num_rows
                while len(under_way) > UNDER_WAY:
                    under_way.popleft().result()
            if under_way:
                producer.flush()
            for delivery in under_way:
                delivery.result()
    except (KafkaliteError, ValueError) as error:
        raise WriteError(told(error)) from error
    return Sent(rows)


def _by_topic(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    if batch.num_rows == 0:
        return
    if topic is not None:
        yield topic, batch
        return
    import pyarrow.compute as pc

    column = batch.column("topic")
    for name in pc.unique(column).to_pylist():
        if name is None:
            raise WriteError("a row without a topic: its column `topic` is null")
        yield name, batch.filter(pc.equal(column, name))


def _sending(producer: Producer, topic: str, batch: pa.RecordBatch) -> Callable[[], Any]:
    columns = ("key", "value", "partition", "headers")
    wanted = batch.select([name for name in columns if name in batch.schema.names])
    return lambda: producer.send_batch(topic, wanted)


def _when_reached(send: Callable[[], Any], patience_s: float, clock: Callable[[], float]) -> Any:
    """Send when a broker is reached: a try looks for one for seconds, and sends nothing else."""
    from kafkalite.errors import NoBrokerReachable

    until = clock() + patience_s
    while True:
        try:
            return send()
        except NoBrokerReachable:
            if clock() >= until:
                raise


def _delivery_timeout_s(kafka: Mapping[str, str]) -> float:
    from kafkalite.config_table import client_keys

    name = "delivery.timeout.ms"
    default = next(row.default for row in client_keys() if row.name == name)
    return int(kafka.get(name) or default or 0) / 1_000
