"""What a consumer may commit, and what not: of partitions lost, gone, made again, taken away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafkalite import AdminClient, Broker, Consumer, Record, TopicPartition, errors
from tests.clients.consumer.consuming import (
    PATIENCE_S,
    Cluster,
    numbered,
    part,
    read,
    settle,
    values,
)

#: Topics come when the test makes them, and consumers look at once.
NEVER = {"auto.create.topics.enable": False}
BY_HAND = {"enable_auto_commit": False}


@pytest.fixture
def own() -> Iterator[Broker]:
    """A broker whose topics may be deleted."""
    with Broker(topics=["gone", "stays"], config=NEVER) as broker:
        yield broker


def share(first: Consumer, second: Consumer) -> None:
    """Poll both until each has one partition."""
    deadline = time.monotonic() + PATIENCE_S
    while [len(one.assignment()) for one in (first, second)] != [1, 1]:
        assert time.monotonic() < deadline, (first.assignment(), second.assignment())
        first.poll(0.02)
        second.poll(0.02)


def last_of(records: list[Record[Any, Any]], number: int) -> Record[Any, Any]:
    """Return the last record of a partition."""
    return [record for record in records if record.partition == number][-1]


def test_what_another_member_has_by_now_is_not_committed(quick: Cluster) -> None:
    """A member that lost a partition rewound the new owner's commit, from 10 to 5."""
    topic, group = quick.topic(2), quick.group()
    for number in (0, 1):
        quick.write(topic, numbered(5), partition=number)
    settings: dict[str, Any] = {"group_id": group, "heartbeat_interval_ms": 50, **BY_HAND}
    with quick.consumer(topic, **settings) as first:
        records = read(first, 10)
        first.commit()
        with quick.consumer(topic, **settings) as second:
            share(first, second)
            (lost,), (held,) = second.assignment(), first.assignment()
            second.commit({lost: 10})
            refused = f"commit of {topic}-{lost.partition}"
            for old in (last_of(records, lost.partition), {lost: 5}):
                with pytest.raises(errors.RebalanceError, match=refused):
                    first.commit(old)
            assert second.committed(lost)[lost].offset == 10
            # No other member can have had this one.
            first.commit(last_of(records, held.partition))
            assert first.committed(held)[held].offset == 5


def test_a_batch_that_was_read_before_its_partition_was_lost_is_not_committed(
    quick: Cluster,
) -> None:
    """It came back to the member that had lost it, which then rewound its own group's commit."""
    topic, group = quick.topic(), quick.group()
    quick.write(topic, numbered(3))
    settings: dict[str, Any] = {"group_id": group, "max_poll_interval_ms": 300, **BY_HAND}
    with quick.consumer(topic, **settings) as consumer:
        batch = consumer.next_batch(timeout=PATIENCE_S)
        assert batch is not None
        with quick.consumer(topic, group_id=group, **BY_HAND) as other:
            read(other, 3)
            other.commit()
        settle(consumer, 1)
        quick.write(topic, numbered(1, "w"))
        read(consumer, 1)
        with pytest.raises(errors.RebalanceError, match="got it again since"):
            consumer.commit(batch)
        consumer.commit()
        assert consumer.committed(part(topic))[part(topic)].offset == 4


def test_a_commit_after_max_poll_interval_ms_is_refused(quick: Cluster) -> None:
    """It returned, and nothing was committed."""
    topic, group = quick.topic(), quick.group()
    quick.write(topic, numbered(3))
    settings: dict[str, Any] = {"group_id": group, "max_poll_interval_ms": 300, **BY_HAND}
    with quick.consumer(topic, **settings) as consumer:
        assert len(read(consumer, 3)) == 3
        with quick.consumer(topic, group_id=group, **BY_HAND) as other:
            # It has the partition when the member that does not come back is given up.
            read(other, 1)
        with pytest.raises(errors.RebalanceError):
            consumer.commit()
        # Reading on joins again, and what is read then can be committed.
        assert len(read(consumer, 1)) == 1
        consumer.commit()


