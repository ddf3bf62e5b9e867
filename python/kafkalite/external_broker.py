"""A running Kafka in place of a new broker, for the pytest plugin."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from .broker import Broker
from .cluster import Cluster


class ExternalBroker(Broker):
    """Tells where it is; who wants to start or end it is skipped, as it is not ours."""

    def __init__(self, servers: str) -> None:
        """Note its address, ``HOST:PORT``."""
        super().__init__()
        self._external = servers

    @property
    def bootstrap_servers(self) -> str:
        """``HOST:PORT`` to give to clients."""
        return self._external

    @property
    def _servers(self) -> str | None:
        return self._external

    @property
    def pid(self) -> int:
        """Not known: the test is skipped."""
        self._skip()

    def start(self) -> None:
        """Skip the test."""
        self._skip()

    def stop(self) -> None:
        """Skip the test."""
        self._skip()

    def kill(self) -> None:
        """Skip the test."""
        self._skip()

    def close(self) -> None:
        """Do nothing: it goes on."""

    def _control(self, method: str, path: str, body: bytes) -> NoReturn:
        """Skip the test."""
        _skip("injects faults")

    def _skip(self) -> NoReturn:
        _skip("ends its broker")


class ExternalCluster(Cluster):
    """Tells where it is; a test that ends or divides its brokers is skipped."""

    def __init__(self, servers: str) -> None:
        """Note its addresses, ``HOST:PORT,...``."""
        super().__init__(1)
        self._external = servers

    @property
    def brokers(self) -> NoReturn:
        """Not known: the test is skipped."""
        _skip("uses single brokers")

    def _running(self) -> tuple[str, ...]:
        return tuple(self._external.split(","))

    def start(self) -> NoReturn:
        """Skip the test."""
        _skip("starts its brokers")

    def stop(self) -> NoReturn:
        """Skip the test."""
        _skip("ends its brokers")

    def close(self) -> None:
        """Do nothing: it goes on."""

    def wait_ready(self, timeout: float = 10.0) -> None:
        """Do nothing: it runs."""

    def leader_of(self, topic: str, partition: int, *, timeout: float = 10.0) -> NoReturn:
        """Skip the test."""
        _skip("uses single brokers")

    def isolate(self, *groups: Collection[int | Broker]) -> NoReturn:
        """Skip the test."""
        _skip("divides its cluster")

    def heal(self) -> None:
        """Do nothing: nothing was cut."""


def _skip(why: str) -> NoReturn:
    import pytest

    pytest.skip(f"this test {why}; --kafkalite-external names one that stays")
