"""Ctrl-C in the code of a program's own objects, which clients ask for numbers and texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kafkalite as kl


class Interrupts:
    """A number, or what looks like one, whose every method is interrupted."""

    def __float__(self) -> float:
        raise KeyboardInterrupt

    def __index__(self) -> int:
        raise KeyboardInterrupt


class LooksLikeATime:
    """No number; what it has in place of one is interrupted."""

    def __getattr__(self, name: str) -> Any:
        raise KeyboardInterrupt


class Unsayable(Exception):
    """An error whose text is interrupted."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


class Unprintable(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise ValueError


def raises(error: Exception) -> Callable[[Any], bytes]:
    """Return a serializer or deserializer that fails."""

    def fail(_: Any) -> bytes:
        raise error

    return fail


@pytest.mark.parametrize("made", [Interrupts, LooksLikeATime])
def test_ctrl_c_in_a_number_is_no_wrong_type(
    kafkalite_bootstrap: str, name: str, made: type
) -> None:
    given = made()
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap) as producer:
        delivery = producer.send(name, b"v")
        with pytest.raises(KeyboardInterrupt):
            delivery.result(given)
        with pytest.raises(KeyboardInterrupt):
            producer.send(name, b"v", timestamp_ms=given)


def test_ctrl_c_in_the_text_of_an_error_is_raised(kafkalite_bootstrap: str, name: str) -> None:
    """It was lost: a `SerializationError` said `<exception str() failed>`."""
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap) as producer:
        producer.send(name, b"v").result(30)
    fails = raises(Unsayable())
    with (
        kl.Producer(bootstrap_servers=kafkalite_bootstrap, value_serializer=fails) as producer,
        pytest.raises(KeyboardInterrupt),
    ):
        producer.send(name, 1)
    with kl.Consumer(
        name,
        bootstrap_servers=kafkalite_bootstrap,
        auto_offset_reset="earliest",
        value_deserializer=fails,
    ) as consumer:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(30)


def test_an_error_without_a_text_is_still_told(kafkalite_bootstrap: str, name: str) -> None:
    fails = raises(Unprintable())
    with (
        kl.Producer(bootstrap_servers=kafkalite_bootstrap, value_serializer=fails) as producer,
        pytest.raises(kl.SerializationError, match=r"Unprintable: <exception str\(\) failed>"),
    ):
        producer.send(name, 1)
