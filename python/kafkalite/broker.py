"""A broker inside this process, for tests and for trying things out."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from . import _native

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

_DEV = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "kafkalite.stop.timeout.ms": "500",
}


class Broker:
    """A real broker on threads of this process, as a context manager.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 lets the system choose.
        data_dir: Where records are kept; ``None`` is a temporary directory that is
            removed at ``stop()``.
        config: Any keys of the broker, with dots.
        admin_port: Port of metrics and health; ``None`` is off, 0 lets the system
            choose.

    Source:
        The keys are those of Apache Kafka's broker and ``kafkalite.*``.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        data_dir: str | Path | None = None,
        config: Mapping[str, str] | None = None,
        admin_port: int | None = None,
    ) -> None:
        """Configure a broker; ``start()`` or ``with`` starts it."""
        self._temporary: Path | None = None
        if data_dir is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="kafkalite-"))
        directory = self._temporary or data_dir
        keys = _DEV | {
            "listeners": f"PLAINTEXT://{host}:{port}",
            "log.dirs": str(directory),
            "kafkalite.admin.port": str(-1 if admin_port is None else admin_port),
        }
        self._native = _native.Broker(keys | dict(config or {}))

    @property
    def bootstrap_servers(self) -> str:
        """``HOST:PORT`` to give to clients.

        Raises:
            KafkaliteError: The broker does not run.
        """
        servers = self._native.bootstrap_servers
        if servers is None:
            raise _native.KafkaliteError("the broker does not run")
        return servers

    @property
    def admin_url(self) -> str | None:
        """URL of metrics and health, or ``None`` if they are off."""
        return self._native.admin_url

    def start(self) -> None:
        """Start; the broker serves when this returns.

        Raises:
            BrokerStartError: A wrong configuration, a taken port, a locked directory.
        """
        self._native.start()

    def stop(self) -> None:
        """Stop cleanly; a temporary directory is removed."""
        self._native.stop()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()
