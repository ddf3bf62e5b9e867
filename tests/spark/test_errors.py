"""An error's text stands before its traceback, whatever Spark takes away from the error."""

from __future__ import annotations

import traceback

import pytest

from kafkalite_spark.errors import MissingError, OptionError, WriteError

ERRORS = (OptionError("topik", "there is none", "Did you mean topic?"), WriteError("no topic"))


def spark_text(error: Exception) -> str:
    """What a worker of PySpark sends to the JVM."""
    error.__cause__ = None
    return "".join(traceback.TracebackException.from_exception(error, compact=True).format())


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_text_comes_first_and_the_traceback_last(error: Exception) -> None:
    try:
        try:
            raise TimeoutError("the cause")
        except TimeoutError as cause:
            raise error from cause
    except type(error) as raised:
        lines = spark_text(raised).splitlines()
    line = f"kafkalite_spark.errors.{type(error).__name__}: {error}"
    assert lines[0] == line
    assert lines[4] == "Traceback (most recent call last):"
    assert lines[-1] == line
    assert "the cause" not in "".join(lines), "the connector's text names the cause already"


def test_an_error_keeps_its_type_and_attributes() -> None:
    error = OptionError("topic", "is empty")
    assert isinstance(error, ValueError)
    assert isinstance(error.__cause__, OptionError)
    assert error.__cause__.__cause__ is None
    assert (str(error), error.option) == ("option topic: is empty", "topic")
    assert isinstance(MissingError("topic a"), RuntimeError)
