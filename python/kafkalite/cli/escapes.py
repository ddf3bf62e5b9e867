r"""Bytes as people write them in a shell: ``\t`` is a tab, ``\x00`` a zero."""

from __future__ import annotations

import os
import re

_NAMED = {
    "0": b"\0",
    "a": b"\a",
    "b": b"\b",
    "e": b"\x1b",
    "f": b"\f",
    "n": b"\n",
    "r": b"\r",
    "t": b"\t",
    "v": b"\v",
}
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.)|$)", re.DOTALL
)
#: What follows these is a number, and above there was none.
_NUMBERS = "xuU"


def unescaped(text: str) -> bytes:
    r"""Return the bytes that a text with escapes means.

    Args:
        text: As it came from the command line; what is no UTF-8 there stays as it is.

    Returns:
        ``\n``, ``\t`` and so on as one byte, ``\xNN`` as that byte, ``\uNNNN`` as UTF-8; any
        other character behind a backslash is itself.

    Raises:
        ValueError: An escape has no end, or is no character.
    """
    found = bytearray()
    at = 0
    for escape in _ESCAPE.finditer(text):
        found += os.fsencode(text[at : escape.start()])
        found += _meant(escape)
        at = escape.end()
    return bytes(found + os.fsencode(text[at:]))


def _meant(escape: re.Match[str]) -> bytes:
    byte, short, long, other = escape.groups()
    if byte is not None:
        return bytes.fromhex(byte)
    if (number := short or long) is not None:
        if int(number, 16) > 0x10FFFF:
            raise ValueError(f"{escape[0]} is not a character")
        return chr(int(number, 16)).encode()
    if other is None:
        raise ValueError("a backslash at the end; write \\\\ for one")
    if other in _NUMBERS:
        raise ValueError(f"\\{other} without the digits that belong to it")
    return _NAMED.get(other) or os.fsencode(other)
