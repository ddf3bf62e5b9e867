"""Queries whose first micro-batch was not finished, and checkpoints that go from hand to hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import kafkalite as kl
from tests.harness.process import PATIENCE_S

BOTH = pytest.mark.parametrize(
    "format_", ["kafkalite", pytest.param("kafka", marks=pytest.mark.jvm)]
)


class Query:
    """A query over one topic whose micro-batches fail or are collected, by one checkpoint."""

    def __init__(self, spark: SparkSession, topic: Any, place: Path) -> None:
        self._spark, self.topic, self.place = spark, topic, place

    def run(self, format_: str, fails: bool = False, **options: object) -> list[int]:
        """Run until all that is there is read; return the offsets that micro-batches had."""
        reader = self._spark.readStream.format(format_)
        reader = reader.option("kafka.bootstrap.servers", self.topic.servers)
        given = {"subscribe": self.topic.name, "startingOffsets": "earliest", **options}
        for name, value in given.items():
            reader = reader.option(name, value)
        had: list[int] = []

        def take(rows: DataFrame, number: int) -> None:
            if fails:
                raise RuntimeError("the sink is not there")
            had.extend(row.offset for row in rows.select("offset").collect())

        writer = reader.load().writeStream.foreachBatch(take).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.place)).start()
        try:
            if fails:
                with pytest.raises(PySparkException, match="the sink is not there"):
                    query.awaitTermination(PATIENCE_S * 2)
            else:
                assert query.awaitTermination(PATIENCE_S * 2), "the query does not end"
        finally:
            query.stop()
        return sorted(had)

    def lose(self, before: int) -> None:
        """Delete the records before an offset."""
        with kl.AdminClient(bootstrap_servers=self.topic.servers) as admin:
            admin.delete_records({(self.topic.name, 0): before})


@pytest.fixture
def query(spark: SparkSession, make_topic: Callable[..., Any], tmp_path: Path) -> Query:
    """Return a query over a topic of a hundred records."""
    topic = make_topic()
    topic.fill(100)
    return Query(spark, topic, tmp_path / "checkpoint")


@BOTH
def test_records_that_are_lost_before_the_first_micro_batch_is_replayed_fail_the_query(
    query: Query, format_: str
) -> None:
    # The restart read the fifty records that were left, without a word.
    query.run(format_, fails=True)
    query.lose(before=50)
    with pytest.raises(PySparkException, match="failOnDataLoss"):
        query.run(format_)
    assert query.run(format_, failOnDataLoss="false") == list(range(50, 100))


@BOTH
def test_a_first_micro_batch_is_replayed_as_it_was_planned_though_the_topic_grew(
    query: Query, format_: str
) -> None:
    starts = f'{{"{query.topic.name}": {{"0": 10}}}}'
    query.run(format_, fails=True, startingOffsets=starts)
    with kl.AdminClient(bootstrap_servers=query.topic.servers) as admin:
        admin.create_partitions(query.topic.name, 2)
    query.topic.fill(5, partition=1)
    read = query.run(format_, startingOffsets=starts)
    assert read == sorted([*range(10, 100), *range(5)])


@pytest.mark.jvm
def test_a_first_micro_batch_of_sparks_own_connector_is_finished_by_ours(query: Query) -> None:
    # Its rows were lost: our connector began where the options said by then.
    query.run("kafka", fails=True)
    given = {"startingOffsets": "latest"}
    with pytest.raises(PySparkException, match=r"not known.*checkpointLocation"):
        query.run("kafkalite", **given)
    assert query.run("kafkalite", checkpointLocation=query.place, **given) == list(range(100))


@pytest.mark.jvm
@pytest.mark.parametrize(("first", "second"), [("kafkalite", "kafka"), ("kafka", "kafkalite")])
def test_a_checkpoint_goes_on_with_the_other_connector_after_its_first_micro_batch(
    query: Query, first: str, second: str
) -> None:
    assert query.run(first) == list(range(100))
    query.topic.fill(50, first=100)
    assert query.run(second) == list(range(100, 150))
    query.topic.fill(7, first=150)
    assert query.run(first) == list(range(150, 157))
