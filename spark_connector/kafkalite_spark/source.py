"""What Spark calls: the format ``kafkalite``. Imports nothing native."""

from __future__ import annotations

from typing import Any

import pyspark
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from .errors import OptionError, WriteError
from .kafka_keys import check_keys
from .options import FALL_BACK, WriteOptions, parse_read, parse_write
from .schema import check_sink, checked_columns, source_schema
from .tasks import client_config
from .versions import check_stream

__all__ = ["KafkaliteSource"]


class KafkaliteSource(DataSource):
    """``format("kafkalite")``, with the options of Spark's own Kafka connector."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kafkalite"

    def schema(self) -> StructType:
        """Return all columns. A query that names fewer with ``.schema(...)`` reads fewer."""
        headers = self.options.get("includeHeaders", "false")
        return source_schema(headers.strip().lower() == "true")

    def reader(self, schema: StructType) -> Any:
        """Return the reader of a batch."""
        from .reader import KafkaliteReader

        options = parse_read(self.options, stream=False)
        check_keys("consumer", client_config(options))
        return KafkaliteReader(options, checked_columns(schema))

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802
        """Return the reader of a stream; one that is refused says so when it is first asked."""
        from .stream_reader import KafkaliteStreamReader, RefusedStreamReader

        try:
            options = parse_read(self.options, stream=True)
            check_stream(pyspark.__version__, options)
            check_keys("consumer", client_config(options))
            return KafkaliteStreamReader(options, checked_columns(schema))
        except OptionError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """Return the writer of a batch."""
        from .writer import KafkaliteWriter

        if overwrite:
            raise WriteError('a log is only added to: write with .mode("append")')
        return KafkaliteWriter(self._write_options(schema, stream=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        """Return the writer of a stream; in complete mode every result is sent again."""
        from .writer import KafkaliteStreamWriter

        if KafkaliteStreamWriter is None:
            raise WriteError(f"writing streams needs PySpark 4.1 or newer; {FALL_BACK}")
        return KafkaliteStreamWriter(self._write_options(schema, stream=True))

    def _write_options(self, schema: StructType, *, stream: bool) -> WriteOptions:
        options = parse_write(self.options, stream=stream)
        check_sink(schema, options.topic)
        check_keys("producer", options.kafka)
        return options
