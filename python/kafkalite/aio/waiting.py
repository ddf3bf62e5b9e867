"""Waiting for the binary in asyncio: no thread waits, one of the binary tells the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar, TypeVarTuple

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

#: Seconds that a task has to end once it was cancelled.
CANCELLED_S = 1.0


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
        # A closed loop has no waiting tasks.
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle)

    operation.add_done_callback(tell)
    try:
        await finished
    except asyncio.CancelledError:
        operation.cancel()
        raise
    return operation.result(0)


async def end_of(task: asyncio.Task[None], timeout: float | None) -> bool:
    """Wait until the task ends; after ``timeout`` seconds cancel it.

    A task that swallows the cancellation is left alone after a second: it may never end.

    Returns:
        Whether it ended in time.
    """
    _, late = await asyncio.wait([task], timeout=timeout)
    if not late:
        return True
    task.cancel()
    _, deaf = await asyncio.wait(late, timeout=CANCELLED_S)
    if deaf:
        text = "a listener took longer than %s s and does not end when it is cancelled"
        logging.getLogger("kafkalite.consumer").warning(text, timeout)
    return False


def on_thread(call: Callable[[*Arguments], Result], *arguments: *Arguments) -> Future[Result]:
    """Begin ``call(*arguments)``, which may block, on a thread of its own.

    The loop's own threads are the program's: calls that block there for long would keep others, a
    ``close`` for one, from ever beginning.
    """
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kafkalite")
    try:
        return executor.submit(call, *arguments)
    finally:
        executor.shutdown(wait=False)


async def in_thread(call: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    """Return ``call(*arguments)`` from a thread of its own; to be cancelled does not end that."""
    return await asyncio.wrap_future(on_thread(call, *arguments))
