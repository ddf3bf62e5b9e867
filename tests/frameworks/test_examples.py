"""Each example of the guide, as its reader would run it, against a broker of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.frameworks.conftest import EXAMPLES, Run
from tests.harness import brokers
from tests.harness.brokers import Broker

#: What each prints in the end.
WANTED = {
    "faststream_aiokafka": ["[(0, 0), (1, 10), (2, 20)]"],
    "faust_word_count": ["be 1", "be 2", "not 1", "or 1", "to 1", "to 2"],
    "opentelemetry_trace": ["traced send -> traced process", "traceparent True"],
    "quix_word_count": ["to 1", "be 1", "or 1", "not 1", "to 2", "be 2"],
}


@pytest.fixture(scope="module")
def fresh(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker that has no topics, as the examples name theirs themselves."""
    kind = str(request.config.getoption("--broker"))
    made = brokers.make(kind, tmp_path_factory.mktemp("fresh") / "data", {"num.partitions": "1"})
    made.start()
    yield made
    made.stop()


def test_each_example_has_its_outcome() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(WANTED)


def test_on_confluent_kafka_only_the_import_of_faststream_differs(
    fresh: Broker, run: Run, tmp_path: Path
) -> None:
    shown = (EXAMPLES / "faststream_aiokafka.py").read_text()
    # The other one has left its records in these topics.
    other = shown.replace("faststream.kafka", "faststream.confluent").replace('"fs-', '"fsc-')
    (tmp_path / "faststream_confluent.py").write_text(other)
    lines = run(str(tmp_path / "faststream_confluent"), fresh.bootstrap).splitlines()
    assert lines[-1:] == WANTED["faststream_aiokafka"]


@pytest.mark.parametrize("name", WANTED)
def test_an_example_prints_what_the_guide_says(
    fresh: Broker, run: Run, tmp_path: Path, name: str
) -> None:
    wanted = WANTED[name]
    lines = run(name, fresh.bootstrap, str(tmp_path / "state")).splitlines()
    if name == "faust_word_count":
        # Its words lie in two partitions, which are read in any order.
        lines = sorted(line for line in lines if re.fullmatch(r"\w+ \d+", line))
    assert lines[-len(wanted) :] == wanted
