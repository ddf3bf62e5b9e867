"""Keywords and dictionaries become what the binary takes; the binary checks it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints

import pytest

import kafkalite as kl
from kafkalite import _native
from kafkalite.config import AdminOptions, ConfigValue, ConsumerOptions, ProducerOptions, merged
from kafkalite.errors import ConfigError
from kafkalite.ranges import RangeReader


@pytest.mark.parametrize(
    ("options", "owners", "others"),
    [
        (AdminOptions, {"all", "callers"}, set()),
        (ProducerOptions, {"all", "producer"}, set()),
        (ConsumerOptions, {"all", "callers", "consumer"}, {"group_id"}),
    ],
)
def test_the_types_know_the_keys_of_the_table(
    options: type, owners: set[str], others: set[str]
) -> None:
    table = {key.replace(".", "_") for key, owner, *_ in _native.client_keys() if owner in owners}
    assert set(get_type_hints(options)) == table - others


def test_values_become_text_and_keywords_win() -> None:
    config: dict[str, ConfigValue | None]
    config = {"linger.ms": 1, "acks": "all", "client_id": "a", "retries": None}
    keywords = {"linger_ms": 5.0, "bootstrap_servers": ["a:1", "b:2"], "check_crcs": True}
    assert merged(config, keywords) == {
        "linger.ms": "5",
        "acks": "all",
        "client.id": "a",
        "bootstrap.servers": "a:1,b:2",
        "check.crcs": "true",
    }


@pytest.mark.parametrize("value", [object(), {"a": 1}, [1, 2], b"bytes"])
def test_a_value_that_no_key_has_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"INVALID_CONFIG: linger\.ms: "):
        merged(None, {"linger_ms": value})


def test_the_binary_says_what_was_meant() -> None:
    with pytest.raises(ConfigError, match=r"clent\.id: unknown key") as info:
        _native.AdminClient(merged(None, {"bootstrap_servers": "a:1", "clent_id": "x"}))
    assert info.value.hint == "did you mean client.id?"


def test_keys_without_a_meaning_here_are_listed() -> None:
    native = _native.AdminClient({"bootstrap.servers": "a:1", "metric.reporters": "x"})
    assert native.warnings == ["metric.reporters=x is Kafka's, and changes nothing here"]
    assert native.close(5)


@pytest.mark.parametrize(
    "make",
    [
        kl.Producer,
        kl.Consumer,
        kl.AdminClient,
        kl.AsyncProducer,
        kl.AsyncConsumer,
        kl.AsyncAdminClient,
        RangeReader,
    ],
    ids=lambda make: make.__name__,
)
def test_every_client_warns_of_them_at_the_line_that_makes_it(make: Callable[..., Any]) -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", "metric.reporters": "x"}
    topics = ("t",) if "Consumer" in make.__name__ else ()
    with pytest.warns(UserWarning, match=r"metric\.reporters=x is Kafka's") as seen:
        client = make(*topics, config=settings)
    assert [warning.filename for warning in seen] == [__file__]
    closed = client.close()
    if inspect.isawaitable(closed):
        asyncio.run(_awaited(closed))


async def _awaited(closed: Awaitable[None]) -> None:
    await closed
