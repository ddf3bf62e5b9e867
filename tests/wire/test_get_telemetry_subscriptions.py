"""GetTelemetrySubscriptions (71): what a client shall push (KIP-714)."""

from __future__ import annotations

import uuid

from tests.conformance.differential.cases_telemetry import NOBODY, ask, kafka_id, subscription
from tests.harness.session import Session


def test_without_a_subscription_nothing_is_asked_for(s: Session) -> None:
    answer = ask(s, NOBODY)
    assert answer["ClientInstanceId"] != NOBODY
    assert (answer["ErrorCode"], answer["RequestedMetrics"]) == (0, [])
    assert (answer["PushIntervalMs"], answer["TelemetryMaxBytes"]) == (300_000, 1_048_576)
    assert (answer["AcceptedCompressionTypes"], answer["DeltaTemporality"]) == ([4, 3, 1, 2], True)


def test_a_subscription_that_matches_is_answered(s: Session) -> None:
    instance = uuid.uuid4()
    match = f"client_instance_id={kafka_id(instance)}"
    with subscription(s, metrics="b,a", interval_ms="1000", match=match):
        answer = ask(s, instance)
        other = ask(s, uuid.uuid4())
    assert (answer["RequestedMetrics"], answer["PushIntervalMs"]) == (["a", "b"], 1000)
    assert answer["ClientInstanceId"] == instance
    assert (other["RequestedMetrics"], other["PushIntervalMs"]) == ([], 300_000)


def test_a_client_that_asks_too_early_is_refused(s: Session) -> None:
    instance = ask(s, NOBODY)["ClientInstanceId"]
    assert ask(s, instance)["ErrorCode"] == 89
