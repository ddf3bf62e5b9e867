"""PushTelemetry (72): a client reports its metrics (KIP-714)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.differential.cases_telemetry import (
    NOBODY,
    PUSHES,
    REPORT,
    ask,
    client,
    push,
    subscription,
)
from tests.harness.session import Session

#: The error of each push of the differential script.
ERRORS = {
    "nothing": 0,
    "a report": 0,
    "gzip": 0,
    "no id": 42,
    "a reserved id": 42,
    "another subscription": 117,
    "an unknown codec": 76,
    "a negative codec": 76,
    "too large": 118,
    "damaged": 87,
    "damaged gzip": 87,
    "damaged zstd": 87,
    "another subscription, an unknown codec": 117,
    "an unknown codec, too large": 76,
}


@pytest.mark.parametrize("name", PUSHES)
def test_a_push_has_the_error_of_its_mistake(s: Session, name: str) -> None:
    mistake: dict[str, Any] = PUSHES[name]
    instance = client(f"wire {name}")
    number = ask(s, instance)["SubscriptionId"]
    assert push(s, instance, number, **mistake) == ERRORS[name]


def test_a_client_pushes_once_in_an_interval(s: Session) -> None:
    answer = ask(s, NOBODY)
    instance, number = answer["ClientInstanceId"], answer["SubscriptionId"]
    assert [push(s, instance, number, Metrics=REPORT) for _ in range(2)] == [0, 89]


def test_a_client_ends_once(s: Session) -> None:
    answer = ask(s, NOBODY)
    instance, number = answer["ClientInstanceId"], answer["SubscriptionId"]
    assert [push(s, instance, number, Terminating=True) for _ in range(2)] == [0, 42]


def test_a_changed_subscription_is_another(s: Session) -> None:
    answer = ask(s, NOBODY)
    instance, number = answer["ClientInstanceId"], answer["SubscriptionId"]
    with subscription(s, metrics="m"):
        assert push(s, instance, number) == 117
        changed = ask(s, instance)
        assert (changed["RequestedMetrics"], changed["ErrorCode"]) == (["m"], 0)
