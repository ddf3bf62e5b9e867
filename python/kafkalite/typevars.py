"""Type variables of the clients, with what keys and values are where nothing makes them.

Defaults of type variables came with Python 3.13. Type checkers know them from their own copy of
``typing_extensions``; at run time they say nothing, and nothing is imported for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from .records import Data

    #: What a consumer makes of keys and values: bytes, unless there is a deserializer.
    ReadKey = TypeVar("ReadKey", default=bytes)
    ReadValue = TypeVar("ReadValue", default=bytes)
    #: What a producer takes as keys and values: bytes or text, unless there is a serializer.
    SentKey = TypeVar("SentKey", default=Data)
    SentValue = TypeVar("SentValue", default=Data)
else:
    from typing import TypeVar

    ReadKey, ReadValue = TypeVar("ReadKey"), TypeVar("ReadValue")
    SentKey, SentValue = TypeVar("SentKey"), TypeVar("SentValue")
