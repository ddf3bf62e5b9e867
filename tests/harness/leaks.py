"""What this process holds of the system, and whether it lets go of it."""

from __future__ import annotations

import os
import time

from tests.harness.process import PATIENCE_S


def held() -> tuple[int, int]:
    """How many descriptors and threads this process has."""
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def wait_for_no_more_than(before: tuple[int, int]) -> None:
    """Wait until no more is held than before. What earlier tests left may go as well."""
    deadline = time.monotonic() + PATIENCE_S
    while any(now > was for now, was in zip(held(), before, strict=True)):
        assert time.monotonic() < deadline, f"descriptors and threads: {held()}, not {before}"
