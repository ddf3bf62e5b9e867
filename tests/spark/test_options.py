"""Options of the connector: Spark's names, checked before anything starts."""

from __future__ import annotations

import pytest

from kafkalite_spark.errors import OptionError
from kafkalite_spark.options import At, parse_read, parse_write

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
WHAT = {**SERVERS, "subscribe": "a"}


def test_a_batch_reads_from_earliest_to_latest_and_a_stream_from_latest() -> None:
    batch = parse_read(WHAT, stream=False)
    assert (batch.start.everywhere, batch.end.everywhere) == (-2, -1)
    assert parse_read(WHAT, stream=True).start.everywhere == -1


@pytest.mark.parametrize(
    ("options", "topics", "pattern", "assigned"),
    [
        ({"subscribe": "b, a"}, ("a", "b"), None, ()),
        ({"subscribePattern": "a.*"}, (), "a.*", ()),
        ({"assign": '{"b": [1, 0]}'}, ("b",), None, (("b", 0), ("b", 1))),
    ],
)
def test_what_is_read_is_said_in_one_of_three_ways(
    options: dict[str, str], topics: object, pattern: object, assigned: object
) -> None:
    read = parse_read({**SERVERS, **options}, stream=False)
    assert (read.topics, read.pattern, read.assigned) == (topics, pattern, assigned)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "latest"}, At(everywhere=-1)),
        ({"startingOffsets": '{"a": {"0": 5, "1": -2}}'}, At(offsets={("a", 0): 5, ("a", 1): -2})),
        ({"startingOffsetsByTimestamp": '{"a": {"0": 7}}'}, At(timestamps={("a", 0): 7})),
        # The first that is given of these wins, as in Spark.
        (
            {"startingTimestamp": "9", "startingOffsetsByTimestamp": "{}", "startingOffsets": "x"},
            At(timestamp=9),
        ),
    ],
)
def test_a_stream_begins_where_its_options_say(options: dict[str, str], expected: At) -> None:
    start = parse_read({**WHAT, **options}, stream=True).start
    assert At(start.everywhere, start.timestamp, start.offsets, start.timestamps) == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subcribe": "b"}, ["subcribe", "Did you mean subscribe?"]),
        ({"maxOffsetPerTrigger": "1"}, ["Did you mean maxOffsetsPerTrigger?"]),
        ({"bootstrap.servers": "x"}, ["Did you mean kafka.bootstrap.servers?"]),
        ({"security.protocol": "SSL"}, ["Did you mean kafka.security.protocol?"]),
        ({"path": "x"}, ["option path: records are in topics. Give the option subscribe"]),
        ({"subscribe": " , "}, ["subscribe", "names no topic"]),
        ({"startingOffsets": "earlist"}, ["`earlist` is no JSON", "Give earliest, latest or {"]),
        ({"startingTimestamp": "2024-01-01"}, ["no whole number. Give milliseconds since 1970"]),
        ({"startingOffsetsByTimestamp": "17"}, ["`17` is no JSON object", "milliseconds"]),
        ({"subscribe": "a", "assign": "{}"}, ["exactly one of"]),
        ({"subscribe": ""}, ["subscribe", "empty"]),
        ({"subscribe": "", "subscribePattern": "("}, ["exactly one of"]),
        ({"kafka.auto.offset.reset": "latest"}, ["use startingOffsets"]),
        ({"kafka.key.deserializer": "x"}, ["kafka.key.deserializer"]),
        ({"startingOffsets": "{"}, ["startingOffsets", "no JSON"]),
        ({"startingOffsets": '{"a": 1}'}, ["startingOffsets", "'a'"]),
        ({"startingOffsets": '{"a": {"x": 1}}'}, ["'x'"]),
        ({"startingOffsets": '{"a": {"0": -3}}'}, ["-3 of a-0"]),
        ({"maxOffsetsPerTrigger": "0"}, ["maxOffsetsPerTrigger", "less than 1"]),
        ({"maxOffsetsPerTrigger": "many"}, ["no whole number"]),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "9"}, ["minOffsetsPerTrigger"]),
        ({"maxTriggerDelay": "soon"}, ["maxTriggerDelay", "no duration"]),
        ({"failOnDataLoss": "perhaps"}, ["neither true nor false"]),
        ({"batchBytes": "much"}, ["batchBytes", "bytes"]),
        ({"fetchBufferBytes": "2g"}, ["fetchBufferBytes", "more than 2147483647 bytes"]),
        ({"maxOffsetsPerTrigger": str(1 << 63)}, ["maxOffsetsPerTrigger", "more than"]),
        ({"startingOffsets": f'{{"a": {{"0": {1 << 63}}}}}'}, ["of a-0 is no offset"]),
        ({"startingOffsetsByTimestamp": '{"a": {"0": -1}}'}, ["-1 of a-0 is no time"]),
        ({"commitOffsetsToGroup": "true"}, ["needs kafka.group.id"]),
        ({"startingOffsetsByTimestampStrategy": "guess"}, ["neither error nor latest"]),
        ({"endingOffsets": "latest"}, ["endingOffsets", "does not apply to readStream"]),
        ({"topic": "x"}, ["topic", "does not apply to readStream"]),
    ],
)
def test_what_cannot_be_is_an_error_that_says_what_would_be(
    options: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(OptionError) as caught:
        parse_read({**WHAT, **options}, stream=True)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, "reads nothing"),
        ({"endingOffsets": "earliest"}, "reads nothing"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "-2 of a-0"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "not for the start of a batch"),
        ({"maxOffsetsPerTrigger": "5"}, "does not apply to read"),
        ({"pushFilters": "true"}, "not pushed down"),
    ],
)
def test_a_batch_that_would_read_nothing_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        parse_read({**WHAT, **options}, stream=False)


def test_servers_are_needed() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is missing|is missing"):
        parse_read({"subscribe": "a"}, stream=False)


def test_names_are_found_whatever_their_case_as_spark_folds_them() -> None:
    read = parse_read({**WHAT, "MAXOFFSETSPERTRIGGER": "5", "maxtriggerdelay": "2s"}, stream=True)
    assert (read.max_offsets, read.max_delay_s) == (5, 2.0)


@pytest.mark.parametrize(("text", "size"), [("100", 100), ("2k", 2048), ("1m", 1 << 20)])
def test_sizes_have_units(text: str, size: int) -> None:
    assert parse_read({**WHAT, "batchBytes": text}, stream=False).batch_bytes == size


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900.0), ("500ms", 0.5), ("3", 0.003), ("1h", 3600.0)]
)
def test_durations_have_units(text: str, seconds: float) -> None:
    assert parse_read({**WHAT, "maxTriggerDelay": text}, stream=True).max_delay_s == seconds


def test_exactly_once_is_refused_with_a_hint_until_it_is_there() -> None:
    with pytest.raises(OptionError, match="at least once"):
        parse_write({**SERVERS, "transactional": "true"}, stream=True)
    assert parse_write({**SERVERS, "transactional": "false"}, stream=True).topic is None


def test_a_topic_without_a_name_is_refused() -> None:
    with pytest.raises(OptionError, match="topic: is empty"):
        parse_write({**SERVERS, "topic": " "}, stream=False)


def test_a_sink_takes_its_topic_and_its_clients_keys() -> None:
    write = parse_write({**SERVERS, "topic": "out", "kafka.linger.ms": "7"}, stream=False)
    assert write.topic == "out"
    assert write.kafka == {"bootstrap.servers": "localhost:9092", "linger.ms": "7"}
