"""Waiting for what a broker has promised: an answered change may be visible a moment later."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Return once the condition holds; fail if it does not within ``seconds``, and name it."""
    deadline = time.monotonic() + seconds
    pause = 0.01
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {_text_of(condition)}"
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def ended(thread: threading.Thread, seconds: float = 120.0) -> None:
    """Wait for the end of a thread; fail if it does not come within ``seconds``."""
    thread.join(seconds)
    assert not thread.is_alive(), f"thread {thread.name} has not ended within {seconds:g} s"


def _text_of(condition: Callable[[], bool]) -> str:
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):
        return repr(condition)
