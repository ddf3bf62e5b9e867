"""Waiting for the binary in asyncio: no thread waits, one of the binary tells the loop."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar, TypeVarTuple

from ..errors import KafkaliteError

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

#: Seconds that a task has to end once it was cancelled, and threads at the interpreter's end.
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
    ``close`` for one, from ever beginning. The interpreter waits for the threads of an executor
    before it ends anything else, however long their calls take; for these it waits in ``_end``.
    """
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result = call(*arguments)
        except BaseException as error:  # noqa: BLE001 - it is raised where the call is awaited
            future.set_exception(error)
        else:
            future.set_result(result)
        finally:
            _threads.discard(thread)

    thread = threading.Thread(target=run, name="kafkalite", daemon=True)
    _watch_exit()
    _threads.add(thread)
    try:
        thread.start()
    except BaseException:
        _threads.discard(thread)
        raise
    return future


async def in_thread(call: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    """Return ``call(*arguments)`` from a thread of its own; to be cancelled does not end that."""
    return await asyncio.wrap_future(on_thread(call, *arguments))


class _Endable(Protocol):
    """A client whose calls under way end when it does."""

    def _end_at_exit(self) -> None:
        """End it, and the calls under way."""


def end_at_exit(client: _Endable) -> None:
    """Have the client ended at the end of the interpreter, if it is still there."""
    _watch_exit()
    _clients.add(client)


def is_exiting() -> bool:
    """Return whether the interpreter ends, and waits no longer for what is under way."""
    return _exiting.is_set()


#: The threads whose calls are under way.
_threads: set[threading.Thread] = set()
_clients: weakref.WeakSet[_Endable] = weakref.WeakSet()
_exiting = threading.Event()
_watching = False


def _watch_exit() -> None:
    """Have ``_end`` called at exit.

    What is registered last is called first. The first client is there, so this comes before the
    binary lets no thread of its own into Python any more.
    """
    global _watching
    if not _watching:
        _watching = True
        atexit.register(_end)


def _end() -> None:
    """End what is under way: a thread that comes back to an interpreter that is gone may crash."""
    _exiting.set()
    for client in list(_clients):
        with contextlib.suppress(KafkaliteError):
            client._end_at_exit()
    deadline = time.monotonic() + CANCELLED_S
    for thread in list(_threads):
        thread.join(max(0.0, deadline - time.monotonic()))
