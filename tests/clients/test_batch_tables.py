"""Batches of a consumer as tables of pyarrow, pandas and polars."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import kafkalite as kl

pa = pytest.importorskip("pyarrow")

PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def batch() -> kl.RecordBatch:
    """Three records of a topic."""
    with kl.Broker(topics=["t"]) as broker:
        servers = broker.bootstrap_servers
        with kl.Producer(bootstrap_servers=servers) as producer:
            producer.send_batch("t", [b"one", None, b"three"], keys=[b"k", None, None]).result(
                PATIENCE_S
            )
        with kl.Consumer("t", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            read = consumer.next_batch(timeout=PATIENCE_S)
    assert read is not None
    assert len(read) == 3
    return read


def test_a_batch_is_a_table_of_pyarrow(batch: kl.RecordBatch) -> None:
    table = batch.to_arrow()
    assert isinstance(table, pa.Table)
    assert table["value"].to_pylist() == [b"one", None, b"three"]
    assert table["offset"].to_pylist() == [0, 1, 2]


def test_a_batch_is_a_data_frame_of_pandas(batch: kl.RecordBatch) -> None:
    pandas: Any = pytest.importorskip("pandas")
    frame = batch.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["key"]) == [b"k", None, None]
    assert frame["topic"].tolist() == ["t"] * 3


def test_a_batch_is_a_data_frame_of_polars(batch: kl.RecordBatch) -> None:
    polars: Any = pytest.importorskip("polars")
    frame = batch.to_polars()
    assert isinstance(frame, polars.DataFrame)
    assert frame["value"].to_list() == [b"one", None, b"three"]


def test_a_library_that_is_missing_is_named_with_the_command(
    batch: kl.RecordBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        batch.to_arrow()
    assert caught.value.__notes__ == ["hint: pip install pyarrow"]
