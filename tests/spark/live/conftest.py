"""One Spark session and one broker for all tests, small: two slots, few shuffle partitions."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from kafkalite import AdminClient
from tests.harness.process import Process

_numbers = itertools.count()

# A test's time limit in seconds: Spark takes its time.
os.environ["PYTEST_TIMEOUT"] = "900"

#: Where `make spark-jars` put Spark's own Kafka connector; only tests marked `jvm` need it.
JARS = os.environ.get("KAFKALITE_SPARK_JARS", "")


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    config.addinivalue_line("markers", 'jvm: needs the jars of Spark\'s own format("kafka")')
    config.addinivalue_line("markers", "slice: one of the few that `make spark-test-slice` runs")
    if pyspark.__version__ < "4.2":
        # It leaves its own sockets to the collector.
        for ignored in (
            "ignore:unclosed <socket:ResourceWarning",
            "ignore:.*socket:pytest.PytestUnraisableExceptionWarning",
        ):
            config.addinivalue_line("filterwarnings", ignored)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without the jars their tests say what to run."""
    if not JARS:
        skip = pytest.mark.skip(reason="without Spark's jars: make spark-jvm-test has them")
        for item in items:
            if item.get_closest_marker("jvm"):
                item.add_marker(skip)


def start_session() -> SparkSession:
    """Return a session on two slots, with the Unix sockets that make tasks quick."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    jars = sorted(str(jar) for jar in Path(JARS).glob("*.jar")) if JARS else []
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.task.maxFailures", "1")
        # Else a machine that slept for two minutes ends the JVM ten minutes later.
        .config("spark.network.timeout", "1h")
        .config("spark.jars", ",".join(jars))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return the one session of all tests."""
    session = start_session()
    yield session
    session.stop()


class Topic:
    """A topic of its own for a test."""

    def __init__(self, servers: str, name: str, partitions: int) -> None:
        """Make it."""
        self.servers, self.name = servers, name
        with AdminClient(bootstrap_servers=servers) as admin:
            admin.create_topic(name, partitions=partitions)

    def _producer(self) -> Producer:
        # A new one each time: it knows partitions that came since.
        return Producer({"bootstrap.servers": self.servers, "linger.ms": 5})

    def fill(self, count: int, *, partition: int = 0, first: int = 0) -> None:
        """Write ``count`` records whose value is their number, from ``first`` on."""
        producer = self._producer()
        for number in range(first, first + count):
            text = str(number).encode()
            producer.produce(self.name, text, key=b"k" + text, partition=partition)
            if number % 10_000 == 0:
                producer.poll(0)
        assert producer.flush(60) == 0

    def write(self, value: bytes | None, **more: object) -> None:
        """Write one record."""
        producer = self._producer()
        producer.produce(self.name, value, **more)
        assert producer.flush(60) == 0


@pytest.fixture
def make_topic(broker: Process) -> Callable[..., Topic]:
    """Return what makes topics of one partition or more."""

    def make(partitions: int = 1) -> Topic:
        # Another run may have left its topics on a broker that is not ours.
        return Topic(broker.ready, f"spark-{os.getpid()}-{next(_numbers)}", partitions)

    return make


@pytest.fixture
def read(spark: SparkSession) -> Callable[..., DataFrame]:
    """Return what reads a topic as a batch."""

    def load(topic: Topic, schema: str | None = None, **options: object) -> DataFrame:
        reader = (
            spark.read.format("kafkalite")
            .option("kafka.bootstrap.servers", topic.servers)
            .option("subscribe", topic.name)
        )
        for name, value in options.items():
            reader = reader.option(name, value)
        return (reader.schema(schema) if schema else reader).load()

    return load
