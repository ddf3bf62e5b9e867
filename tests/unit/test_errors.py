"""The tree of exceptions, and what of Kafka becomes which."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys

import pytest

import kafkalite
from kafkalite import _native, errors


def classes() -> list[type[errors.KafkaliteError]]:
    return [getattr(errors, name) for name in errors.__all__]


def test_every_exception_stands_in_the_tree() -> None:
    tree = re.findall(r"(\w+) {2,}\S", errors.__doc__ or "")
    drawn = {name for name in tree if name in errors.__all__}
    drawn |= set(re.findall(r"── (\w+)", errors.__doc__ or "")) | {"KafkaliteError"}
    assert drawn == set(errors.__all__)
    assert all(issubclass(each, errors.KafkaliteError) for each in classes())


def test_every_code_of_kafka_has_a_class_with_its_name_in_the_text() -> None:
    codes = _native.error_codes()
    assert [code for code, *_ in codes] == list(range(-1, len(codes) - 1))
    for code, name, class_name, retriable in codes:
        error = getattr(errors, class_name)(f"{name}: x", code=code, retriable=retriable)
        assert (error.name, error.code, error.retriable) == (name, code, retriable)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (1, "OffsetOutOfRangeError"),
        (3, "UnknownTopicError"),
        (6, "LeaderUnavailableError"),
        (7, "RequestTimedOut"),
        (10, "MessageTooLarge"),
        (16, "CoordinatorUnavailableError"),
        (27, "RebalanceError"),
        (29, "AuthorizationError"),
        (36, "TopicExistsError"),
        (40, "ConfigError"),
        (68, "GroupNotEmptyError"),
        (82, "FencedInstanceError"),
        (90, "ProducerFencedError"),
        (-1, "BrokerError"),
    ],
)
def test_the_class_says_what_a_code_is_about(code: int, name: str) -> None:
    assert {number: cls for number, _, cls, _ in _native.error_codes()}[code] == name


def test_a_hint_stands_below_the_traceback_and_in_its_attribute() -> None:
    error = kafkalite.KafkaliteError("X: y", hint="do z.")
    assert error.hint == "do z."
    assert error.__notes__ == ["hint: do z."]
    assert str(error) == "X: y"


@pytest.mark.parametrize("each", classes())
def test_an_exception_survives_pickling(each: type[errors.KafkaliteError]) -> None:
    error = each("NAME: text")
    error.hint = "h"
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.hint) == (each, "NAME: text", "h")


def test_builtin_exceptions_catch_what_they_should() -> None:
    for each, builtin in [
        (errors.NoBrokerReachable, ConnectionError),
        (errors.DeliveryTimeout, TimeoutError),
        (errors.ConfigError, ValueError),
    ]:
        assert issubclass(each, builtin)


def test_the_binary_imports_no_exceptions_before_one_is_raised() -> None:
    program = "import sys, kafkalite._native; print('kafkalite.errors' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "False"
