"""Waiting for what a broker has promised: an answered change may be visible a moment later."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Return once the condition holds; fail if it does not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "a condition did not come true"
        time.sleep(0.05)
