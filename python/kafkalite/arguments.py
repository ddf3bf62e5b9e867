"""What is given by mistake, refused in words that say what would be right.

Who comes from another client knows other words: a dictionary as the first argument, ``callback=``,
``timeout_ms=``. Python's ``TypeError`` stays what it is and gets a hint.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from .errors import ConfigError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

P = ParamSpec("P")
R = TypeVar("R")

__all__ = [
    "absent",
    "absent_hint",
    "checked_callables",
    "checked_count",
    "checked_ms",
    "checked_seconds",
    "class_hint",
    "hinted",
    "refuse_positional",
    "unexpected",
]

#: Other clients' keywords, and what to write here.
_KEYWORDS = {
    "asynchronous": "commit() waits for the answer, commit_async() does not.",
    "callback": "it is on_delivery=, or send(...).add_done_callback(...).",
    "listener": "give on_assign= and on_revoke= to the consumer, when it is made.",
    "message": "give the record itself: commit(record).",
    "new_topics": "give them as the first argument: create_topics([NewTopic(...)]).",
    "num_messages": "it is max_records=.",
    "num_partitions": "it is partitions=.",
    "on_assign": "give on_assign= to the consumer, when it is made.",
    "on_lost": "give on_lost= to the consumer, when it is made.",
    "on_revoke": "give on_revoke= to the consumer, when it is made.",
    "operation_timeout": "it is timeout=, in seconds.",
    "pattern": 'give a compiled pattern: subscribe(re.compile("orders-.*")).',
    "request_timeout": "it is timeout=, in seconds.",
    "timeout_ms": "it is timeout=, in seconds.",
    "timestamp": "it is timestamp_ms=.",
    "topics": 'give the topics without a name: subscribe(["orders", "returns"]).',
}

#: Other clients' methods and attributes, and what to do here.
_ATTRIBUTES = {
    "add_callback": "it is add_done_callback(callback), called with the delivery.",
    "add_errback": "it is add_done_callback(callback), called with the delivery.",
    "abort_transaction": "there are no transactions yet.",
    "begin_transaction": "there are no transactions yet.",
    "commit_transaction": "there are no transactions yet.",
    "create_batch": "give a list of values to send_batch(topic, values).",
    "get": "it is result(timeout), in seconds.",
    "get_watermark_offsets": "they are beginning_offsets(partition) and end_offsets(partition).",
    "getmany": "it is consume(max_records, timeout), or next_batch().",
    "getone": "it is poll(timeout).",
    "highwater": "it is end_offsets(partition), or lag(partition).",
    "last_stable_offset": 'it is end_offsets(partition), with isolation_level="read_committed".',
    "incremental_assign": "give all partitions to assign(): those that stay keep their places.",
    "incremental_unassign": "give those that stay to assign(): they keep their places.",
    "init_transactions": "there are no transactions yet.",
    "is_done": "it is done().",
    "list_topics": "ask AdminClient.list_topics(), or partitions_for(topic).",
    "partitions_for_topic": "it is partitions_for(topic).",
    "poll": "nothing needs to be polled: callbacks are called on a thread of the producer.",
    "send_and_wait": "it is send(...).result(timeout), in seconds.",
    "seek_to_committed": "it is seek(partition, committed()[partition]).",
    "send_offsets_to_transaction": "there are no transactions yet.",
    "start": "nothing needs to be started; use the client in `with`, or `async with` in asyncio.",
    "stop": "it is close().",
    "store_offsets": "it is commit(record), or enable_auto_commit for what earlier calls returned.",
    "send_batch_and_wait": "it is send_batch(topic, values).result(timeout), in seconds.",
    "succeeded": "ask exception(): None is success.",
    "topics": "ask AdminClient.list_topics(); subscription() returns what is subscribed to.",
    "transaction": "there are no transactions yet.",
    "failed": "ask exception(): None is success.",
    "bootstrap_connected": "nothing is connected before the first record.",
}

#: The same at clients of asyncio, where something else is to do.
_ASYNC_ATTRIBUTES = {
    "list_topics": "ask AsyncAdminClient.list_topics(), or partitions_for(topic).",
    "send_and_wait": "await send(): it returns when the record is delivered.",
    "send_batch_and_wait": "await send_batch(): it returns when all records are delivered.",
    "topics": "ask AsyncAdminClient.list_topics(); subscription() returns what is subscribed to.",
}


#: Classes of other clients, and ours.
_CLASSES = {
    "AIOKafkaAdminClient": "AsyncAdminClient",
    "AIOKafkaConsumer": "AsyncConsumer",
    "AIOKafkaProducer": "AsyncProducer",
    "KafkaAdminClient": "AdminClient",
    "KafkaConsumer": "Consumer",
    "KafkaProducer": "Producer",
    "SerializingProducer": "Producer",
    "DeserializingConsumer": "Consumer",
}


def class_hint(name: str) -> str:
    """Return the hint for a class of another client that is looked for in this package, or ''."""
    ours = _CLASSES.get(name)
    return f"; hint: it is kafkalite.{ours} here" if ours else ""


def refuse_positional(client: str, given: tuple[object, ...]) -> None:
    """Refuse positional arguments of a client that has keywords alone.

    Raises:
        ConfigError: There are some.
    """
    if not given:
        return
    shown = "a dictionary" if isinstance(given[0], dict) else repr(given[0])
    hint = f'write {client}(bootstrap_servers="HOST:PORT"), or {client}(config={{...}}).'
    if client == "Broker":
        hint = 'write Broker(topics=["orders"]), or Broker(config={...}).'
    raise ConfigError(
        f"INVALID_CONFIG: {client} takes its settings as keywords, and was given {shown}", hint=hint
    )


def checked_callables(**given: object) -> None:
    """Refuse what would fail when it is called, far from where it was given.

    Raises:
        TypeError: One of them is neither ``None`` nor can be called.
    """
    for name, value in given.items():
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be something to call, not {type(value).__name__}")


def checked_seconds(timeout: float | None, name: str = "timeout") -> float | None:
    """Return a time limit as it is.

    Raises:
        TypeError: It is no number.
        InvalidArgumentError: It is not a number (NaN).
    """
    if timeout is None:
        return None
    if not isinstance(timeout, int | float):
        error = TypeError(f"{name} must be a number of seconds, not {type(timeout).__name__}")
        if hasattr(timeout, "total_seconds"):
            error.add_note(f"hint: pass {name}.total_seconds().")
        raise error
    if math.isnan(timeout):
        raise InvalidArgumentError(f"INVALID_REQUEST: {name}: nan is no number of seconds")
    return timeout


def checked_count(name: str, value: int) -> int:
    """Return a number of something as it is.

    Raises:
        TypeError: It is no whole number.
    """
    if isinstance(value, int):
        return value
    raise TypeError(f"{name} must be a whole number, not {type(value).__name__}")


def checked_ms(name: str, when: int) -> int:
    """Return a time in ms since 1970, UTC, as it is.

    Raises:
        TypeError: It is no whole number.
    """
    if isinstance(when, int):
        return when
    error = TypeError(f"{name} must be milliseconds since 1970, not {type(when).__name__}")
    if hasattr(when, "timestamp"):
        error.add_note("hint: pass int(when.timestamp() * 1000).")
    raise error


def unexpected(call: str, given: Mapping[str, object]) -> TypeError:
    """Return the error of a call that was given keywords it does not have."""
    name = next(iter(given))
    return _with_hint(TypeError(f"{call}() got an unexpected keyword argument {name!r}"))


def absent(owner: object, name: str) -> AttributeError:
    """Return Python's error for an attribute that ``owner`` lacks, with a hint if there is one."""
    text = f"{type(owner).__name__!r} object has no attribute {name!r}"
    return absent_hint(AttributeError(text, name=name, obj=owner), name)


def absent_hint(error: AttributeError, name: str) -> AttributeError:
    """Return the error with a hint, if ``name`` is another client's word."""
    hint = _ATTRIBUTES.get(name)
    if hasattr(type(error.obj), "__aenter__"):
        hint = _ASYNC_ATTRIBUTES.get(name, hint)
    if hint is not None:
        error.add_note(f"hint: {hint}")
    return error


def hinted(call: Callable[P, R]) -> Callable[P, R]:
    """Give Python's error for arguments that do not fit a hint, if they are another client's.

    For calls that are not made for every record.
    """

    @functools.wraps(call)
    def calling(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except TypeError as error:
            if re.search(r"takes .*positional arguments? but", str(error)):
                each = inspect.signature(call).parameters.values()
                names = [one.name for one in each if one.kind is one.KEYWORD_ONLY]
                error.add_note(f"hint: these are keywords: {', '.join(names)}.")
            _with_hint(error)
            raise

    return calling


def _with_hint(error: TypeError) -> TypeError:
    found = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    hint = _KEYWORDS.get(found[1]) if found else None
    if hint is not None and not getattr(error, "__notes__", None):
        error.add_note(f"hint: {hint}")
    return error
