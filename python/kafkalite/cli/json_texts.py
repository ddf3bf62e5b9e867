"""The texts of the members of JSON values, just as they were written.

A number that goes through Python's ``float`` comes out as another one: 1e400 is infinite there.
"""

from __future__ import annotations

import json
import re
from typing import Any

_SPACE = re.compile(r"[ \t\n\r]*")


class Repeated(dict[str, Any]):
    """An object that has a member twice; only the last is in it."""


class ConstantError(ValueError):
    """NaN or Infinity, which Python's JSON has and others have not."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repeated(found)


def _constant(name: str) -> Any:
    raise ConstantError(name)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def text_of(document: bytes) -> str:
    """Return JSON as text, whichever of Unicode's encodings it has.

    Raises:
        UnicodeDecodeError: It has none.
    """
    return document.decode(json.detect_encoding(document), "surrogatepass")


def parsed(text: str) -> Any:
    """Return what a text stands for.

    Raises:
        JSONDecodeError: It is not JSON.
        ConstantError: It has NaN or Infinity.
        RecursionError: It is nested too deeply.
        ValueError: A number has too many digits.
    """
    return _DECODER.decode(text)


def members(text: str) -> dict[str, str]:
    """Return the text of each member of an object; ``text`` is one that can be parsed."""
    found = {}
    at = _next(text, _next(text, 0) + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        start = _next(text, _next(text, at) + 1)
        _, end = _DECODER.raw_decode(text, start)
        found[name] = text[start:end]
        at = _behind_comma(text, end)
    return found


def elements(text: str) -> list[str]:
    """Return the text of each element of a list; ``text`` is one that can be parsed."""
    found = []
    at = _next(text, _next(text, 0) + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        found.append(text[at:end])
        at = _behind_comma(text, end)
    return found


def _next(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _behind_comma(text: str, at: int) -> int:
    at = _next(text, at)
    return _next(text, at + 1) if text[at] == "," else at
