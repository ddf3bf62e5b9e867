"""sarama, kafka-go and franz-go's kadm see here what they saw of Apache Kafka."""

from __future__ import annotations

import pytest

from tests.conformance.budget import Budget
from tests.conformance.scripts import SCRIPTS, golden
from tests.harness.brokers import Broker


def see(broker: Broker, name: str) -> None:
    """Play a program and compare, or skip with what it needs."""
    if missing := SCRIPTS[name].is_missing():
        pytest.skip(f"{missing} is missing: python tests/conformance/prerequisites.py --install")
    assert SCRIPTS[name].play(broker.bootstrap) == golden()[name]


def test_every_step_of_sarama_ends_as_on_apache_kafka(broker: Broker, budget: Budget) -> None:
    for release in budget.sarama_releases.split(","):
        see(broker, f"sarama as {release}")


def test_every_step_of_kafka_go_ends_as_on_apache_kafka(broker: Broker) -> None:
    see(broker, "kafka-go")


def test_every_step_of_kadm_ends_as_on_apache_kafka(broker: Broker) -> None:
    see(broker, "kadm")
