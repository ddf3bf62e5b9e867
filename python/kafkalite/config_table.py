"""The table of the broker's and the topics' keys, as the binary defines it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _native
from ._native import ConfigKey, ConfigOrigin

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ConfigKey", "ConfigOrigin", "keys", "nearest", "origins"]


def keys() -> list[ConfigKey]:
    """Return every key of brokers, then of topics, in the order of the table."""
    return _native.config_keys()


def nearest(name: str, names: Sequence[str]) -> str | None:
    """Return the one of ``names`` that was probably meant by ``name``."""
    return _native.nearest(name, list(names))


def origins(flags: Sequence[str]) -> list[ConfigOrigin]:
    """Return what ``kafkalite serve`` with these flags would run with, and why.

    Args:
        flags: As ``serve`` takes them; files and the environment count as well.

    Raises:
        KafkaliteError: As ``serve`` would refuse them.
    """
    return _native.config_origins(list(flags))
