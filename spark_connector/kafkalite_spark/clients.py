"""Clients that a worker process keeps: one that a task had has its connections for the next.

Spark reuses its Python workers. Nothing here is made before a task needs it, in the process that
needs it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Generic, Protocol, TypeVar

__all__ = ["Clients"]


class _Closes(Protocol):
    def close(self, timeout: float = ...) -> None: ...


C = TypeVar("C", bound=_Closes)


class Clients(Generic[C]):
    """Clients of one kind, by their configuration; each is one task's at a time.

    Args:
        make: Makes one of a configuration.
    """

    def __init__(self, make: Callable[[dict[str, str]], C]) -> None:
        """Have none."""
        self._make = make
        self._idle: dict[tuple[tuple[str, str], ...], list[C]] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    @contextmanager
    def lent(self, config: Mapping[str, str]) -> Iterator[C]:
        """Lend a client to a task; that of a task which fails, or is given up, is closed."""
        key = tuple(sorted(config.items()))
        client = self._waiting(key) or self._make(dict(config))
        try:
            yield client
        except BaseException:
            with suppress(Exception):
                client.close(timeout=0.0)
            raise
        with self._lock:
            self._idle.setdefault(key, []).append(client)

    def _waiting(self, key: tuple[tuple[str, str], ...]) -> C | None:
        with self._lock:
            if self._process != os.getpid():
                # What a parent had is the parent's.
                self._idle.clear()
                self._process = os.getpid()
            waiting = self._idle.get(key)
            return waiting.pop() if waiting else None
