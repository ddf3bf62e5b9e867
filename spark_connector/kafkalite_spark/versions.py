"""What a PySpark lacks of what Python sources need for streams: told when a query begins. Pure."""

from __future__ import annotations

import logging

from .errors import OptionError
from .options import FALL_BACK, ReadOptions

__all__ = ["check_stream", "lacking"]

log = logging.getLogger(__name__)

#: The first version in which Spark asks Python sources for limits.
LIMITS = (4, 2)

#: First version that has it, and what is missing before.
_CAME: tuple[tuple[tuple[int, int], str], ...] = (
    ((4, 1), "streams cannot be written"),
    (LIMITS, "micro-batches have no limits, so availableNow reads what there is in one"),
    (LIMITS, "progress does not tell the latest offset, so there is no lag"),
    (LIMITS, "a topic that is created again while its query does not run is not noticed"),
)


def lacking(version: str) -> list[str]:
    """Return what ``version`` of PySpark, such as ``4.1.4``, does not do; nothing from 4.2 on."""
    return [what for came, what in _CAME if _minor(version) < came]


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def check_stream(version: str, options: ReadOptions) -> None:
    """Say in the log what a stream has to do without.

    Raises:
        OptionError: An option asks for what Spark does not ask Python sources for.
    """
    if _minor(version) < LIMITS and options.max_offsets is not None:
        raise OptionError(
            "maxOffsetsPerTrigger",
            f"PySpark {version} asks Python sources for no limits, 4.2 is the first that does",
            f"Leave it out; {FALL_BACK}",
        )
    if missing := lacking(version):
        told = "; ".join(missing)
        log.warning("kafkalite: PySpark %s: %s. 4.2 is the first that has all", version, told)
