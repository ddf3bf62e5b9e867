"""The rate of requests while a stream has nothing to read. Pure: the caller passes the time.

Spark polls an idle query about every 12 ms. A poll soon after another one waits first: the longer
the silence, the longer the wait. So new records are read at most a fiftieth of the silence later,
and at most 50 ms. Each poll ends with a request to the brokers, so its answer is fresh.
"""

from __future__ import annotations

__all__ = ["MOST_APART_S", "Pace"]

#: Polls are never held further apart than this, in seconds.
MOST_APART_S = 0.05
#: Of the silence, how far polls are held apart: a fiftieth.
SHARE = 0.02


class Pace:
    """Knows the time of the last request, and the begin of the silence.

    A late poll does not wait. Polls are late with a trigger's interval, and if other sources of the
    query have micro-batches or waits of their own.
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
