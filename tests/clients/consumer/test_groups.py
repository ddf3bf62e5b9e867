"""Groups of our consumers alone: what changes hands, and what is subscribed to."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from kafkalite import Consumer, TopicPartition, errors
from tests.clients.consumer.consuming import (
    PATIENCE_S,
    Cluster,
    numbered,
    part,
    read,
    settle,
    values,
)


def test_a_member_with_the_name_of_another_takes_its_place(quick: Cluster) -> None:
    topic, group = quick.topic(), quick.group()
    settings: dict[str, Any] = {"group_id": group, "group_instance_id": "one"}
    settings["heartbeat_interval_ms"] = 50
    with quick.consumer(topic, **settings) as first:
        settle(first, 1)
        with quick.consumer(topic, **settings) as second:
            settle(second, 1)
            with pytest.raises(errors.FencedInstanceError) as told:
                deadline = time.monotonic() + PATIENCE_S
                while time.monotonic() < deadline:
                    first.poll(0.05)
            assert told.value.fatal


def test_listeners_see_what_changes_hands_before_it_does(quick: Cluster) -> None:
    topic, group = quick.topic(2), quick.group()
    quick.write(topic, numbered(4), partition=0)
    seen: list[tuple[str, list[TopicPartition]]] = []

    def assigned(partitions: list[TopicPartition]) -> None:
        seen.append(("assign", partitions))
        for partition in partitions:
            if partition.partition == 0:
                consumer.seek(partition, 3)

    def revoked(partitions: list[TopicPartition]) -> None:
        seen.append(("revoke", partitions))
        assert set(partitions) <= set(consumer.assignment())
        consumer.commit(dict.fromkeys(partitions, 1))

    settings: dict[str, Any] = {"heartbeat_interval_ms": 50, "enable_auto_commit": False}
    consumer = quick.consumer(
        topic, group_id=group, on_assign=assigned, on_revoke=revoked, **settings
    )
    with consumer:
        assert values(read(consumer, 1)) == [b"v3"]
        both = [part(topic, 0), part(topic, 1)]
        assert seen == [("assign", both)]
        with quick.consumer(topic, group_id=group) as other:
            deadline = time.monotonic() + PATIENCE_S
            while len(other.assignment()) != 1:
                assert time.monotonic() < deadline
                consumer.poll(0.02)
                other.poll(0.02)
            while len(seen) < 3:
                consumer.poll(0.02)
            assert seen[1] == ("revoke", both)
            assert seen[2][0] == "assign"
            assert {place.offset for place in other.committed(*both).values()} == {1}
    assert seen[-1][0] == "revoke"


def test_a_listener_that_fails_fails_the_call_and_the_group_goes_on(quick: Cluster) -> None:
    topic, group = quick.topic(), quick.group()
    quick.write(topic, numbered(1))

    def assigned(_: list[TopicPartition]) -> None:
        raise LookupError

    with quick.consumer(topic, group_id=group, on_assign=assigned) as consumer:
        with pytest.raises(LookupError):
            consumer.poll(PATIENCE_S)
        assert values(read(consumer, 1)) == [b"v0"]


def test_a_program_that_does_not_come_back_loses_its_partitions_until_it_does(
    quick: Cluster,
) -> None:
    topic, group = quick.topic(), quick.group()
    quick.write(topic, numbered(3))
    seen: list[str] = []
    settings: dict[str, Any] = {
        "on_assign": lambda _: seen.append("assign"),
        "on_lost": lambda _: seen.append("lost"),
        "max_poll_interval_ms": 300,
        "enable_auto_commit": False,
    }
    with quick.consumer(topic, group_id=group, **settings) as consumer:
        assert values(read(consumer, 1)) == [b"v0"]
        with quick.consumer(topic, group_id=group) as other:
            assert values(read(other, 1)) == [b"v0"]
        with pytest.raises(errors.RebalanceError):
            consumer.commit()
        assert values(read(consumer, 1)) == [b"v1"]
        # Once more for each time that the machine stood still for so long.
        assert seen == ["assign", *["lost", "assign"] * max(1, len(seen) // 2)]


def test_unsubscribing_commits_and_leaves_and_another_subscription_joins_again(
    quick: Cluster,
) -> None:
    topic, second, group = quick.topic(), quick.topic(), quick.group()
    quick.write(topic, numbered(3))
    quick.write(second, numbered(1, "second"))
    with quick.consumer(topic, group_id=group) as consumer:
        read(consumer, 2)
        consumer.unsubscribe()
        assert consumer.assignment() == []
        with quick.consumer(topic, group_id=group) as other:
            assert values(read(other, 1)) == [b"v2"]
        consumer.subscribe(second)
        assert values(read(consumer, 1)) == [b"second0"]
        assert consumer.subscription() == [second]


@pytest.mark.parametrize(
    "pattern",
    [
        lambda topic: re.compile(topic.upper(), re.IGNORECASE),
        lambda topic: re.compile(f"{topic}   # a topic", re.VERBOSE),
        lambda topic: re.compile(topic),
    ],
)
def test_a_compiled_pattern_matches_as_its_flags_say(
    quick: Cluster, pattern: Callable[[str], re.Pattern[str]]
) -> None:
    topic = quick.topic()
    quick.write(topic, numbered(1))
    with quick.consumer(pattern(topic), group_id=quick.group()) as consumer:
        assert values(read(consumer, 1)) == [b"v0"]
        assert consumer.assignment() == [part(topic)]


def test_after_another_subscription_nothing_of_the_one_before_is_handed_out(quick: Cluster) -> None:
    topic, second = quick.topic(), quick.topic()
    quick.write(topic, numbered(3))
    quick.write(second, numbered(1, "second"))
    with quick.consumer(topic, group_id=quick.group()) as consumer:
        # The others are fetched by now: they came with this one.
        assert values(read(consumer, 1)) == [b"v0"]
        consumer.subscribe(second)
        assert values(read(consumer, 1)) == [b"second0"]


def test_topics_that_grow_are_assigned_again(quick: Cluster) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

    topic, group = quick.topic(), quick.group()
    quick.write(topic, numbered(1))
    with quick.consumer(topic, group_id=group, metadata_max_age_ms=100) as consumer:
        read(consumer, 1)
        admin = AdminClient({"bootstrap.servers": quick.bootstrap})
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
        settle(consumer, 3)
        quick.write(topic, [b"new"], partition=2)
        assert values(read(consumer, 1)) == [b"new"]


def test_a_group_of_one_assignor_and_a_member_of_another_do_not_mix(quick: Cluster) -> None:
    topic, group = quick.topic(), quick.group()

    def consumer(strategy: str) -> Consumer:
        return quick.consumer(topic, group_id=group, partition_assignment_strategy=strategy)

    with consumer("range") as first:
        settle(first, 1)
        with consumer("sticky") as second:
            for _ in range(2):
                with pytest.raises(errors.GroupError, match="INCONSISTENT_GROUP_PROTOCOL"):
                    second.poll(PATIENCE_S)
