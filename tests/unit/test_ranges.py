"""Range readers: each range once, to its end. What is in their columns is judged with Spark's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from kafkalite import AdminClient, ConfigError, KafkaliteError
from kafkalite.errors import IllegalStateError, InvalidArgumentError
from kafkalite.ranges import RangeReader
from tests.harness.process import Process

_numbers = itertools.count()


@pytest.fixture
def topic(broker: Process) -> str:
    """A topic of two partitions with 1,000 records each."""
    name = f"ranges-{next(_numbers)}"
    with AdminClient(bootstrap_servers=broker.ready) as admin:
        admin.create_topic(name, partitions=2)
    producer = Producer({"bootstrap.servers": broker.ready})
    for number in range(2_000):
        producer.produce(name, str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def reader(broker: Process) -> Iterator[RangeReader]:
    """A reader of the broker."""
    with RangeReader(bootstrap_servers=broker.ready) as made:
        yield made


def test_ranges_are_read_to_their_ends_and_a_reader_goes_on_with_others(
    topic: str, reader: RangeReader
) -> None:
    for start, end in [(0, 1_000), (17, 400), (5, 5)]:
        batches = list(reader.read([(topic, 0, start, end), (topic, 1, start, end)], batch_rows=64))
        assert sum(map(len, batches)) == 2 * (end - start)
        assert max(map(len, batches), default=0) <= 64


def test_nothing_is_read_of_a_topic_that_was_made_again(broker: Process, topic: str) -> None:
    with (
        AdminClient(bootstrap_servers=broker.ready) as admin,
        RangeReader(bootstrap_servers=broker.ready) as reader,
    ):
        ids = {topic: str(admin.describe_topic(topic).topic_id)}
        assert sum(map(len, reader.read([(topic, 0, 0, 9)], topic_ids=ids))) == 9
        admin.delete_topic(topic)
        admin.create_topic(topic)
        producer = Producer({"bootstrap.servers": broker.ready})
        for _ in range(20):
            producer.produce(topic, b"of another topic")
        assert producer.flush(30) == 0
        with pytest.raises(KafkaliteError, match=r"UNKNOWN_TOPIC_ID.*deleted and made again"):
            list(reader.read([(topic, 0, 9, 12)], topic_ids=ids))
        assert list(reader.read([(topic, 0, 9, 12)], topic_ids=ids, may_lose=True)) == []
        assert reader.lost == 3
        ids = {topic: str(admin.describe_topic(topic).topic_id)}
        assert sum(map(len, reader.read([(topic, 0, 9, 12)], topic_ids=ids))) == 3


def test_an_id_that_is_none_is_refused(topic: str, reader: RangeReader) -> None:
    with pytest.raises(ValueError, match="`x` is no id of a topic"):
        reader.read([(topic, 0, 0, 1)], topic_ids={topic: "x"})


def test_a_reader_that_stops_early_may_read_something_else(topic: str, reader: RangeReader) -> None:
    batches = reader.read([(topic, 0, 0, 1_000)], batch_rows=10)
    assert len(next(batches)) == 10
    del batches
    assert sum(map(len, reader.read([(topic, 1, 990, 1_000)]))) == 10


def test_an_iterator_stops_nothing_of_the_ranges_that_replaced_its_own(
    topic: str, reader: RangeReader
) -> None:
    """The drop of the iterator before ended the next one, which yielded nothing."""
    first, second = [(topic, 0, 0, 1_000)], [(topic, 1, 0, 500)]
    batches = reader.read(first, batch_rows=10)
    assert len(next(batches)) == 10
    batches = reader.read(second, batch_rows=10)
    assert sum(map(len, batches)) == 500
    batches = reader.read(first, batch_rows=10, columns=["value"])
    assert len(next(batches)) == 10
    others = reader.read(second, batch_rows=10)
    with pytest.raises(IllegalStateError, match=r"a later read\(\) of this reader"):
        next(batches)
    assert sum(map(len, others)) == 500


def test_a_read_that_is_refused_leaves_the_one_before_as_it_is(
    topic: str, reader: RangeReader
) -> None:
    """Its iterator neither went on nor ended."""
    batches = reader.read([(topic, 0, 0, 1_000)], batch_rows=10)
    assert len(next(batches)) == 10
    with pytest.raises(InvalidArgumentError, match="has two"):
        reader.read([(topic, 0, 0, 5), (topic, 0, 5, 9)], columns=["value"], batch_rows=1)
    assert [len(batch) for batch in batches] == [10] * 99


def test_offsets_that_are_gone_are_an_error_or_counted(topic: str, reader: RangeReader) -> None:
    with pytest.raises(KafkaliteError, match=r"OFFSET_OUT_OF_RANGE.*2000 to 2009 of .* are gone"):
        list(reader.read([(topic, 0, 2_000, 2_010)]))
    assert list(reader.read([(topic, 0, 2_000, 2_010)], may_lose=True)) == []
    assert reader.lost == 10


@pytest.mark.parametrize(
    ("ranges", "columns", "words"),
    [
        ([("t", 0, 0, 5), ("t", 0, 5, 9)], ["value"], "t-0 has two"),
        ([("t", 0, -2, 5)], ["value"], "t-0 begins at -2"),
        ([("t", 0, 0, 5)], ["values"], "no column `values`: there are key"),
    ],
)
def test_what_cannot_be_read_is_refused_at_once(
    reader: RangeReader, ranges: list[tuple[str, int, int, int]], columns: list[str], words: str
) -> None:
    with pytest.raises((ValueError, KafkaliteError), match=words):
        reader.read(ranges, columns=columns)


def test_a_key_that_no_consumer_has_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"fetch\.min\.byte"):
        RangeReader(config={"fetch.min.byte": 1})
