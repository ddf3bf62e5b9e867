"""kafkajs sees here what it saw of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.scripts import SCRIPTS, golden
from tests.harness.brokers import Broker


def test_every_step_ends_as_on_apache_kafka(
    broker: Broker, record_property: Callable[[str, object], None]
) -> None:
    script = SCRIPTS["kafkajs"]
    if missing := script.is_missing():
        pytest.skip(f"{missing} is missing: python tests/conformance/prerequisites.py --install")
    steps = script.play(broker.bootstrap)
    assert steps == golden()["kafkajs"]
    record_property("passed", len(steps))
