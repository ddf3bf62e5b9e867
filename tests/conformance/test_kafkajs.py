"""kafkajs sees here what it saw of Apache Kafka."""

from __future__ import annotations

import pytest

from tests.conformance.scripts import SCRIPTS, golden
from tests.harness.brokers import Broker


def test_every_step_ends_as_on_apache_kafka(broker: Broker) -> None:
    script = SCRIPTS["kafkajs"]
    if missing := script.is_missing():
        pytest.skip(f"{missing} is missing: python tests/conformance/prerequisites.py --install")
    assert script.play(broker.bootstrap) == golden()["kafkajs"]
