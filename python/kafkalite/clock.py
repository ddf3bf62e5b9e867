"""The clock of a broker under test: ``broker.clock.advance("7d")``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from .errors import InvalidArgumentError
from .faults import command

if TYPE_CHECKING:
    from .faults import Send

__all__ = ["Clock"]

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


class Clock:
    """The time of one broker: real time, and what a test added to it."""

    def __init__(self, send: Send) -> None:
        """Use ``send`` to reach the broker."""
        self._send = send

    @property
    def now(self) -> datetime:
        """The broker's wall time."""
        told = command(self._send, "GET", "/clock")
        return datetime.fromtimestamp(told["now_ms"] / 1e3, UTC)

    @property
    def ahead(self) -> timedelta:
        """How far the broker's wall time is ahead of real time."""
        return timedelta(milliseconds=command(self._send, "GET", "/clock")["wall_ahead_ms"])

    def advance(self, duration: str | float | timedelta, *, monotonic: bool = False) -> datetime:
        """Move time forward, and return when what became due was done.

        Retention, compaction, and the expiry of offsets, groups and producer ids look at wall
        time. They are done in this order, on every log of the broker.

        Args:
            duration: How far: ``"7d"``, ``"12h"``, ``"30m"``, ``"10s"``, ``"500ms"``, seconds, or
                a ``timedelta``.
            monotonic: ``True`` moves deadlines as well: sessions of members expire, and requests
                that wait time out. Then connected members may lose their groups.

        Returns:
            The broker's wall time now.

        Raises:
            IllegalStateError: The broker does not run, or test control is off.
            InvalidArgumentError: The duration is negative, or more than 100 years in all.
        """
        body = {"ms": _ms(duration), "monotonic": monotonic}
        told = command(self._send, "POST", "/clock/advance", body)
        return datetime.fromtimestamp(told["now_ms"] / 1e3, UTC)


def _ms(duration: str | float | timedelta) -> int:
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    if isinstance(duration, str):
        found = _DURATION.fullmatch(duration.strip())
        if found is not None:
            return round(float(found[1]) * _UNITS[found[2]])
    elif isinstance(duration, int | float) and 0 <= duration < float("inf"):
        return round(duration * 1e3)
    text = f"INVALID_REQUEST: {duration!r} is no duration"
    raise InvalidArgumentError(text, hint='as in "7d", "12h", "30m", "10s", "500ms".')
