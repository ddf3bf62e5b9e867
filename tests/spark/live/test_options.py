"""Each option, asked of our connector and of Spark's own: both do what was recorded.

The record is of Spark's own connector on Apache Kafka, so the second half of these tests says that
it runs on our broker unmodified.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.harness.process import Process
from tests.spark.live.option_runner import Asker, prepare
from tests.spark.live.record_options import GOLDEN
from tests.spark.option_cases import CASES, Case

RECORD: dict[str, Any] = json.loads(GOLDEN.read_text())


@pytest.fixture(scope="session")
def servers(broker: Process) -> str:
    """Return a cluster with the topics of the questions."""
    prepare(broker.ready)
    return broker.ready


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_an_option_does_what_it_does_in_sparks_own_connector(
    spark: SparkSession, servers: str, case: Case
) -> None:
    recorded = RECORD["answers"][case.key]
    found = Asker(spark, servers, "kafkalite").ask(case)
    if case.differs:
        assert ("error" in found) != ("error" in recorded), f"it differs no more: {found}"
    elif "error" in recorded:
        assert "error" in found, found
    else:
        assert comparable(found) == comparable(recorded)
    if "error" in found:
        words = case.says or "|".join(re.escape(name) for name in case.options)
        assert re.search(words, found["says"]), found["says"]


@pytest.mark.jvm
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_sparks_own_connector_finds_on_our_broker_what_it_finds_on_kafka(
    spark: SparkSession, servers: str, case: Case
) -> None:
    recorded = RECORD["answers"][case.key]
    found = Asker(spark, servers, "kafka").ask(case)
    if "error" in recorded:
        assert found.get("error") == recorded["error"], found
    else:
        assert found == recorded


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """Leave out how many tasks there are: ours packs small partitions into one."""
    return {name: value for name, value in answer.items() if name != "tasks"}
