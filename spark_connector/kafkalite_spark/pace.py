"""How often brokers are asked while a stream has nothing to read. Pure: the time is handed in.

Spark polls a query that is idle about every 12 ms, for as long as it is. A poll that comes soon
after the last waits first, the longer the silence the longer: what comes then is read later by a
fiftieth of the silence at most, and by 50 ms at most. Each poll ends with a question to the
brokers, so that its answer is never old.
"""

from __future__ import annotations

__all__ = ["MOST_APART_S", "Pace"]

#: Polls are never held further apart than this, in seconds.
MOST_APART_S = 0.05
#: Of the silence, how far polls are held apart: a fiftieth.
SHARE = 0.02


class Pace:
    """Knows when brokers were asked last, and since when there is nothing to read.

    A poll that comes late waits no more: not that of a trigger's interval, nor that of a query
    whose other sources have micro-batches, or wait themselves.
    """

    def __init__(self) -> None:
        """Wait for nothing at first."""
        self._silent_since: float | None = None
        self._asked_at = 0.0

    def wait_s(self, now: float) -> float:
        """Return how many seconds a poll waits that begins ``now``."""
        if self._silent_since is None:
            return 0.0
        apart = min(MOST_APART_S, SHARE * (now - self._silent_since))
        return max(0.0, self._asked_at + apart - now)

    def asked(self, now: float, found: bool) -> None:
        """Note that brokers were asked, and whether that made a micro-batch."""
        if found or self._silent_since is None:
            self._silent_since = now
        self._asked_at = now
