"""The columns of the source and of the sink, in Spark's types: those of Spark's own connector."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from .errors import OptionError, WriteError

__all__ = ["check_sink", "checked_columns", "source_schema"]

_HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))

_COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": _HEADERS,
}

_BYTES = (StringType, BinaryType)


def source_schema(include_headers: bool) -> StructType:
    """Return the columns that a query reads unless it names fewer."""
    names = list(_COLUMNS) if include_headers else list(_COLUMNS)[:-1]
    return StructType([StructField(name, _COLUMNS[name]) for name in names])


def checked_columns(schema: StructType) -> list[str]:
    """Return the names of the columns in ``schema``, which a user may have given.

    Raises:
        OptionError: A column that the source does not have, has of another type or has once.
    """
    names = [field.name for field in schema.fields]
    if twice := {name for name in names if names.count(name) > 1}:
        raise OptionError("schema", f"names {', '.join(sorted(twice))} twice")
    for field in schema.fields:
        if not field.nullable:
            why = f"column {field.name} may be null: leave out NOT NULL"
            raise OptionError("schema", why)
        known = _COLUMNS.get(field.name)
        if known is None:
            there = ", ".join(_COLUMNS)
            raise OptionError("schema", f"there is no column `{field.name}`", f"There are {there}")
        if field.dataType != known:
            told = field.dataType.simpleString()
            raise OptionError(
                "schema",
                f"column {field.name} is {known.simpleString()}, not {told}",
                "Cast it in the query",
            )
    return names


def check_sink(schema: StructType, topic: str | None) -> None:
    """Refuse rows that are no records.

    Raises:
        WriteError: A column is missing or of a type that has no meaning.
    """
    fields = {field.name: field.dataType for field in schema.fields}
    if "value" not in fields:
        there = ", ".join(fields) or "none"
        raise WriteError(f"rows need a column `value` of type string or binary, and have {there}")
    for name in ("key", "value"):
        if name in fields and not isinstance(fields[name], _BYTES):
            told = fields[name].simpleString()
            raise WriteError(f"column {name} is {told}, not string or binary: cast it, or to_json")
    if topic is None and "topic" not in fields:
        raise WriteError("no topic: give the option `topic`, or a column `topic`")
    for name, kind in (("topic", StringType), ("partition", IntegerType)):
        if name in fields and not isinstance(fields[name], kind):
            told, right = fields[name].simpleString(), kind().simpleString()
            raise WriteError(f"column {name} is {told}, not {right}: cast it")
    told, right = fields.get("headers", _HEADERS).simpleString(), _HEADERS.simpleString()
    # In words, which leave out what may be null: a literal may not.
    if told != right:
        raise WriteError(f"column headers is {told}, not {right}")
