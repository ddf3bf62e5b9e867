"""A running Kafka in place of a new broker, for the pytest plugin."""

from __future__ import annotations

from typing import NoReturn

from .broker import Broker


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

    def _skip(self) -> NoReturn:
        import pytest

        pytest.skip("this test ends its broker; --kafkalite-external names one that stays")
