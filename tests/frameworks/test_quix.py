"""Quix Streams, at least once: state in changelog topics, windows, repartitioning.

Exactly once needs transactions, which the broker refuses by name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, ConfigResource
from quixstreams import Application

from tests.harness.brokers import Broker

Unique = Callable[[str], str]


def application(broker: Broker, group: str, state: Path, **how: Any) -> Application:
    """An application that reads from the beginning and says little."""
    return Application(
        broker_address=broker.bootstrap,
        consumer_group=group,
        auto_offset_reset="earliest",
        state_dir=state,
        loglevel="WARNING",
        topic_create_timeout=20,
        **how,
    )


def counting(app: Application, topic: str) -> Any:
    """A stateful count by key; each result is ``[key, count]``."""
    words = app.topic(topic, key_deserializer="str", value_deserializer="json")

    def count(value: str, state: Any) -> list[object]:
        seen = state.get("seen", default=0) + 1
        state.set("seen", seen)
        return [value, seen]

    return app.dataframe(words).apply(count, stateful=True)


def send(app: Application, topic: str, rows: list[tuple[str, object]], stamps: Any = None) -> None:
    """Produce rows of key and JSON value, with times in ms if given."""
    with app.get_producer() as producer:
        for at, (key, value) in enumerate(rows):
            stamp = stamps[at] if stamps else None
            body = json.dumps(value).encode()
            producer.produce(topic, key=key.encode(), value=body, timestamp=stamp)


def values(rows: list[dict[str, Any]]) -> list[Any]:
    """The values of collected rows."""
    return [row["_value"] for row in rows]


def test_state_comes_back_from_the_changelog_when_the_directory_is_lost(
    broker: Broker, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique("quix-state"), unique("g")
    rows: list[tuple[str, object]] = [(word, word) for word in ("a", "b", "a")]
    first = application(broker, group, tmp_path / "one")
    counting(first, topic)
    send(first, topic, rows)
    assert values(first.run(count=3, timeout=60, collect=True)) == [["a", 1], ["b", 1], ["a", 2]]
    second = application(broker, group, tmp_path / "two")
    counting(second, topic)
    send(second, topic, rows)
    assert values(second.run(count=3, timeout=60, collect=True)) == [["a", 3], ["b", 2], ["a", 4]]


def test_a_window_closes_when_time_has_passed_it(
    broker: Broker, unique: Unique, tmp_path: Path
) -> None:
    topic = unique("quix-window")
    app = application(broker, unique("g"), tmp_path)
    source = app.topic(topic, key_deserializer="str", value_deserializer="json")
    app.dataframe(source).tumbling_window(1_000).count().final()
    base = int(time.time()) * 1_000 - 60_000
    stamps = [base + after for after in (0, 10, 999, 1_000, 2_500)]
    send(app, topic, [("k", 1)] * 5, stamps)
    assert app.run(count=2, timeout=60, collect=True) == [
        {"start": base, "end": base + 1_000, "value": 3},
        {"start": base + 1_000, "end": base + 2_000, "value": 1},
    ]


def test_grouping_by_another_key_goes_through_a_topic_of_its_own(
    broker: Broker, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique("quix-group"), unique("g")
    app = application(broker, group, tmp_path)
    source = app.topic(topic, key_deserializer="str", value_deserializer="json")
    colors = app.dataframe(source).group_by("color")

    def count(value: dict[str, str], state: Any) -> list[object]:
        seen = state.get("seen", default=0) + 1
        state.set("seen", seen)
        return [value["color"], seen]

    colors.apply(count, stateful=True)
    send(app, topic, [(str(n), {"color": c}) for n, c in enumerate(("red", "red", "blue"))])
    got = values(app.run(count=3, timeout=60, collect=True))
    assert sorted(got) == [["blue", 1], ["red", 1], ["red", 2]]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (changelog,) = [
        name
        for name in admin.list_topics(timeout=10).topics
        if name.startswith("changelog__") and topic in name
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, changelog)
    config = admin.describe_configs([resource])[resource].result(10)
    assert config["cleanup.policy"].value == "compact"
