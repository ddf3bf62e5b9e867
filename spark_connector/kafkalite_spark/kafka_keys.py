"""Clients' keys as options spell them: checked while a query is planned, named so in errors."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import cache
from typing import Literal

from .errors import OptionError
from .option_table import FORBIDDEN_KAFKA

__all__ = ["check_keys", "in_options", "is_key", "told"]

log = logging.getLogger(__name__)


def check_keys(client: Literal["consumer", "producer"], kafka: Mapping[str, str]) -> None:
    """Refuse what the client of a task would refuse, before there is a task.

    Args:
        client: Which client tasks have.
        kafka: Its keys, without ``kafka.``.

    Raises:
        OptionError: A key that the client does not have, or a value that it cannot have.
    """
    from kafkalite.config_table import check_client
    from kafkalite.errors import ConfigError

    try:
        warnings = check_client(client, kafka)
    except ConfigError as error:
        _, key, why = str(error).split(": ", 2)
        hint = in_options(error.hint or "")
        raise OptionError(f"kafka.{key}", in_options(why), hint[:1].upper() + hint[1:]) from None
    for warning in warnings:
        log.warning("kafkalite: kafka.%s", warning)


def is_key(name: str) -> bool:
    """Return whether clients have a key of that name."""
    from kafkalite.config_table import client_keys

    return any(row.name == name for row in client_keys())


def told(error: Exception) -> str:
    """Return what an error of kafkalite says with its hint, keys as options spell them.

    Hints are for programs that hold a client. What a query cannot do is left out: it has no
    consumer to seek with, and no key that the connector refuses.
    """
    hint = getattr(error, "hint", None)
    if hint and _NOT_FOR_QUERIES.search(hint):
        hint = None
    return in_options(f"{error}; {hint}" if hint else str(error))


_NOT_FOR_QUERIES = re.compile(
    "|".join(
        [r"\bseek\b", "exist_ok", *(rf"(?<![\w.-]){re.escape(key)}" for key in FORBIDDEN_KAFKA)]
    )
)


def in_options(text: str) -> str:
    """Put ``kafka.`` before every key of clients in ``text``."""
    return _keys().sub(r"kafka.\g<0>", text)


@cache
def _keys() -> re.Pattern[str]:
    from kafkalite.config_table import client_keys

    # `retries` and `partitioner` are words as well: those two stay as they are.
    names = [row.name for row in client_keys() if "." in row.name or row.name == "acks"]
    longest_first = sorted(map(re.escape, names), key=lambda name: -len(name))
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(longest_first)})(?![\w-]|\.\w)")
