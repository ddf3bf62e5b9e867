"""No option without a question, no question without an answer of Spark's own connector."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkalite_spark.option_table import FORBIDDEN_KAFKA, OPTIONS, Option
from tests.spark.option_cases import CASES

GOLDEN = Path(__file__).parents[1] / "golden" / "spark_options.json"

#: Additions of ours, which Spark's own connector does not know.
OURS = {
    "checkpointLocation",
    "rowsPerTask",
    "parallelism",
    "batchBytes",
    "fetchBufferBytes",
    "pushFilters",
    "commitOffsetsToGroup",
    "transactional",
}


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_each_option_of_sparks_is_asked_about_wherever_it_has_a_meaning(option: Option) -> None:
    asked = {case.use for case in CASES if option.name in case.covers}
    if option.name not in OURS:
        assert option.where <= asked


@pytest.mark.parametrize("key", sorted(FORBIDDEN_KAFKA))
def test_each_key_that_may_not_be_given_is_asked_about(key: str) -> None:
    assert any(f"kafka.{key}" in case.covers for case in CASES)


def test_each_question_has_one_recorded_answer_and_no_other_was_recorded() -> None:
    names = [case.key for case in CASES]
    assert len(names) == len(set(names))
    assert set(json.loads(GOLDEN.read_text())["answers"]) == set(names)
