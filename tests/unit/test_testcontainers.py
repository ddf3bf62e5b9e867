"""``KafkaContainer`` without a container."""

from __future__ import annotations

import pytest

import kafkalite
from kafkalite.testcontainers import KafkaContainer
from tests.harness.process import PATIENCE_S


def test_a_container_is_a_broker_while_the_block_runs() -> None:
    with KafkaContainer("confluentinc/cp-kafka:7.6.0").with_kraft() as kafka:
        servers = kafka.get_bootstrap_server()
        assert servers == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(9093)}"
        with kafkalite.Producer(bootstrap_servers=servers) as producer:
            producer.send("t", b"v").result(timeout=PATIENCE_S)
        (record,) = kafka.broker.expect("t", 1, timeout=PATIENCE_S)
        assert record.value == b"v"
    with pytest.raises(kafkalite.IllegalStateError, match="does not run"):
        kafka.get_bootstrap_server()


def test_start_and_stop_may_be_called_again() -> None:
    kafka = KafkaContainer()
    assert kafka.start() is kafka
    kafka.start()
    kafka.stop()
    kafka.stop()
    kafka.start(timeout=PATIENCE_S).stop(force=True)


def test_variables_of_the_image_are_keys_of_the_broker() -> None:
    kafka = KafkaContainer().with_env("KAFKA_NUM_PARTITIONS", 3)
    kafka.with_envs(
        KAFKA_LISTENERS="PLAINTEXT://0.0.0.0:9092",
        KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://kafka:9092",
        KAFKA_NODE_ID=7,
        KAFKA_HEAP_OPTS="-Xmx256m",
        KAFKA_ZOOKEEPER_CONNECT="z",
        CLUSTER_ID="x",
    )
    with kafka, kafkalite.AdminClient(bootstrap_servers=kafka.get_bootstrap_server()) as admin:
        admin.create_topic("t", partitions=-1)
        assert len(admin.describe_topic("t").partitions) == 3


def test_a_key_that_no_broker_has_is_refused() -> None:
    with pytest.raises(kafkalite.BrokerStartError, match=r"num\.partitons"):
        KafkaContainer().with_env("KAFKA_NUM_PARTITONS", 3).start()
