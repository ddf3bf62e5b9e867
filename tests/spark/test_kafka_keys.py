"""Clients' keys are checked before a task has them, and named as options are."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Literal

import pytest

from kafkalite.errors import KafkaliteError
from kafkalite_spark.errors import OptionError
from kafkalite_spark.kafka_keys import check_keys, in_options, told
from kafkalite_spark.option_table import FORBIDDEN_KAFKA

SERVERS = {"bootstrap.servers": "localhost:9092"}


@pytest.mark.parametrize(
    ("client", "key", "value", "words"),
    [
        ("producer", "lingr.ms", "5", "kafka.lingr.ms: unknown key. Did you mean kafka.linger.ms?"),
        ("consumer", "fetch.min.byte", "1", "Did you mean kafka.fetch.min.bytes?"),
        ("consumer", "linger.ms", "5", "kafka.linger.ms: the consumer has no such key. It is a"),
        ("producer", "message.timeout.ms", "1", "name for it is kafka.delivery.timeout.ms"),
        ("producer", "acks", "most", "kafka.acks: `most` is not one of all, -1, 0, 1"),
        ("producer", "compression.type", "lz5", "Did you mean lz4?"),
        ("producer", "linger.ms", "soon", "kafka.linger.ms: `soon` is not a whole number"),
        ("producer", "delivery.timeout.ms", "1", "less than kafka.linger.ms + kafka.request.time"),
        ("consumer", "isolation.level", "commited", "kafka.isolation.level: `commited` is not"),
        ("consumer", "bootstrap.servers", "a:b", "kafka.bootstrap.servers: `a:b` has no port"),
        ("consumer", "sasl.mechanism", "PLAIN", "kafka.sasl.mechanism: connections are PLAINTEXT"),
    ],
)
def test_what_a_task_would_refuse_is_refused_by_the_name_of_the_option(
    client: Literal["consumer", "producer"], key: str, value: str, words: str
) -> None:
    with pytest.raises(OptionError) as caught:
        check_keys(client, {**SERVERS, key: value})
    assert words in str(caught.value)


def test_keys_that_are_right_pass_and_those_without_effect_are_listed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        check_keys("consumer", {**SERVERS, "fetch.min.bytes": "10"})
        assert not caplog.messages
        check_keys("consumer", {**SERVERS, "interceptor.classes": "x"})
    assert "kafka.interceptor.classes=x is Kafka's" in caplog.text


def test_errors_name_keys_as_options_and_end_with_what_to_do() -> None:
    error = KafkaliteError("MESSAGE_TOO_LARGE: 9 bytes", hint="raise max.request.size.")
    assert told(error) == "MESSAGE_TOO_LARGE: 9 bytes; raise kafka.max.request.size."
    assert told(KafkaliteError("plain")) == "plain"


@pytest.mark.parametrize(
    "hint",
    [
        "seek to an offset that is there, or set auto.offset.reset to go to either end.",
        "set enable.auto.commit=false.",
        "seek behind offset 5 to go on without it.",
        "pass exist_ok=True if that is fine.",
    ],
)
def test_errors_end_with_nothing_that_a_query_cannot_do(hint: str) -> None:
    # An option was recommended that the connector refuses.
    assert told(KafkaliteError("OFFSET_OUT_OF_RANGE: 5", hint=hint)) == "OFFSET_OUT_OF_RANGE: 5"


def test_no_hint_of_a_client_names_an_option_that_is_refused() -> None:
    source = Path(__file__).parents[2] / "rust" / "client" / "src" / "error.rs"
    body = source.read_text().partition("pub fn hint(&self)")[2]
    hints = re.findall(r'"((?:[^"\\]|\\.)+)"', body)
    assert len(hints) > 10
    for hint in hints:
        shown = told(KafkaliteError("x", hint=hint))
        assert not [key for key in FORBIDDEN_KAFKA if f"kafka.{key}" in shown], shown


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("acks=all and linger.ms.", "kafka.acks=all and kafka.linger.ms."),
        ("retry.backoff.max.ms", "kafka.retry.backoff.max.ms"),
        ("kafka.linger.ms", "kafka.linger.ms"),
        (
            "topic my.linger.ms-0 of host.client.id.net",
            "topic my.linger.ms-0 of host.client.id.net",
        ),
        ("the retries of a partitioner", "the retries of a partitioner"),
    ],
)
def test_only_whole_keys_get_the_prefix(text: str, told: str) -> None:
    assert in_options(text) == told
