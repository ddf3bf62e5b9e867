"""Handlers of signals that raise while a consumer takes records."""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, repeat
from typing import Any

import pytest

from kafkalite import Consumer
from tests.clients.consumer.consuming import PATIENCE_S, Cluster, numbered, read, values


def interrupting() -> Iterator[Any]:
    """Mark Ctrl-C as pressed at the first element, which is ``None``.

    No Python code runs for that, so the handler waits until the interpreter looks for signals.
    """
    return map(_thread.interrupt_main, [signal.SIGINT])


def deserializer(before: Iterable[bytes | None]) -> Callable[[bytes], Any]:
    """Return values of its own for the first records, then Ctrl-C comes, then records as they are.

    It is ``next(iterator, value)``, in which no Python code runs either.
    """
    return partial(next, chain(before, interrupting()))


def polls(consumer: Consumer, seen: list[Any]) -> None:
    while record := consumer.poll(PATIENCE_S):
        seen.append(record.value)


def consumes(consumer: Consumer, seen: list[Any]) -> None:
    while records := consumer.consume(timeout=PATIENCE_S):
        seen += values(records)


def iterates(consumer: Consumer, seen: list[Any]) -> None:
    seen.extend(record.value for record in consumer)


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("reads", [polls, consumes, iterates])
def test_ctrl_c_while_records_are_taken_loses_none_of_them(
    cluster: Cluster, reads: Callable[[Consumer, list[Any]], None], count: int
) -> None:
    """A plain close committed records that the program never saw."""
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(5))
    seen: list[Any] = []
    made = deserializer(numbered(count))
    consumer = cluster.consumer(topic, group_id=group, value_deserializer=made)
    with pytest.raises(KeyboardInterrupt):
        reads(consumer, seen)
    consumer.close()
    with cluster.consumer(topic, group_id=group) as other:
        assert seen + values(read(other, 5 - len(seen))) == numbered(5)


def test_ctrl_c_while_a_record_is_taken_leaves_it_the_next_one(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(5))
    with cluster.consumer(topic, value_deserializer=deserializer(numbered(2))) as consumer:
        seen: list[Any] = []
        with pytest.raises(KeyboardInterrupt):
            polls(consumer, seen)
        assert seen == numbered(2)
        assert [values(read(consumer, 1)) for _ in range(3)] == [[b"v2"], [b"v3"], [b"v4"]]


def test_ctrl_c_while_a_batch_is_taken_loses_none_of_its_records(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(5))
    interrupts = filter(None, chain(interrupting(), repeat(PATIENCE_S)))

    class Timeout:
        __float__ = staticmethod(partial(next, interrupts))

    consumer = cluster.consumer(topic, group_id=group)
    # So that it has its partition, and records lie ready.
    assert values(consumer.consume(1, timeout=PATIENCE_S)) == [b"v0"]
    with pytest.raises(KeyboardInterrupt):
        consumer._native.next_batch(100, 1 << 20, Timeout())  # type: ignore[arg-type]
    consumer.close()
    with cluster.consumer(topic, group_id=group) as other:
        assert values(read(other, 4)) == numbered(5)[1:]
