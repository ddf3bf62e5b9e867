"""What a consumer looks like."""

from __future__ import annotations

import kafkalite as kl

PATIENCE_S = 30.0


def test_a_consumer_tells_group_topics_and_partitions() -> None:
    with (
        kl.Broker(topics={"t": 2}) as broker,
        kl.Consumer(
            "t",
            group_id="g",
            bootstrap_servers=broker.bootstrap_servers,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        assert repr(consumer) == "<kafkalite.Consumer open, group 'g', subscribed to t>"
        with kl.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("t", b"v")
        assert consumer.poll(timeout=PATIENCE_S) is not None
        assert repr(consumer) == (
            "<kafkalite.Consumer open, group 'g', subscribed to t, 2 partitions assigned>"
        )
    assert repr(consumer) == "<kafkalite.Consumer closed>"


def test_a_consumer_of_many_topics_tells_three() -> None:
    topics = ["a", "b", "c", "d", "e"]
    with kl.Consumer(topics, bootstrap_servers="127.0.0.1:1") as consumer:
        assert repr(consumer) == "<kafkalite.Consumer open, subscribed to a, b, c and 2 more>"
