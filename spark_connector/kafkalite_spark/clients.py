"""Clients that a worker process keeps: one that a task had has its connections for the next.

Spark reuses its Python workers. Nothing here is made before a task needs it, in the process that
needs it. A client that no task has had for a while is closed: a thread sees to that, which ends
with the last of them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Generic, Protocol, TypeVar

__all__ = ["IDLE_S", "Clients"]

#: A client that no task had for so long is closed, in seconds; as long as Spark's own keeps one.
IDLE_S = 300.0


class _Closes(Protocol):
    def close(self, timeout: float = ...) -> None: ...


C = TypeVar("C", bound=_Closes)


class Clients(Generic[C]):
    """Clients of one kind, by their configuration; each is one task's at a time.

    Args:
        make: Makes one of a configuration.
        idle_s: Seconds after which a client that no task has is closed.
        clock: Tells the time, in seconds.
    """

    def __init__(
        self,
        make: Callable[[dict[str, str]], C],
        idle_s: float = IDLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Have none."""
        self._make = make
        self._idle_s = idle_s
        self._clock = clock
        #: By configuration, since when each is idle; the one that came last is the last.
        self._idle: dict[tuple[tuple[str, str], ...], list[tuple[float, C]]] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._closer: threading.Thread | None = None

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
            self._idle.setdefault(key, []).append((self._clock(), client))
            if self._closer is None:
                self._closer = threading.Thread(target=self._close_idle, daemon=True)
                self._closer.start()

    def close_idle(self) -> float | None:
        """Close what is idle for too long; return when the next one is due, in seconds from now.

        ``None`` if no client is idle any more.
        """
        with self._lock:
            now = self._clock()
            since = [(at, client) for each in self._idle.values() for at, client in each]
            late = [client for at, client in since if now - at >= self._idle_s]
            waits = [at + self._idle_s - now for at, _ in since if now - at < self._idle_s]
            kept = {
                key: [(at, client) for at, client in each if now - at < self._idle_s]
                for key, each in self._idle.items()
            }
            self._idle = {key: each for key, each in kept.items() if each}
            if not waits:
                self._closer = None
        for client in late:
            with suppress(Exception):
                client.close(timeout=0.0)
        return min(waits, default=None)

    def _close_idle(self) -> None:
        wait: float | None = self._idle_s
        while wait is not None:
            time.sleep(wait)
            wait = self.close_idle()

    def _waiting(self, key: tuple[tuple[str, str], ...]) -> C | None:
        with self._lock:
            if self._process != os.getpid():
                # What a parent had is the parent's.
                self._idle.clear()
                self._process = os.getpid()
                self._closer = None
            waiting = self._idle.get(key)
            return waiting.pop()[1] if waiting else None
