"""Offsets as Spark's Kafka source spells them: ``{"topic": {"0": 23, "1": -2}}``.

Spark compares offsets as text, so topics and partitions are always in order: numbers by their
value. -2 stands for the earliest and -1 for the latest offset where a user gives them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["EARLIEST", "LATEST", "Offsets", "Partition", "from_json", "to_json", "value_of"]

EARLIEST = -2
LATEST = -1

#: Topic and number of a partition.
Partition = tuple[str, int]
#: An offset for each partition.
Offsets = dict[Partition, int]


def to_json(offsets: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """Return the offsets as Spark keeps them in a checkpoint, in order."""
    told: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        told.setdefault(topic, {})[str(partition)] = offsets[topic, partition]
    return told


def from_json(told: Mapping[str, Any]) -> Offsets:
    """Read offsets of a checkpoint or of a user.

    Raises:
        ValueError: It is not of that shape.
    """
    offsets: Offsets = {}
    for topic, partitions in told.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(f"topic {topic!r} needs an object of partitions and offsets")
        for partition, offset in partitions.items():
            if not str(partition).isascii() or not str(partition).isdigit():
                raise ValueError(f"{partition!r} of topic {topic!r} is no partition's number")
            if isinstance(offset, bool) or not isinstance(offset, int):
                raise ValueError(f"{offset!r} of {topic}-{partition} is no offset")
            offsets[topic, int(partition)] = offset
    return offsets


def value_of(text: str) -> Any:
    """Read JSON that a user gave.

    Raises:
        ValueError: It is not JSON, or no object.
    """
    try:
        told = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"`{text}` is no JSON: {error}") from error
    if not isinstance(told, dict):
        raise ValueError(f"`{text}` is no JSON object")
    return told