def test_a_topic_that_is_gone_holds_up_no_other_ones_commit(own: Broker) -> None:
    """Nothing was committed when the consumer was closed, and the other's records came twice."""
    cluster = Cluster(own.bootstrap_servers)
    for name in ("gone", "stays"):
        cluster.write(name, numbered(5))
    with AdminClient(bootstrap_servers=own.bootstrap_servers) as admin:
        with cluster.consumer(group_id="g") as consumer:
            consumer.assign([part("gone"), part("stays")])
            read(consumer, 10)
            admin.delete_topic("gone")
            with pytest.raises(errors.UnknownTopicError, match="gone"):
                consumer.commit()
            assert consumer.committed(part("stays"))[part("stays")].offset == 5
            cluster.write("stays", numbered(1, "w"))
            read(consumer, 1)
        committed = admin.list_group_offsets("g")
    assert {of: told.offset for of, told in committed.items()} == {part("stays"): 6}


def test_what_is_read_of_a_topic_that_was_made_again_is_committed(own: Broker) -> None:
    """Ten of the former topic were committed, ten of the new one read: that was 10 already."""
    cluster = Cluster(own.bootstrap_servers)
    cluster.write("gone", numbered(10))
    settings = {"group_id": "g", "metadata_max_age_ms": 100}
    with AdminClient(bootstrap_servers=own.bootstrap_servers) as admin:
        with cluster.consumer(**settings) as consumer:
            consumer.assign([part("gone")])
            read(consumer, 10)
            consumer.commit()
            admin.delete_topic("gone")
            admin.create_topic("gone")
            cluster.write("gone", numbered(10, "w"))
            assert values(read(consumer, 10)) == numbered(10, "w")
        committed = admin.list_group_offsets("g")
    assert {of: told.offset for of, told in committed.items()} == {part("gone"): 10}


def test_assign_commits_what_is_done_of_what_it_takes_away(cluster: Cluster) -> None:
    """It dropped that: the partition was read from its last commit when it came back."""
    topic, group = cluster.topic(2), cluster.group()
    cluster.write(topic, numbered(5), partition=0)
    settings = {"group_id": group, "auto_commit_interval_ms": 600_000}
    with cluster.consumer(**settings) as consumer:
        consumer.assign([part(topic, 0)])
        read(consumer, 3)
        consumer.assign([part(topic, 1)])
        consumer.assign([part(topic, 0)])
        assert values(read(consumer, 2)) == [b"v3", b"v4"]


def test_a_failed_program_does_not_take_its_commit_back(cluster: Cluster) -> None:
    """The end of the block committed what was done: the records of all calls but the last."""
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(20))
    for first, second in ((5, 5), (4, 6)):
        with pytest.raises(ZeroDivisionError), cluster.consumer(topic, group_id=group) as consumer:
            read(consumer, first)
            last = read(consumer, second)[-1]
            consumer.commit(last)
            _ = 1 // 0
        with cluster.consumer(topic, group_id=group) as after:
            assert after.committed(part(topic))[part(topic)].offset == last.offset + 1


def test_automatic_commits_take_no_commit_back(cluster: Cluster) -> None:
    """The next one put the group back to what the call before the last had returned."""
    topic, group = cluster.topic(2), cluster.group()
    cluster.write(topic, numbered(4), partition=0)
    places = [part(topic, 0), part(topic, 1)]
    with cluster.consumer(group_id=group, auto_commit_interval_ms=50) as consumer:
        consumer.assign(places)
        read(consumer, 2)
        read(consumer, 2)
        consumer.commit()
        # An automatic commit carries all that is due: here is something, so that one is seen.
        cluster.write(topic, numbered(4), partition=1)
        consumer.seek(places[1], 3)
        deadline = time.monotonic() + PATIENCE_S
        offsets: dict[TopicPartition, int] = {}
        while offsets.get(places[1]) != 3:
            assert time.monotonic() < deadline, offsets
            offsets = {place: told.offset for place, told in consumer.committed(*places).items()}
        assert offsets[places[0]] == 4
