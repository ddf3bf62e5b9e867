"""The Spark blocks of the README and of the guide run: batch, then stream and sink."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]


def blocks(page: str) -> list[str]:
    """The Python blocks of a page that use Spark."""
    found = re.findall(
        r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE
    )
    return [block for block in found if "spark" in block]


def here(block: str, topic: Any) -> str:
    """The block with the test's broker and topic in place of those of the page."""
    return block.replace("127.0.0.1:9092", topic.servers).replace('"orders"', f'"{topic.name}"')


@pytest.mark.slice
@pytest.mark.parametrize("page", ["README.md", "docs/guides/spark.md"])
@pytest.mark.usefixtures("spark")
def test_the_first_block_shows_the_records(
    make_topic: Callable[..., Any], capsys: pytest.CaptureFixture[str], page: str
) -> None:
    topic = make_topic()
    for value in (b"book", b"lamp"):
        topic.write(value)
    exec(here(blocks(page)[0], topic), {})
    shown = capsys.readouterr().out
    assert "book" in shown
    assert "lamp" in shown


def test_the_stream_copies_the_topic(
    spark: SparkSession,
    make_topic: Callable[..., Any],
    tmp_path: Path,
) -> None:
    topic = make_topic()
    for value in (b"book", b"lamp"):
        topic.write(value, key=b"k")
    names: dict[str, Any] = {"spark": spark}
    block = here(blocks("docs/guides/spark.md")[1], topic)
    exec(block.replace('"checkpoints/copies"', repr(str(tmp_path / "checkpoint"))), names)
    assert names["query"].awaitTermination(120)
    copies = spark.read.format("kafkalite").option("kafka.bootstrap.servers", topic.servers)
    rows = copies.option("subscribe", "copies").load().select("value").collect()
    assert sorted(bytes(row.value) for row in rows) == [b"book", b"lamp"]
