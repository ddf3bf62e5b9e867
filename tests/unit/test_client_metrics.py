"""Client metrics (KIP-714): librdkafka reports, and every view shows what it reports."""

from __future__ import annotations

import json
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kafkalite import AdminClient, ConfigResource, InvalidArgumentError
from tests.harness.process import PATIENCE_S, Process, Processes
from tests.unit.test_admin_api import Api, Refused
from tests.unit.test_command_line import told
from tests.unit.test_metrics import of, read

#: A metric that every producer of librdkafka has.
RECORDS = "org.apache.kafka.producer.record.queue.time.avg"


def eventually(look: Callable[[], Any]) -> Any:
    """What a look finds that is not empty."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)
    return found


def command(*words: str) -> str:
    """What ``kafkalite client-metrics`` with these words prints."""
    done = told("client-metrics", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def producing(broker: Process, client_id: str) -> Iterator[None]:
    """A producer of librdkafka at work."""
    producer = Producer({"bootstrap.servers": broker.ready, "client.id": client_id})
    stopped = threading.Event()

    def work() -> None:
        while not stopped.wait(0.05):
            producer.produce("reported", b"x")
            producer.poll(0)
        producer.flush(PATIENCE_S)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    stopped.set()
    thread.join(PATIENCE_S)


@pytest.fixture
def subscribed(broker: Process) -> Iterator[str]:
    """A client id that a subscription is for."""
    name = f"reporter-{uuid.uuid4().hex[:8]}"
    words = ("--metrics", "*", "--interval-ms", "500", "--match", f"client_id={name}")
    command("subscribe", name, *words, "-b", broker.ready)
    yield name
    command("delete", name, "-b", broker.ready)


def test_a_client_reports_and_every_view_shows_it(broker: Process, subscribed: str) -> None:
    api = Api(broker.admin)

    def reported() -> Any:
        clients = api.get("/client-metrics", search=subscribed)["clients"]
        return [client for client in clients if client["metrics"]]

    with producing(broker, subscribed):
        (client,) = eventually(reported)
    assert (client["client_id"], client["requested_metrics"]) == (subscribed, ["*"])
    assert (client["push_interval_ms"], client["last_error"]) == (500, None)
    assert client["software"] == "confluent-kafka-python"
    path = "/client-metrics/{id}"
    report = api.get(path, id=client["instance_id"], search="record.queue.time")
    metrics = {metric["name"]: metric for metric in report["metrics"]}
    assert metrics[RECORDS]["kind"] == "gauge"
    page = api.get(path, id=client["instance_id"], limit=1)
    assert (len(page["metrics"]), page["next"]) == (1, 1)
    # The command line, and the page for Prometheus, show the same.
    listed = json.loads(command("clients", "--json", "--admin-url", broker.admin))
    assert client["instance_id"] in {one["instance_id"] for one in listed}
    shown = command("show", client["instance_id"], "--admin-url", broker.admin)
    assert RECORDS in shown
    figures = read(broker, "/metrics/clients")
    assert of(figures, "kafkalite_client_metric_series", metric=RECORDS)
    assert of(read(broker, "/metrics"), "kafkalite_client_metrics_pushes_total", error="NONE")


def test_a_client_that_ends_says_so(broker: Process, subscribed: str) -> None:
    api = Api(broker.admin)

    def is_asked() -> Any:
        return api.get("/client-metrics", search=subscribed)["clients"]

    with producing(broker, subscribed):
        eventually(is_asked)
    ended = eventually(lambda: [one for one in is_asked() if one["terminating"]])
    assert ended[0]["client_id"] == subscribed


def test_without_a_subscription_a_client_is_asked_for_nothing(broker: Process) -> None:
    api, name = Api(broker.admin), f"silent-{uuid.uuid4().hex[:8]}"
    with producing(broker, name):
        found = eventually(lambda: api.get("/client-metrics", search=name)["clients"])
    assert (found[0]["requested_metrics"], found[0]["push_interval_ms"]) == ([], 300_000)
    assert found[0]["pushes"] == 0


def test_an_unknown_client_is_refused(broker: Process) -> None:
    api = Api(broker.admin)
    for instance, status in ((22 * "A", 404), ("x", 400), ("../..", 400)):
        with pytest.raises(Refused) as refused:
            api.get("/client-metrics/{id}", id=instance)
        assert refused.value.status == status


def test_subscriptions_are_changed_listed_and_deleted(broker: Process) -> None:
    name, at = f"s-{uuid.uuid4().hex[:8]}", ("-b", broker.ready)
    command("subscribe", name, "--metrics", "a.", "--metrics", "b.", *at)
    command("subscribe", name, "--interval-ms", "1000", "--match", "client_id=x.*", *at)
    (row,) = [row for row in json.loads(command("list", "--json", *at)) if row["name"] == name]
    metrics, match = ["a.", "b."], ["client_id=x.*"]
    assert row == {"name": name, "metrics": metrics, "interval_ms": 1000, "match": match}
    table = [line.split() for line in command("list", *at).splitlines()]
    assert [name, "a.,b.", "1000", "client_id=x.*"] in table
    command("delete", name, *at)
    assert name not in command("list", *at)
    again = told("client-metrics", "delete", name, *at)
    assert again.returncode == 1
    assert "there is no such subscription" in again.stderr


def test_a_wrong_subscription_is_refused_with_the_brokers_words(broker: Process) -> None:
    words = ("subscribe", "wrong", "--match", "x=y", "-b", broker.ready)
    done = told("client-metrics", *words)
    assert done.returncode == 2
    assert "Illegal client matching pattern: x=y" in done.stderr
    nothing = told("client-metrics", "subscribe", "wrong", "-b", broker.ready)
    assert nothing.returncode == 2


def test_a_subscription_outlives_a_restart(processes: Processes, tmp_path: Path) -> None:
    broker = processes.serve(data_dir=tmp_path / "data")
    command("subscribe", "kept", "--metrics", "*", "-b", broker.ready)
    broker.end(signal.SIGTERM)
    broker = processes.serve(data_dir=tmp_path / "data")
    with AdminClient(bootstrap_servers=broker.ready) as admin:
        kept = ConfigResource("client_metrics", "kept")
        assert admin.list_config_resources(["client_metrics"]) == [kept]
        entry = admin.describe_configs([kept])[kept]["metrics"]
        assert (entry.value, entry.source, entry.type) == ("*", "client_metrics", "list")


def test_resources_of_every_kind_are_listed(broker: Process) -> None:
    with AdminClient(bootstrap_servers=broker.ready) as admin:
        kinds = {resource.kind for resource in admin.list_config_resources()}
        assert {"broker", "broker_logger"} <= kinds
        with pytest.raises(InvalidArgumentError, match="kinds: 'x' is not topic, broker"):
            admin.list_config_resources(["x"])  # type: ignore[list-item]
