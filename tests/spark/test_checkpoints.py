"""The settings for checkpoints on a local disk: pure."""

from __future__ import annotations

import pytest

from kafkalite_spark.checkpoints import MANAGER, local_checkpoints


@pytest.mark.parametrize(
    ("version", "package"),
    [
        ("4.0.5", "org.apache.spark.sql.execution.streaming"),
        ("4.1.4", "org.apache.spark.sql.execution.streaming.checkpointing"),
        ("4.2.0", "org.apache.spark.sql.execution.streaming.checkpointing"),
        ("4.3.0", "org.apache.spark.sql.execution.streaming.checkpointing"),
    ],
)
def test_the_class_that_writes_checkpoints_is_named_as_its_spark_names_it(
    version: str, package: str
) -> None:
    named = local_checkpoints(version)[MANAGER]
    assert named == f"{package}.FileSystemBasedCheckpointFileManager"
