"""sarama, kafka-go and franz-go's kadm see here what they saw of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.budget import Budget
from tests.conformance.scripts import SCRIPTS, golden
from tests.harness.brokers import Broker

#: pytest's fixture that puts a count into the report.
Record = Callable[[str, object], None]


def see(broker: Broker, name: str) -> int:
    """Play a program and compare, or skip with what it needs; return how many steps it has."""
    if missing := SCRIPTS[name].is_missing():
        pytest.skip(f"{missing} is missing: python tests/conformance/prerequisites.py --install")
    steps = SCRIPTS[name].play(broker.bootstrap)
    assert steps == golden()[name]
    return len(steps)


def test_every_step_of_sarama_ends_as_on_apache_kafka(
    broker: Broker, budget: Budget, record_property: Record
) -> None:
    releases = budget.sarama_releases.split(",")
    record_property("passed", sum(see(broker, f"sarama as {release}") for release in releases))


@pytest.mark.parametrize("name", ["kafka-go", "kadm"])
def test_every_step_ends_as_on_apache_kafka(
    broker: Broker, name: str, record_property: Record
) -> None:
    record_property("passed", see(broker, name))
