"""One broker of a ``Cluster``: its place outlives its starts, and it finds the others again."""

from __future__ import annotations

from collections.abc import Sequence

from .broker import Broker

__all__ = ["Member"]


class Member(Broker):
    """A broker of a cluster: it keeps its directory until the cluster is closed."""

    #: The other brokers of the cluster.
    others: tuple[Member, ...] = ()

    def start(self) -> None:
        """Start; with an emptied directory it joins the others, whose cluster goes on.

        Raises:
            BrokerStartError: As of ``Broker``.
        """
        if self._engine is not None and not self.is_running and not self.has_data:
            begun = [other for other in self.others if other.has_data]
            # One that runs takes it in at once; the sort keeps the order beside that.
            for other in sorted(begun, key=lambda other: not other.is_running)[:1]:
                self._engine.join(other.prepare())
        super().start()

    @property
    def has_data(self) -> bool:
        """Whether it has been in a cluster, and has its directory since then."""
        return any((path / "meta.properties").exists() for path in self._log_dirs)

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return self._servers is not None

    def prepare(self, join: str | None = None, port: int = 0) -> str:
        """Choose port and directory, once, and return where it will listen.

        Args:
            join: The address of the broker that begins the cluster.
            port: The port that it had, if it has none of the caller's.
        """
        if self._engine is None:
            self._cut = ()
            host, wanted = self._address
            self._address = (host, wanted or port)
            if join is not None:
                self._config["kafkalite.join"] = join
            self._prepare()
        assert self._listens is not None
        return self._listens

    def cut_links(self, addresses: Sequence[str]) -> None:
        """Cut the links to brokers, and mend all others."""
        if self._engine is not None:
            self._engine.cut_links(list(addresses))

    def close(self) -> None:
        """Stop; the directory is the cluster's."""
        self.stop()

    def end(self) -> None:
        """Stop, and remove a temporary directory."""
        super().close()
