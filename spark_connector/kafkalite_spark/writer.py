"""The sinks: rows to records, in batches and in streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from .options import WriteOptions
from .sending import Sent, send_rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KafkaliteStreamWriter", "KafkaliteWriter"]

#: What the tasks returned, in order; ``None`` for one that failed.
Messages = list[WriterCommitMessage | None]


class KafkaliteWriter(DataSourceArrowWriter):
    """Writes a batch of rows; what was sent before a failure stays."""

    def __init__(self, options: WriteOptions) -> None:
        """Hold plain data: it is pickled."""
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Send the rows of one task, and wait until all are acknowledged."""
        return send_rows(iterator, self._options)

    def commit(self, messages: Messages) -> None:
        """Do nothing: every task waited for its acknowledgements."""

    def abort(self, messages: Messages) -> None:
        """Do nothing: records cannot be taken back."""


#: Spark 4.0 has none.
_StreamBase = getattr(datasource, "DataSourceStreamArrowWriter", None)

if _StreamBase is None:
    KafkaliteStreamWriter = None
else:

    class KafkaliteStreamWriter(_StreamBase):  # type: ignore[no-redef, misc, valid-type]
        """Writes micro-batches; one that is replayed is written again."""

        def __init__(self, options: WriteOptions) -> None:
            """Hold plain data: it is pickled."""
            self._options = options

        def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
            """Send the rows of one task, and wait until all are acknowledged."""
            return send_rows(iterator, self._options)

        def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
            """Do nothing: every task waited for its acknowledgements."""

        def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
            """Do nothing: records cannot be taken back."""
