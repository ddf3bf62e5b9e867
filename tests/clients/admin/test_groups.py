"""The admin client against a broker: groups and what they committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

import kafkalite as kl
from kafkalite import CommittedOffset, TopicPartition


@pytest.fixture
def topic(admin: kl.AdminClient, kafkalite_bootstrap: str, name: str) -> str:
    """A topic of two partitions with ten records in the first."""
    admin.create_topic(name, partitions=2)
    producer = Producer({"bootstrap.servers": kafkalite_bootstrap})
    for _ in range(10):
        producer.produce(name, b"v", partition=0)
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def member(kafkalite_bootstrap: str, topic: str) -> Iterator[Consumer]:
    """A consumer in a group that is named as its topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafkalite_bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "client.id": "a-member",
        }
    )
    consumer.subscribe([topic])
    assert consumer.poll(30) is not None
    yield consumer
    consumer.close()


def test_a_group_lists_its_members(admin: kl.AdminClient, topic: str, member: Consumer) -> None:
    group = admin.describe_group(topic)
    assert (group.state, group.protocol_type, group.protocol) == ("Stable", "consumer", "range")
    (only,) = group.members
    assert (only.client_id, only.topics) == ("a-member", (topic,))
    assert only.assignment == (TopicPartition(topic, 0), TopicPartition(topic, 1))
    assert only.member_id == member.memberid()
    listed = {each.group_id: each for each in admin.list_groups()}
    assert (listed[topic].state, listed[topic].coordinator) == ("Stable", group.coordinator)
    assert topic in [each.group_id for each in admin.list_groups(states=["Stable"])]
    assert topic not in [each.group_id for each in admin.list_groups(states=["Empty"])]


@pytest.mark.usefixtures("member")
def test_a_group_with_members_is_left_alone(admin: kl.AdminClient, topic: str) -> None:
    with pytest.raises(kl.GroupNotEmptyError, match="NON_EMPTY_GROUP") as info:
        admin.delete_group(topic)
    assert info.value.hint == "stop the group's consumers first."
    with pytest.raises(kl.GroupNotEmptyError):
        admin.alter_group_offsets(topic, {(topic, 0): 1})
    with pytest.raises(kl.GroupError, match="GROUP_SUBSCRIBED_TO_TOPIC"):
        admin.delete_group_offsets(topic, [(topic, 0)])


def test_commits_are_made_listed_and_removed(admin: kl.AdminClient, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin.alter_group_offsets(topic, {first: 3, second: CommittedOffset(0, metadata="mine")})
    committed = admin.list_group_offsets(topic)
    assert committed == {first: CommittedOffset(3), second: CommittedOffset(0, metadata="mine")}
    assert list(admin.list_group_offsets(topic, [second])) == [second]
    admin.delete_group_offsets(topic, [second])
    assert list(admin.list_group_offsets(topic)) == [first]
    admin.delete_group(topic)
    assert admin.list_group_offsets(topic) == {}


def test_lag_counts_what_is_still_there_to_read(admin: kl.AdminClient, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    admin.alter_group_offsets(topic, {partition: 3})
    lag = admin.group_lag(topic)[partition]
    assert (lag.committed, lag.start, lag.end, lag.lag) == (3, 0, 10, 7)
    admin.delete_records({partition: 6})
    assert admin.group_lag(topic)[partition].lag == 4


def test_a_group_is_reset_to_a_place(admin: kl.AdminClient, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    admin.alter_group_offsets(topic, {partition: 3})
    for place, offset in [("latest", 10), ("earliest", 0), (4_000_000_000_000, 10)]:
        reset = admin.reset_group_offsets(topic, place)  # type: ignore[arg-type]
        assert reset[partition].offset == offset, place
        assert admin.list_group_offsets(topic)[partition].offset == offset
    fresh = admin.reset_group_offsets(f"{topic}-fresh", "earliest", [partition])
    assert fresh == {partition: CommittedOffset(0, fresh[partition].leader_epoch)}


def test_an_unknown_group(admin: kl.AdminClient, name: str) -> None:
    with pytest.raises(kl.GroupNotFoundError, match="GROUP_ID_NOT_FOUND"):
        admin.describe_group(name)
    with pytest.raises(kl.GroupNotFoundError):
        admin.delete_group(name)
    admin.delete_group(name, missing_ok=True)
    assert admin.list_group_offsets(name) == {}
    assert admin.group_lag(name) == {}


def test_what_one_call_tells_by_partition_another_one_takes(
    admin: kl.AdminClient, kafkalite_bootstrap: str, topic: str
) -> None:
    """Type checkers took no mapping of partitions for one of pairs: of this, they are the judge."""
    pairs = {(topic, 0): 4}
    admin.alter_group_offsets(topic, pairs)
    admin.alter_group_offsets(f"{topic}-2", admin.list_group_offsets(topic))
    settings: dict[str, Any] = {"group_id": f"{topic}-2", "bootstrap_servers": kafkalite_bootstrap}
    with kl.Consumer(**settings) as consumer:
        consumer.assign(list(pairs))
        assert consumer.committed()[TopicPartition(topic, 0)].offset == 4
        consumer.commit(consumer.end_offsets())
        consumer.commit(pairs)
        assert consumer.committed()[TopicPartition(topic, 0)].offset == 4
        ends = consumer.end_offsets()
        assert consumer.offsets_for_times(dict.fromkeys(ends, 0)).keys() == ends.keys()
        assert admin.delete_records(ends) == {TopicPartition(topic, 0): 10}
