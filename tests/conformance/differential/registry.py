"""Every case of the script, by its name.

A case gets a fresh ``Session``, does what its name says, and returns what it saw. Cases register
themselves with ``@case``, or with ``@each`` once for every row of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.harness.session import Session

Observation = Any
Case = Callable[[Session], Observation]

#: Every case by its name; the order is that of the files.
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Register a case under its function's name."""
    name = function.__name__
    assert name not in CASES, name
    CASES[name] = function
    return function


def each(rows: Iterable[Any]) -> Callable[[Callable[[Session, Any], Observation]], None]:
    """Register a case once for each row, under ``name[row]``; a dict gives names to its rows."""
    named = rows.items() if isinstance(rows, dict) else [(str(row), row) for row in rows]
    listed = list(named)

    def register(function: Callable[[Session, Any], Observation]) -> None:
        for label, row in listed:
            name = f"{function.__name__}[{label}]"
            assert name not in CASES, name
            CASES[name] = lambda session, row=row: function(session, row)

    return register
