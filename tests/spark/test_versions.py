"""Missing parts of older PySparks are logged, or refused if a query asks for them."""

from __future__ import annotations

import logging

import pytest

from kafkalite_spark.errors import OptionError
from kafkalite_spark.options import parse_read
from kafkalite_spark.versions import check_stream, lacking

WHAT = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}


@pytest.mark.parametrize(
    ("version", "missing"), [("4.0.5", 4), ("4.1.4", 3), ("4.2.0", 0), ("4.3.0", 0), ("4.10.0", 0)]
)
def test_each_version_lacks_what_came_later(version: str, missing: int) -> None:
    assert len(lacking(version)) == missing


def test_a_limit_that_spark_would_not_ask_for_is_refused() -> None:
    limited = parse_read({**WHAT, "maxOffsetsPerTrigger": "5"}, stream=True)
    with pytest.raises(OptionError, match=r"maxOffsetsPerTrigger: PySpark 4\.1\.4.*4\.2"):
        check_stream("4.1.4", limited)
    check_stream("4.2.0", limited)


def test_a_stream_on_an_older_version_says_what_it_does_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain = parse_read(WHAT, stream=True)
    with caplog.at_level(logging.WARNING):
        check_stream("4.2.0", plain)
        assert not caplog.messages
        check_stream("4.0.5", plain)
    assert "streams cannot be written" in caplog.text
