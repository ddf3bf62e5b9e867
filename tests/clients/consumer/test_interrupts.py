"""A deserializer that ends the program or its task, in place of failing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.clients.consumer.consuming import PATIENCE_S, Cluster, numbered, part, read, values


class Interrupted:
    """A deserializer whose third call raises; records are made again after that."""

    def __init__(self, what: type[BaseException]) -> None:
        """Raise ``what``."""
        self._what = what
        self._calls = 0

    def __call__(self, value: bytes) -> bytes:
        """Return the value."""
        self._calls += 1
        if self._calls == 3:
            raise self._what
        return value


@pytest.mark.parametrize("what", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_what_ends_a_program_passes_through_a_deserializer_and_no_record_is_lost(
    cluster: Cluster, what: type[BaseException]
) -> None:
    """Ctrl-C became a SerializationError, or was swallowed with records in front of it."""
    topic = cluster.topic()
    cluster.write(topic, numbered(5))
    with cluster.consumer(topic, value_deserializer=Interrupted(what)) as consumer:
        seen: list[Any] = []
        with pytest.raises(what):
            while len(seen) < 5:
                seen += values(consumer.consume(timeout=PATIENCE_S))
        assert seen + values(read(consumer, 5 - len(seen))) == numbered(5)
    with cluster.consumer(topic, value_deserializer=Interrupted(what)) as consumer:
        one_by_one = [consumer.poll(PATIENCE_S), consumer.poll(PATIENCE_S)]
        with pytest.raises(what):
            consumer.poll(PATIENCE_S)
        one_by_one += [consumer.poll(PATIENCE_S) for _ in range(3)]
        assert [record and record.value for record in one_by_one] == numbered(5)
    with cluster.consumer(topic, value_deserializer=Interrupted(what)) as consumer:
        batches = []
        with pytest.raises(what):
            while batch := consumer.next_batch(timeout=1):
                batches.append(batch)
                batch.values()
        assert batches[-1].values() == numbered(5)[-len(batches[-1]) :]


@pytest.mark.parametrize("how", ["commit", "position", "close"])
def test_a_commit_in_a_deserializer_counts_no_record_of_its_own_call(
    cluster: Cluster, how: str
) -> None:
    """The call then failed, and the records that it had taken were lost: they were committed."""
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(5))

    def deserialize(value: bytes) -> bytes:
        if value == numbered(5)[3]:
            if how == "close":
                consumer.close()
            elif how == "commit":
                consumer.commit()
            else:
                place = part(topic)
                at, lag = consumer.position(place), consumer.lag()[place]
                assert lag == 5 - at
                consumer.commit({place: at})
            raise SystemExit
        return value

    settings: dict[str, Any] = {"group_id": group, "enable_auto_commit": how == "close"}
    with cluster.consumer(topic, value_deserializer=deserialize, **settings) as consumer:
        seen = read(consumer, 1)
        with pytest.raises(SystemExit):
            while len(seen) < 5:
                seen += consumer.consume(5, timeout=PATIENCE_S)
    with cluster.consumer(topic, **settings) as consumer:
        assert values(seen + read(consumer, 5 - len(seen))) == numbered(5)
