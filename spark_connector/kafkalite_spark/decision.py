"""The decision record of an exactly-once sink: which transactions make up a micro-batch.

Whether a micro-batch counts is decided by one record in a compacted topic; its key is the query.
The transactions it names are committed afterwards, by each reader, as often as that takes.
```text
key    the query's id, UTF-8
value  {"version": 1, "batch": 7, "done": false, "prepared": [[id, producer id, epoch, rows], ...],
        "sha256": of the same object without this field, keys sorted, no spaces}
```
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

__all__ = ["Decision", "Prepared", "decode", "encode"]

VERSION = 1


@dataclass(frozen=True)
class Prepared:
    """A transaction that a task filled, flushed and left open.

    Attributes:
        transactional_id: Its id; no other attempt of any task has the same.
        producer_id: As the coordinator gave it.
        epoch: As the coordinator gave it.
        rows: How many records are in it.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    rows: int


@dataclass(frozen=True)
class Decision:
    """A micro-batch counts, with these transactions and no others.

    Attributes:
        query: The query's id, the same after a restart from its checkpoint.
        batch: Spark's number of the micro-batch, from 0.
        prepared: What has to be committed; empty once that is done.
        done: Whether all of it is committed.
    """

    query: str
    batch: int
    prepared: tuple[Prepared, ...] = ()
    done: bool = False


def encode(decision: Decision) -> tuple[bytes, bytes]:
    """Return key and value of the record."""
    told: dict[str, Any] = {
        "version": VERSION,
        "batch": decision.batch,
        "done": decision.done,
        "prepared": [
            [one.transactional_id, one.producer_id, one.epoch, one.rows]
            for one in decision.prepared
        ],
    }
    told["sha256"] = _digest(told)
    return decision.query.encode(), _text(told)


def decode(key: bytes, value: bytes) -> Decision:
    """Read a record.

    Raises:
        ValueError: It is not one of ours, of a newer version, or not as it was written.
    """
    told = json.loads(value)
    if not isinstance(told, dict) or told.get("version") != VERSION:
        raise ValueError(f"no decision record of version {VERSION}")
    if told.pop("sha256", None) != _digest(told):
        raise ValueError("a decision record that is not as it was written")
    prepared = tuple(Prepared(*one) for one in told["prepared"])
    return Decision(key.decode(), told["batch"], prepared, told["done"])


def _text(told: dict[str, Any]) -> bytes:
    return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()


def _digest(told: dict[str, Any]) -> str:
    return hashlib.sha256(_text(told)).hexdigest()
