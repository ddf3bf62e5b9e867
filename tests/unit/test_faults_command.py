"""``kafkalite faults``: how it ends when the broker, or a number, is not what it should be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kafkalite
from kafkalite.errors import InvalidArgumentError
from tests.unit.test_command_line import told


@pytest.fixture(scope="module")
def broker() -> Iterator[kafkalite.Broker]:
    with kafkalite.Broker(admin_port=0, topics=["t"]) as broker:
        yield broker


@pytest.mark.parametrize(
    "words", [("remove", "999"), ("move-leader", "nope:0"), ("move-leader", "t:9")]
)
def test_what_is_not_there_ends_as_the_guide_says(
    broker: kafkalite.Broker, words: tuple[str, str]
) -> None:
    done = told("faults", *words, "--admin-url", str(broker.admin_url))
    assert done.returncode == 5, done.stderr
    assert "hint: " in done.stderr


def test_a_chance_that_is_no_number_is_refused_in_words(broker: kafkalite.Broker) -> None:
    """The answer was that of a reader of JSON, about line 1 and column 43."""
    words = ("add", "delay", "--ms", "1", "--probability", "nan")
    done = told("faults", *words, "--admin-url", str(broker.admin_url))
    assert done.returncode == 2
    assert "--probability" in done.stderr
    assert "nan is not a number" in done.stderr
    for chance in (float("nan"), float("inf")):
        with pytest.raises(InvalidArgumentError, match=f"probability is {chance}"):
            broker.faults.delay(1, probability=chance)
    assert len(broker.faults) == 0
