"""The script of requests: our answers beside those of Apache Kafka.

The golden answers were recorded from a real Kafka; where a JVM is at hand the golden answers are
themselves compared with a live one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.differential import script
from tests.harness import brokers
from tests.harness.session import ANSWER_SOON


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
    may = {} if broker_kind == "kafka" else script.allowed()
    where = script.places_of(script.golden()[name], observed[name])
    lines = script.unexplained(name, where, may)
    assert not lines, "\n".join(lines)


def test_every_allowed_difference_is_a_case_of_the_script(
    broker_kind: str, record_property: Callable[[str, object], None]
) -> None:
    # These cases pass above, with an answer that is not Kafka's.
    record_property("differing", 0 if broker_kind == "kafka" else len(script.allowed()))
    assert set(script.allowed()) <= set(script.CASES)


@pytest.mark.parametrize(
    ("left", "right", "where"),
    [
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, {}),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, {".a[1].b": (2, 3)}),
        ({"a": 1}, {"b": 1}, {".a": (1, "absent"), ".b": ("absent", 1)}),
        ([1, 2], [1], {"[1]": (2, "absent")}),
        ([1, 2], [], {".": ([1, 2], [])}),
        ("no answer", {"a": 1}, {".": ("no answer", {"a": 1})}),
    ],
)
def test_a_difference_is_reported_with_its_place(
    left: object, right: object, where: script.Places
) -> None:
    assert script.places_of(left, right) == where


def test_a_second_difference_in_a_case_is_seen() -> None:
    may = {"case": {".code": script.Allowed(-1, 87, "it stumbles")}}
    assert not script.unexplained("case", {".code": (-1, 87)}, may)
    for where in (
        {".code": (-1, 87), ".offset": (0, 5)},
        {".code": (-1, 42)},
        {".code": (0, 87)},
        {},
    ):
        assert len(script.unexplained("case", where, may)) == 1, where


@pytest.mark.usefixtures("jars")
def test_the_golden_answers_are_those_of_a_live_kafka(broker_kind: str) -> None:
    if broker_kind == "kafka":
        pytest.skip("the broker under judgement is that Kafka")
    with brokers.serving("kafka") as kafka:
        live, golden = script.play(kafka.bootstrap, answer_within=ANSWER_SOON), script.golden()
        # On a machine that stands still for seconds a case has no answer, and the next ones have.
        for name in [name for name in live if live[name] == "no answer" != golden[name]]:
            live[name] = script.play(kafka.bootstrap, only=name)[name]
    differences = script.compare(golden, live)
    assert not differences, "\n".join(f"{n}: {where}" for n, where in differences.items())
