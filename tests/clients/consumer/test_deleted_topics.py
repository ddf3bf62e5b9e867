"""Topics that are deleted while a consumer reads them, and stay away."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite import AdminClient, Broker, errors
from tests.clients.consumer.consuming import Cluster, numbered, part, read, settle, values


def test_a_topic_that_is_deleted_is_given_up_and_delays_no_commit() -> None:
    never = {"auto.create.topics.enable": False}
    with (
        Broker(topics=["gone", "stays"], config=never) as broker,
        AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        cluster = Cluster(broker.bootstrap_servers)
        cluster.write("gone", numbered(1))
        cluster.write("stays", numbered(1))
        settings: dict[str, Any] = {"group_id": "g", "metadata_max_age_ms": 100}
        with cluster.consumer("gone", "stays", **settings) as consumer:
            read(consumer, 2)
            admin.delete_topic("gone")
            settle(consumer, 1)
            assert consumer.assignment() == [part("stays")]
            cluster.write("stays", numbered(1, "w"))
            assert values(read(consumer, 1)) == [b"w0"]
            consumer.commit()
            assert consumer.committed(part("stays"))[part("stays")].offset == 2


def test_a_commit_for_a_topic_that_is_not_there_is_refused_without_another_try() -> None:
    never = {"auto.create.topics.enable": False}
    with Broker(topics=["there"], config=never) as broker:
        cluster = Cluster(broker.bootstrap_servers)
        with cluster.consumer("there", group_id="g", enable_auto_commit=False) as consumer:
            settle(consumer, 1)
            with pytest.raises(errors.UnknownTopicError, match="commit of missing-0"):
                consumer.commit({("missing", 0): 1})
        commits = [one for one in broker.recent_requests() if one.api == "OffsetCommit"]
        assert len(commits) == 1
