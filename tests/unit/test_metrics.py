"""The admin port's figures, read as Prometheus reads them."""

from __future__ import annotations

import re
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

import kafkalite
from tests.harness.process import PATIENCE_S, Process
from tests.unit.test_command_line import told

PAGES = ("/metrics", "/metrics/topics", "/metrics/groups", "/metrics/clients")
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"

#: Prometheus's parsers; the one for OpenMetrics has no types.
plain_families = parser.text_string_to_metric_families
open_families: Callable[[str], Any] = openmetrics_parser.text_string_to_metric_families

Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]


def page(broker: Process, path: str, accept: str = "text/html,*/*") -> tuple[str, str]:
    """A page's content type and text."""
    request = urllib.request.Request(f"{broker.admin}{path}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return str(answer.headers["Content-Type"]), answer.read().decode()


def figures(families: Any) -> Figures:
    """Every sample by its name and labels."""
    samples = [sample for family in families for sample in family.samples]
    found = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(found) == len(samples), "a sample is there twice"
    return found


def read(broker: Process, path: str) -> Figures:
    """The figures of a page."""
    return figures(plain_families(page(broker, path)[1]))


def of(figures: Figures, name: str, **labels: str) -> float | None:
    """One figure; ``None`` if the page has none of it."""
    return figures.get((name, frozenset(labels.items())))


@pytest.fixture
def topic(broker: Process) -> str:
    """A topic of two partitions with three records of 100 bytes in the second."""
    name = f"figures-{uuid.uuid4().hex[:8]}"
    at = ("-b", broker.ready)
    assert told("topics", "create", name, "--partitions", "2", *at).returncode == 0
    producer = Producer({"bootstrap.servers": broker.ready, "linger.ms": 1000})
    for _ in range(3):
        producer.produce(name, b"v" * 100, partition=1)
    assert producer.flush(PATIENCE_S) == 0
    return name


@pytest.fixture
def member(broker: Process, topic: str) -> Iterator[Consumer]:
    """A member of the group of the topic's name that read all and committed the first record."""
    keys = {"bootstrap.servers": broker.ready, "group.id": topic, "enable.auto.commit": False}
    consumer = Consumer(keys | {"auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert len(consumer.consume(3, timeout=PATIENCE_S)) == 3
    consumer.commit(offsets=[TopicPartition(topic, 1, 1)], asynchronous=False)
    yield consumer
    consumer.close()


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.usefixtures("member")
def test_a_browser_and_prometheus_read_the_same_figures(broker: Process, path: str) -> None:
    plain_type, plain = page(broker, path)
    open_type, text = page(broker, path, OPEN_METRICS)
    assert plain_type == "text/plain; version=0.0.4; charset=utf-8"
    assert open_type.startswith("application/openmetrics-text; version=1.0.0")
    of_plain = figures(plain_families(plain))
    of_open = figures(open_families(text))
    assert of_plain.keys() == of_open.keys()
    assert of_plain


def test_a_topic_tells_its_traffic_and_each_partition_its_log(
    broker: Process, topic: str, member: Consumer
) -> None:
    assert member.assignment()
    found = read(broker, "/metrics/topics")
    traffic = "kafka_server_brokertopicmetrics_"
    assert of(found, f"{traffic}messagesin_total", topic=topic) == 3
    bytes_in = of(found, f"{traffic}bytesin_total", topic=topic)
    assert bytes_in == of(found, "kafka_log_log_size", topic=topic, partition="1")
    assert bytes_in is not None
    assert bytes_in > 300
    assert of(found, f"{traffic}bytesout_total", topic=topic) == bytes_in
    for partition, end in (("0", 0), ("1", 3)):
        at = {"topic": topic, "partition": partition}
        assert of(found, "kafka_log_log_logstartoffset", **at) == 0
        assert of(found, "kafka_log_log_logendoffset", **at) == end
        assert of(found, "kafkalite_partition_high_watermark", **at) == end
        assert of(found, "kafka_log_log_numlogsegments", **at) == 1
    assert of(found, "kafkalite_metrics_rows_left_out") == 0


@pytest.mark.usefixtures("member")
def test_a_group_tells_its_members_and_its_lag(broker: Process, topic: str) -> None:
    found = read(broker, "/metrics/groups")
    assert of(found, "kafka_consumergroup_members", consumergroup=topic) == 1
    assert of(found, "kafka_consumergroup_lag_sum", consumergroup=topic) == 2
    at = {"consumergroup": topic, "topic": topic, "partition": "1"}
    assert of(found, "kafka_consumergroup_current_offset", **at) == 1
    assert of(found, "kafka_consumergroup_lag", **at) == 2
    assert of(found, "kafka_consumergroup_lag", **at | {"partition": "0"}) is None


@pytest.mark.usefixtures("member")
def test_a_group_tells_its_lag_in_seconds(broker: Process, topic: str) -> None:
    found = read(broker, "/metrics/groups")
    at = {"consumergroup": topic, "topic": topic, "partition": "1"}
    seconds = of(found, "kafka_consumergroup_lag_seconds", **at)
    assert seconds is not None
    assert 0 <= seconds < 10 * PATIENCE_S
    assert of(found, "kafka_consumergroup_max_lag_seconds", consumergroup=topic) == seconds


def test_figures_of_a_deleted_topic_are_gone(broker: Process, topic: str) -> None:
    assert told("topics", "delete", topic, "-y", "-b", broker.ready).returncode == 0
    named = [labels for _, labels in read(broker, "/metrics/topics") if ("topic", topic) in labels]
    assert named == []


def test_the_process_tells_what_it_takes(broker: Process, topic: str) -> None:
    found = read(broker, "/metrics")
    assert of(found, "process_cpu_seconds_total") is not None
    memory = of(found, "process_resident_memory_bytes")
    assert memory is not None
    assert 5 << 20 < memory < 1 << 30
    open_fds, max_fds = of(found, "process_open_fds"), of(found, "process_max_fds")
    assert open_fds is not None
    assert max_fds is not None
    assert 10 < open_fds < max_fds
    threads = of(found, "process_threads")
    assert threads is not None
    assert threads > 3
    del topic


def test_the_broker_tells_its_partitions_under_kafkas_names(broker: Process, topic: str) -> None:
    found = read(broker, "/metrics")
    logs = [name for name, _ in read(broker, "/metrics/topics") if name == "kafka_log_log_size"]
    for name in ("partitioncount", "leadercount"):
        assert of(found, f"kafka_server_replicamanager_{name}") == len(logs)
    assert of(found, "kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert of(found, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert of(found, "kafka_controller_kafkacontroller_activebrokercount") == 1
    assert of(found, "kafka_controller_kafkacontroller_fencedbrokercount") == 0
    assert of(found, "kafka_controller_kafkacontroller_globalpartitioncount") == len(logs)
    assert topic


def test_a_broker_that_is_stopped_is_fenced_and_not_active() -> None:
    """It was counted as active until it was unregistered."""
    with kafkalite.Cluster(admin_port=0) as cluster:
        cluster.brokers[2].stop()
        url = f"{cluster.brokers[0].admin_url}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            found = figures(plain_families(answer.read().decode()))
    assert of(found, "kafka_controller_kafkacontroller_activebrokercount") == 2
    assert of(found, "kafka_controller_kafkacontroller_fencedbrokercount") == 1


def test_the_first_page_links_what_there_is(broker: Process) -> None:
    content_type, text = page(broker, "/")
    assert content_type.startswith("text/html")
    links = re.findall(r'href="([^"]+)"', text)
    assert set(PAGES) < set(links)
    for link in set(links) - {"/requests"}:
        page(broker, link)


def test_names_of_groups_cannot_break_the_format(broker: Process) -> None:
    """Only groups may have any name: quotes, line ends and what is no ASCII."""
    group = 'a"b\\c\nd é {x="y"} ' + uuid.uuid4().hex[:8]
    consumer = Consumer({"bootstrap.servers": broker.ready, "group.id": group})
    name = f"figures-{uuid.uuid4().hex[:8]}"
    assert told("topics", "create", name, "-b", broker.ready).returncode == 0
    consumer.commit(offsets=[TopicPartition(name, 0, 7)], asynchronous=False)
    consumer.close()
    at = {"consumergroup": group, "topic": name, "partition": "0"}
    assert of(read(broker, "/metrics/groups"), "kafka_consumergroup_current_offset", **at) == 7
    text = page(broker, "/metrics/groups", OPEN_METRICS)[1]
    of_open = figures(open_families(text))
    assert of(of_open, "kafka_consumergroup_current_offset", **at) == 7
