"""``kafkalite consume`` without a group: what comes later is read, from its beginning."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable

import pytest

from kafkalite import AdminClient, Consumer, Producer
from kafkalite.cli.connecting import Cluster
from kafkalite.cli.places import PlaceValue
from kafkalite.cli.readers import alone
from tests.harness.process import PATIENCE_S, Process

_PLACES = [None, PlaceValue(word="earliest"), PlaceValue(offset=-1)]


@pytest.fixture
def topic(broker: Process) -> str:
    """A topic of one partition with two records."""
    name = f"follow-{uuid.uuid4().hex[:8]}"
    with AdminClient(bootstrap_servers=broker.ready) as admin:
        admin.create_topic(name)
    write(broker, name, {0: "old"})
    write(broker, name, {0: "last"})
    return name


def write(broker: Process, topic: str, values: dict[int, str]) -> None:
    """Append a value to each of these partitions."""
    with Producer(bootstrap_servers=broker.ready) as producer:
        for partition, value in values.items():
            sent = producer.send(topic, value.encode(), partition=partition)
            sent.result(timeout=PATIENCE_S)


def reader(broker: Process, words: Iterable[str], place: PlaceValue | None) -> Consumer:
    """What the command reads with; it looks for what is new ten times a second."""
    cluster = Cluster(broker.ready, {"metadata.max.age.ms": "100"})
    return alone(cluster, tuple(words), place, to_end=False)[0]


def read(consumer: Consumer, last: Iterable[str]) -> list[str]:
    """The values that come until all of ``last`` have, sorted."""
    left, found = set(last), list[str]()
    deadline = time.monotonic() + PATIENCE_S
    while left:
        assert time.monotonic() < deadline, found
        for record in consumer.consume(100, timeout=0.1):
            assert record.value is not None
            found.append(record.value.decode())
            left.discard(found[-1])
    return sorted(found)


@pytest.mark.parametrize(
    ("place", "before"),
    list(zip(_PLACES, [[], ["last", "old"], ["last"]], strict=True)),
)
def test_new_partitions_are_read_from_their_beginning(
    broker: Process, topic: str, place: PlaceValue | None, before: list[str]
) -> None:
    """They were never read."""
    with reader(broker, [topic], place) as consumer:
        assert read(consumer, before) == before
        with AdminClient(bootstrap_servers=broker.ready) as admin:
            admin.create_partitions(topic, 3)
        write(broker, topic, {0: "a", 1: "b", 2: "c"})
        assert read(consumer, "abc") == ["a", "b", "c"]


def test_a_topic_that_is_made_again_with_more_partitions_is_read_whole(
    broker: Process, topic: str
) -> None:
    with (
        reader(broker, [topic], None) as consumer,
        AdminClient(bootstrap_servers=broker.ready) as admin,
    ):
        write(broker, topic, {0: "a"})
        assert read(consumer, "a") == ["a"]
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=2)
        write(broker, topic, {0: "b", 1: "c"})
        assert read(consumer, "bc") == ["b", "c"]


@pytest.mark.parametrize("more", [[], ["other"]])
def test_a_new_topic_that_matches_is_read_from_its_beginning(
    broker: Process, topic: str, more: list[str]
) -> None:
    with AdminClient(bootstrap_servers=broker.ready) as admin:
        for name in more:
            admin.create_topic(name, exist_ok=True)
        with reader(broker, [f"^{topic}.*", *more], None) as consumer:
            admin.create_topic(f"{topic}-2")
            write(broker, f"{topic}-2", {0: "new"})
            write(broker, topic, {0: "next"})
            assert read(consumer, ["new", "next"]) == ["new", "next"]


def test_an_expression_that_only_python_knows_reads_the_topics_that_there_are(
    broker: Process, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with reader(broker, [f"^(?!x){topic}"], PlaceValue(word="earliest")) as consumer:
        assert read(consumer, ["old", "last"]) == ["last", "old"]
    assert "topics that come later are not read" in capsys.readouterr().err


def test_a_topic_that_is_deleted_is_not_made_by_its_reader(broker: Process, topic: str) -> None:
    with (
        reader(broker, [topic], None) as consumer,
        AdminClient(bootstrap_servers=broker.ready) as admin,
    ):
        admin.delete_topic(topic)
        for _ in range(20):
            consumer.consume(1, timeout=0.1)
        assert topic not in [one.name for one in admin.list_topics()]
