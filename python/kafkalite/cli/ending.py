"""How signals end a command: SIGTERM and SIGHUP as Ctrl-C, so that it tidies up before.

A member leaves its group, and a broker or a topic of the command's own is deleted.
"""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

#: `timeout` sends a signal to the command and then to its group: two so near count as one.
_SAME_S = 1.0

ENDS = (signal.SIGTERM, signal.SIGHUP)


class Ending:
    """Takes SIGTERM and SIGHUP while a command runs."""

    def __init__(self) -> None:
        """Note that none has come."""
        self.number: int | None = None
        self._at = 0.0

    def begin(self) -> None:
        """Take the signals that end the process; what ignores SIGHUP, as `nohup`, ignores it on."""
        for number in ENDS:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, self._come)

    def finish(self) -> None:
        """Let the interpreter end: a handler that raises would write a traceback now."""
        for number in ENDS:
            if signal.getsignal(number) == self._come:
                signal.signal(number, signal.SIG_DFL)

    def _come(self, number: int, _: FrameType | None) -> None:
        if self.number is None:
            self.number, self._at = number, time.monotonic()
            raise KeyboardInterrupt
        if number == signal.SIGTERM and time.monotonic() - self._at > _SAME_S:
            # It is sent again to a command that is not quick enough.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


@contextmanager
def by_default() -> Iterator[None]:
    """Give SIGTERM and SIGHUP back to the system: the broker in this process takes them itself."""
    taken = {number: signal.getsignal(number) for number in ENDS}
    ours = {number: how for number, how in taken.items() if callable(how)}
    for number in ours:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, how in ours.items():
            signal.signal(number, how)
