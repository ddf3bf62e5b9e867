"""The tables of keys, of brokers, topics and clients, as the binary defines them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from . import _native
from ._native import ConfigKey, ConfigOrigin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "ClientKey",
    "ConfigKey",
    "ConfigOrigin",
    "check_client",
    "client_keys",
    "keys",
    "meant_by",
    "nearest",
    "origins",
]


class ClientKey(NamedTuple):
    """A key of our clients."""

    name: str
    #: Who has it: ``all``, ``callers`` (consumer and admin), ``producer`` or ``consumer``.
    client: str
    #: In small letters: ``int``, ``list``, ...
    kind: str
    #: Unset is ``None``.
    default: str | None
    #: In Kafka's notation; empty if every value of the kind is valid.
    valid: str
    doc: str

    @property
    def level(self) -> str:
        """What stands behind the name where keys of brokers say ``broker`` or ``topic``."""
        words = {"all": "every client", "callers": "consumer and admin"}
        return words.get(self.client, self.client)


def client_keys() -> list[ClientKey]:
    """Return every key of clients, in the order of their table."""
    rows = _native.client_keys()
    return [
        ClientKey(name, client, kind.lower(), default, valid, doc)
        for name, client, kind, default, valid, doc in rows
    ]


def check_client(client: Literal["consumer", "producer"], config: Mapping[str, str]) -> list[str]:
    """Check keys without making their client; return what their user should know of.

    Args:
        client: Whose keys they are.
        config: Keys with dots and their values.

    Raises:
        ConfigError: As the client would: ``INVALID_CONFIG: key: what is wrong``, and a hint.
    """
    return _native.check_client_keys(client, dict(config))


def keys() -> list[ConfigKey]:
    """Return every key of brokers, then of topics, in the order of the table."""
    return _native.config_keys()


def nearest(name: str, names: Sequence[str]) -> str | None:
    """Return the one of ``names`` that was probably meant by ``name``."""
    return _native.nearest(name, list(names))


def meant_by(names: Iterable[str], level: Literal["broker", "topic"]) -> str | None:
    """Return the hint for names of which one is no key of brokers, or of topics.

    Args:
        names: The names as given, with dots.
        level: Whose keys they should be.

    Returns:
        ``did you mean KEY?`` for the first that is none and comes near to one.
    """
    known = [key.name for key in keys() if key.level == level]
    for name in names:
        if name not in known and (meant := nearest(name, known)) is not None:
            return f"did you mean {meant}?"
    return None


def origins(flags: Sequence[str]) -> list[ConfigOrigin]:
    """Return what ``kafkalite serve`` with these flags would run with, and why.

    Args:
        flags: As ``serve`` takes them; files and the environment count as well.

    Raises:
        KafkaliteError: As ``serve`` would refuse them.
    """
    return _native.config_origins(list(flags))
