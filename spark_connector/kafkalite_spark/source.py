"""What Spark calls: the format ``kafkalite``. Imports nothing native."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from .errors import WriteError
from .options import FALL_BACK, parse_read
from .schema import checked_columns, source_schema

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

        return KafkaliteReader(parse_read(self.options, stream=False), checked_columns(schema))

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802
        """Return the reader of a stream."""
        from .stream_reader import KafkaliteStreamReader

        options = parse_read(self.options, stream=True)
        return KafkaliteStreamReader(options, checked_columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """Refuse: there is no sink yet."""
        raise WriteError(f"writing is not built yet; {FALL_BACK}")

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        """Refuse: there is no sink yet."""
        raise WriteError(f"writing is not built yet; {FALL_BACK}")
