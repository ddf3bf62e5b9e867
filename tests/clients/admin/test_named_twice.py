"""One thing that a call names twice: it is asked for once, and the call has its answer.

It failed as if the cluster had left the second one out of its answer.
"""

from __future__ import annotations

import pytest

import kafkalite as kl
from kafkalite import ConfigResource


def test_an_admin_client_may_name_a_thing_twice(admin: kl.AdminClient, name: str) -> None:
    admin.create_topic(name)
    place = kl.TopicPartition(name, 0)
    twice = [place, (name, 0)]
    assert list(admin.describe_topics([name, name])) == [name]
    assert list(admin.describe_configs([ConfigResource("topic", name)] * 2)) == [
        ConfigResource("topic", name)
    ]
    assert list(admin.list_offsets(twice)) == [place]
    assert list(admin.elect_leaders(twice)) == [place]
    assert admin.list_reassignments(twice) == {}
    (broker, *_) = admin.describe_cluster().brokers
    assert list(admin.describe_log_dirs([broker.id, broker.id])) == [broker.id]
    group = f"{name}-group"
    admin.alter_group_offsets(group, {place: 0})
    assert list(admin.describe_groups([group, group])) == [group]
    assert list(admin.list_group_offsets(group, twice)) == [place]
    assert list(admin.reset_group_offsets(group, "latest", partitions=twice)) == [place]
    admin.delete_group_offsets(group, twice)
    assert admin.list_group_offsets(group) == {}
    admin.delete_groups([group, group])
    admin.delete_topics([name, name])
    assert name not in [topic.name for topic in admin.list_topics()]


def test_one_thing_that_fails_is_one_failure_though_it_is_named_twice(
    admin: kl.AdminClient, name: str
) -> None:
    with pytest.raises(kl.UnknownTopicError):
        admin.describe_topics([name, name])


def test_a_consumer_may_name_a_partition_twice(
    kafkalite_bootstrap: str, admin: kl.AdminClient, name: str
) -> None:
    admin.create_topic(name)
    place = kl.TopicPartition(name, 0)
    with kl.Consumer(bootstrap_servers=kafkalite_bootstrap, group_id=name) as consumer:
        consumer.assign([place, place])
        assert consumer.assignment() == [place]
        consumer.commit({place: 0})
        assert list(consumer.committed(place, place)) == [place]
        assert consumer.end_offsets(place, place) == {place: 0}
        consumer.seek_to_end(place, place)
        consumer.pause(place, place)
        assert consumer.paused() == [place]
        assert list(consumer.lag(place, place)) == [place]
