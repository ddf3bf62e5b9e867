"""Client metrics (KIP-714): Kafka's tools subscribe, and clients of others report."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, Producer

from tests.conformance import java
from tests.harness.brokers import Broker, Kafkalite
from tests.harness.patience import eventually

Unique = Callable[[str], str]
TOOL = java.TOOLS + "ClientMetricsCommand"
#: Seconds in which a client starts, reports and is seen, also on a busy machine.
WITHIN = 90.0


@pytest.fixture
def at(jars: Any, broker: Broker) -> tuple[str, str]:
    """The option that names the broker."""
    return ("--bootstrap-server", broker.bootstrap)


def test_the_tool_creates_describes_lists_and_deletes(at: tuple[str, str], unique: Unique) -> None:
    name = unique("metrics")
    make = ("--alter", "--name", name, "--metrics", "org.apache.kafka.producer.")
    more = ("--interval", "30000", "--match", "client_id=none.*")
    java.succeed(TOOL, *at, *make, *more)
    shown = java.succeed(TOOL, *at, "--describe", "--name", name).out
    assert "interval.ms=30000" in shown
    assert "metrics=org.apache.kafka.producer." in shown
    assert "match=client_id=none.*" in shown
    assert name in java.succeed(TOOL, *at, "--list").lines
    java.succeed(TOOL, *at, "--delete", "--name", name)
    assert name not in java.succeed(TOOL, *at, "--list").lines


def test_the_tool_prints_why_a_subscription_is_refused(at: tuple[str, str], unique: Unique) -> None:
    refused = java.run(TOOL, *at, "--alter", "--name", unique("m"), "--interval", "5")
    assert refused.status != 0
    assert "Invalid value 5 for interval.ms, interval must be between 100 and 3600000 (1 hour)" in (
        refused.out + refused.err
    )


def test_the_config_tool_knows_subscriptions(at: tuple[str, str], unique: Unique) -> None:
    name = unique("metrics")
    which = ("--entity-type", "client-metrics", "--entity-name", name)
    java.succeed(java.CONFIGS, *at, *which, "--alter", "--add-config", "metrics=*")
    told = java.succeed(java.CONFIGS, *at, *which, "--describe").out
    assert re.search(rf"Dynamic configs for client-metric {name} are:\s+metrics=\*", told)
    everything = java.succeed(
        java.CONFIGS, *at, "--entity-type", "client-metrics", "--describe"
    ).out
    assert name in everything
    java.succeed(java.CONFIGS, *at, *which, "--alter", "--delete-config", "metrics")
    assert "metrics=*" not in java.succeed(java.CONFIGS, *at, *which, "--describe").out


# Who reports


@pytest.fixture
def ours(broker: Broker) -> Kafkalite:
    """Our broker: Kafka does not show what its plug-in gets."""
    if not isinstance(broker, Kafkalite):
        pytest.skip("the reports are read from our admin API")
    return broker


def ask(broker: Kafkalite, path: str) -> Any:
    """An answer of the admin API."""
    with urllib.request.urlopen(f"{broker.admin_url()}/api/v1{path}", timeout=30) as answer:
        return json.load(answer)


def clients(broker: Kafkalite, client_id: str) -> list[dict[str, Any]]:
    """The clients of this id that the broker knows."""
    found = ask(broker, f"/client-metrics?search={quote(client_id, safe='')}")["clients"]
    return [one for one in found if one["client_id"] == client_id]


def metrics(broker: Kafkalite, client: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The last report of a client, by metric."""
    found = ask(broker, f"/client-metrics/{client['instance_id']}?limit=1000")
    return {one["name"]: one for one in found["metrics"]}


@contextmanager
def subscribed(broker: Kafkalite, name: str) -> Iterator[None]:
    """Clients of this id report everything twice a second."""
    from kafkalite import AdminClient, ConfigResource

    keys = {"metrics": "*", "interval.ms": "500", "match": f"client_id={name}"}
    subscription = ConfigResource("client_metrics", name)
    with AdminClient(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_configs({subscription: keys})
        yield
        admin.alter_configs({subscription: dict.fromkeys(keys)})


def reported(broker: Kafkalite, client_id: str) -> dict[str, dict[str, Any]]:
    """What a client of this id reported, or nothing yet."""
    for one in clients(broker, client_id):
        assert one["last_error"] is None, one
        if one["metrics"]:
            return metrics(broker, one)
    return {}


def test_producers_and_consumers_of_librdkafka_report(ours: Kafkalite, unique: Unique) -> None:
    topic, name = unique("reported"), unique("librdkafka")
    keys = {"bootstrap.servers": ours.bootstrap}
    with subscribed(ours, name):
        producer = Producer({**keys, "client.id": name})

        def seen(prefix: str) -> bool:
            producer.produce(topic, b"x")
            producer.poll(0)
            return any(metric.startswith(prefix) for metric in reported(ours, name))

        eventually(lambda: seen("org.apache.kafka.producer."), WITHIN)
        assert producer.flush(30) == 0
        (one,) = clients(ours, name)
        assert one["software"] == "confluent-kafka-python"
    reader = unique("librdkafka-reader")
    with subscribed(ours, reader):
        group = {"group.id": reader, "client.id": reader, "auto.offset.reset": "earliest"}
        consumer = Consumer({**keys, **group})
        consumer.subscribe([topic])

        def read() -> bool:
            consumer.poll(0.05)
            return any(m.startswith("org.apache.kafka.consumer.") for m in reported(ours, reader))

        eventually(read, WITHIN)
        consumer.close()
        (one,) = clients(ours, reader)
        assert one["terminating"]


def produce(at: tuple[str, str], topic: str, name: str, keys: Path, *more: str) -> None:
    """Kafka's verifiable producer, under a client id."""
    keys.write_text(f"client.id={name}\n")
    tool = java.TOOLS + "VerifiableProducer"
    java.succeed(tool, *at, "--topic", topic, "--command-config", str(keys), *more)


def test_a_producer_of_java_reports(
    ours: Kafkalite, at: tuple[str, str], unique: Unique, tmp_path: Path
) -> None:
    topic, name = unique("reported"), unique("java")
    with subscribed(ours, name):
        produced = ("--max-messages", "1000", "--throughput", "100")
        produce(at, topic, name, tmp_path / "keys", *produced)
        (one,) = clients(ours, name)
        assert (one["software"], one["last_error"]) == ("apache-kafka-java", None)
        assert one["pushes"] >= 2
        found = metrics(ours, one)
    sent = found["org.apache.kafka.producer.record.send.total"]
    # A producer of Java ends without a last push.
    assert sent["kind"] == "delta"
    assert 0 < sent["value"] < sent["total"] <= 1000


def test_a_java_client_without_a_subscription_pushes_nothing_and_ends_at_once(
    ours: Kafkalite, at: tuple[str, str], unique: Unique, tmp_path: Path
) -> None:
    topic, name = unique("silent"), unique("java")
    began = time.monotonic()
    produce(at, topic, name, tmp_path / "keys", "--max-messages", "10")
    assert time.monotonic() - began < WITHIN
    (one,) = clients(ours, name)
    assert (one["requested_metrics"], one["pushes"]) == ([], 0)
