"""Waiting for the binary in asyncio: no thread waits, one of the binary tells the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol


class Operation(Protocol):
    """What the binary has under way."""

    def result(self, timeout: float | None = None) -> Any:
        """Return the result, once."""

    def cancel(self) -> None:
        """End it."""

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Call ``callback()`` when there is a result, on a thread of the binary."""


async def result_of(operation: Operation) -> Any:
    """Return the operation's result; being cancelled ends it.

    Raises:
        KafkaliteError: As the operation failed.
    """
    loop = asyncio.get_running_loop()
    finished = loop.create_future()

    def settle() -> None:
        if not finished.done():
            finished.set_result(None)

    def tell() -> None:
        # A loop that was closed has nobody who waits.
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle)

    operation.add_done_callback(tell)
    try:
        await finished
    except asyncio.CancelledError:
        operation.cancel()
        raise
    return operation.result(0)
