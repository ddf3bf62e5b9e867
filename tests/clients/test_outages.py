"""Clients while a broker of ours is killed and comes back."""

from __future__ import annotations

import threading

import kafkalite as kl


def has_been_made(admin: kl.AdminClient, name: str) -> bool:
    """Whether the topic is there: a machine that stands still is not reached in a short time."""
    try:
        admin.create_topic(name, exist_ok=True)
    except kl.NoBrokerReachable:
        return False
    return True


def test_a_call_outlives_a_broker_that_is_killed_and_comes_back(name: str) -> None:
    with (
        kl.Broker() as broker,
        kl.AdminClient(
            bootstrap_servers=broker.bootstrap_servers, kafkalite_bootstrap_timeout_ms=50
        ) as admin,
    ):
        while not has_been_made(admin, name):
            pass
        broker.kill()
        found: list[str] = []
        call = threading.Thread(
            target=lambda: found.extend(topic.name for topic in admin.list_topics())
        )
        call.start()
        broker.start()
        call.join(60)
        assert found == [name]


def test_a_group_outlives_its_coordinator(name: str) -> None:
    with kl.Broker() as broker, kl.AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(name)
        admin.alter_group_offsets(name, {(name, 0): 0})
        broker.restart()
        assert admin.describe_group(name).state == "Empty"
        assert admin.group_lag(name)[kl.TopicPartition(name, 0)].lag == 0
