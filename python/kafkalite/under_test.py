"""What a broker under test does for tests: faults, its clock, recordings, explanations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from .clock import Clock
    from .explaining import Explanation
    from .faults import Faults
    from .recording import Recording
    from .snapshots import Snapshot

__all__ = ["UnderTest"]


def without_query(path: str, body: bytes) -> tuple[str, bytes]:
    """Put the query of a path into a body of JSON, for a broker that is asked without HTTP."""
    path, mark, query = path.partition("?")
    if not mark:
        return path, body
    members = dict(parse_qsl(query, keep_blank_values=True))
    numbers = {name: int(members[name]) for name in ("after", "limit") if name in members}
    return path, json.dumps({**members, **numbers}).encode()


class UnderTest:
    """The part of a broker that test control is."""

    def _control(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        """Send a command of test control: the status and the body of the answer."""
        raise NotImplementedError

    @property
    def faults(self) -> Faults:
        """Faults on purpose: errors, delays, cut connections, a full disk.

        A child process is asked over HTTP, with ``admin_port`` only.
        """
        from .faults import Faults

        return Faults(self._control)

    @property
    def clock(self) -> Clock:
        """The broker's clock, to be moved forward.

        A child process is asked over HTTP, with ``admin_port`` only.
        """
        from .clock import Clock

        return Clock(self._control)

    def snapshot(self) -> Snapshot:
        """Copy topics, records, offsets and groups as they are now; clients go on.

        Each partition is copied at one moment between call and return, with every record that
        was acknowledged before the call. It lives in the log directory until it is deleted, or the
        broker's temporary directory is removed.

        Raises:
            IllegalStateError: The broker does not run, or test control is off.
            InvalidArgumentError: The broker is one of a cluster, or its disk is full.
        """
        from .snapshots import take

        return take(self._control)

    def explain(self, client_id: str | None = None) -> Explanation:
        """Tell why a client is stuck: what the broker waits for, or answers it again and again.

        A child process is asked over HTTP, with ``admin_port`` only.

        Args:
            client_id: ``client.id`` of the client; ``None`` is every client that is connected.

        Raises:
            IllegalStateError: The broker does not run, or test control is off.
        """
        from .explaining import explain

        return explain(self._control, client_id)

    def record(
        self, client_id: str | None = None, *, api: str | None = None, limit: int | None = None
    ) -> Recording:
        """Record the requests that come from now on, with the answers to them.

        A child process is asked over HTTP, with ``admin_port`` only.

        Args:
            client_id: Only the requests of this client.
            api: Only those of this API, by Kafka's name.
            limit: The newest requests, so many at most; 10,000 unless given, up to 100,000.

        Raises:
            IllegalStateError: The broker does not run, or test control is off.
            InvalidArgumentError: There is no such API, or the limit is out of range.
        """
        from .recording import begin

        return begin(self._control, client_id=client_id, api=api, limit=limit)
