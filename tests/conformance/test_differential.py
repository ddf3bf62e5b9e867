"""The script of requests: our answers beside those of Apache Kafka.

The golden answers were recorded from a real Kafka; where a JVM is at hand the golden answers are
themselves compared with a live one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import brokers
from tests.conformance.differential import script


@pytest.fixture(scope="module")
def observed(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """What a fresh broker under judgement answers to the whole script."""
    broker = brokers.make(broker_kind, tmp_path_factory.mktemp("script") / "data")
    broker.start()
    yield script.play(broker.bootstrap)
    broker.stop()


def test_the_script_has_a_golden_answer_for_every_case() -> None:
    assert set(script.golden()) == set(script.CASES)
    assert len(script.CASES) >= 80


@pytest.mark.parametrize("name", list(script.CASES))
def test_the_answer_is_that_of_apache_kafka(
    observed: dict[str, Any], broker_kind: str, name: str
) -> None:
    theirs, ours = script.golden()[name], observed[name]
    reasons = {} if broker_kind == "kafka" else script.allowed()
    if name in reasons:
        assert theirs != ours, f"no longer different; strike it from differences.toml: {name}"
        pytest.skip(f"differs because {reasons[name]}")
    assert theirs == ours, "\n".join(script.paths(theirs, ours))


def test_every_allowed_difference_is_a_case_of_the_script() -> None:
    assert set(script.allowed()) <= set(script.CASES)


@pytest.mark.usefixtures("jars")
def test_the_golden_answers_are_those_of_a_live_kafka(broker_kind: str, tmp_path: Path) -> None:
    if broker_kind == "kafka":
        pytest.skip("the broker under judgement is that Kafka")
    kafka = brokers.make("kafka", tmp_path / "data")
    kafka.start()
    try:
        live = script.play(kafka.bootstrap)
    finally:
        kafka.stop()
    differences = script.compare(script.golden(), live)
    assert not differences, "\n".join(f"{n}: {script.paths(*d)}" for n, d in differences.items())
