"""Arrow columns as tables of pyarrow, pandas and polars, imported when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from .records import ArrowStream

__all__ = ["to_arrow", "to_pandas", "to_polars"]


def to_arrow(columns: ArrowStream) -> Any:
    """Return a ``pyarrow.Table``.

    Raises:
        ModuleNotFoundError: pyarrow is not installed.
    """
    return module("pyarrow").table(columns)


def to_pandas(columns: ArrowStream) -> Any:
    """Return a ``pandas.DataFrame``; keys and values are bytes.

    Raises:
        ModuleNotFoundError: pandas or pyarrow is not installed.
    """
    module("pandas")
    return to_arrow(columns).to_pandas()


def to_polars(columns: ArrowStream) -> Any:
    """Return a ``polars.DataFrame``; keys and values are binary.

    Raises:
        ModuleNotFoundError: polars is not installed.
    """
    return module("polars").DataFrame(columns)


def module(name: str) -> ModuleType:
    """Import a library that the package does not need otherwise.

    Raises:
        ModuleNotFoundError: The library is not installed; a note says how to get it.
    """
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            error.add_note(f"hint: pip install {name}")
        raise
