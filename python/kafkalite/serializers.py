"""From values to bytes: what a producer's ``key_serializer`` and ``value_serializer`` may be.

A serializer is any callable that takes a value and returns bytes. It never gets ``None``, because
a tombstone is the same in every format.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

__all__ = ["JsonSerializer", "StringSerializer"]


class StringSerializer:
    """Texts as bytes of an encoding."""

    def __init__(self, encoding: str = "utf-8") -> None:
        """Make a serializer.

        Args:
            encoding: As ``str.encode`` knows it.
        """
        self._encoding = encoding

    def __call__(self, value: str) -> bytes:
        """Return the text's bytes.

        Raises:
            UnicodeEncodeError: The encoding has no such letter.
        """
        return value.encode(self._encoding)

    def __repr__(self) -> str:
        """Return how it was made."""
        return f"StringSerializer({self._encoding!r})"


class JsonSerializer:
    """Values as JSON in UTF-8, without needless spaces."""

    def __init__(
        self, *, default: Callable[[Any], object] | None = None, sort_keys: bool = False
    ) -> None:
        """Make a serializer.

        Args:
            default: Makes a value that JSON has no form for into one that it has.
            sort_keys: Write the keys of objects in order, so that equal keys of records are equal
                bytes.
        """
        self._encode = json.JSONEncoder(
            ensure_ascii=False,
            separators=(",", ":"),
            default=default,
            sort_keys=sort_keys,
            allow_nan=False,
        ).encode

    def __call__(self, value: object) -> bytes:
        """Return the value as JSON.

        Raises:
            TypeError: JSON has no form for it.
            ValueError: A number that is none, or infinite.
        """
        return self._encode(value).encode()

    def __repr__(self) -> str:
        """Return what it is."""
        return "JsonSerializer()"
