"""The requests of a test run: ``with broker.record() as recording: ...``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .faults import command, remove
from .showing import printable

if TYPE_CHECKING:
    from typing import Self

    from .faults import Send

__all__ = ["AnsweredError", "RecordedRequest", "Recording"]

#: Requests that are read at once.
_PAGE = 1_000


@dataclass(frozen=True)
class AnsweredError:
    """An error in an answer."""

    topic: str | None
    """The topic; ``None`` if the error is about the whole answer."""
    partition: int | None
    """The partition; ``None`` if the error is about the whole topic."""
    code: int
    """Kafka's number of the error."""
    error: str
    """Kafka's name of the error."""


@dataclass(frozen=True)
class RecordedRequest:
    """A request of a client, and its outcome. Times are in milliseconds."""

    number: int
    """Later requests have greater numbers."""
    api: str
    """Kafka's name of the API."""
    version: int
    """The version of the API."""
    client_id: str | None
    """``client.id`` of the client."""
    connection_id: int
    """The connection: no two connections to a broker have the same."""
    peer: str
    """The client's end of the connection: ``HOST:PORT``."""
    correlation_id: int
    """What the client calls the request."""
    at_ms: int
    """When the work for it began, in milliseconds since 1970 by the broker's clock."""
    topics: dict[str, list[int]]
    """What the request names: partitions by topic. Without partitions: the topic as a whole."""
    group: str | None
    """The group that it is about; of several the first one."""
    member: str | None
    """The member id in it; empty before the member has one."""
    outcome: str
    """``answered``, ``silent`` (acks=0), ``closed`` (the connection ended) or ``open``."""
    errors: list[AnsweredError]
    """The errors of the answer; without one everything succeeded."""
    queue_ms: float
    """In the request queue."""
    handler_ms: float | None
    """In its handler; ``None``: it has not returned."""
    waited_ms: float | None
    """From the return of the handler to the answer; ``None``: there is none yet."""
    total_ms: float | None
    """From the complete frame to the answer; ``None``: there is none yet."""
    faults: list[int]
    """The ids of the faults that struck it, in order."""

    @classmethod
    def _of(cls, row: dict[str, Any]) -> Self:
        """Read a row of the admin API."""
        names = set(cls.__dataclass_fields__)
        members = {name: value for name, value in row.items() if name in names}
        topics: dict[str, list[int]] = {}
        for topic in row["topics"]:
            topics.setdefault(topic["name"], []).extend(topic["partitions"])
        members["topics"] = topics
        members["errors"] = [AnsweredError(**error) for error in row["errors"]]
        members["faults"] = [fault["id"] for fault in row["faults"]]
        return cls(**members)


class Recording:
    """The requests that came since it began. In ``with`` it ends with the block.

    The requests stay readable after its end. It keeps the newest ones. It ends with its broker:
    after a restart or a reset the handle names no other recording.
    """

    def __init__(self, send: Send, told: dict[str, Any]) -> None:
        """Keep the broker's answer."""
        self._send = send
        self._id, self._life = int(told["id"]), str(told["life"])
        self._dropped = 0
        self._ended: list[RecordedRequest] | None = None

    @property
    def requests(self) -> list[RecordedRequest]:
        """The requests, oldest first, those without an answer among them."""
        if self._ended is not None:
            return list(self._ended)
        return self._read()

    @property
    def dropped(self) -> int:
        """How many requests made room for newer ones."""
        if self._ended is None:
            self._read()
        return self._dropped

    def stop(self) -> None:
        """End it, and keep what it has. Ending it again does nothing."""
        if self._ended is not None:
            return
        command(self._send, "POST", self._path("/stop"))
        self._ended = self._read()
        remove(self._send, self._path())

    def discard(self) -> None:
        """End it, and keep nothing."""
        if self._ended is None:
            self._ended = []
            remove(self._send, self._path())

    def _path(self, verb: str = "") -> str:
        return f"/recordings/{self._id}{verb}?life={self._life}"

    def _read(self) -> list[RecordedRequest]:
        rows: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            path = f"{self._path()}&after={after}&limit={_PAGE}"
            page = command(self._send, "GET", path)
            rows += page["rows"]
            self._dropped, after = int(page["dropped"]), page["next"]
        return [RecordedRequest._of(row) for row in rows]

    def __enter__(self) -> Self:
        """Return the recording."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End it."""
        from .errors import KafkaliteError

        try:
            self.stop()
        except KafkaliteError:
            # The block may have ended the broker, or fail for a reason of its own.
            self._ended = self._ended or []
            if kind is None:
                raise

    def __repr__(self) -> str:
        """Tell which one it is."""
        state = "ended" if self._ended is not None else "open"
        return f"<kafkalite.Recording {self._id} {state}>"


def begin(send: Send, **wanted: Any) -> Recording:
    """Begin a recording on the broker behind ``send``."""
    given = {name: value for name, value in wanted.items() if value is not None}
    return Recording(send, command(send, "POST", "/recordings", given))


def for_failure(recording: Recording | None, most: int = 20) -> str:
    """Return the last requests that failed, or that have no answer: a line for each.

    Args:
        recording: The requests of a test; ``None``: there is no recording.
        most: How many, at most.
    """
    from .errors import KafkaliteError

    try:
        requests = [] if recording is None else recording.requests
    except KafkaliteError:
        # The test ended the broker.
        return ""
    found = [one for one in requests if one.errors or one.outcome in ("open", "closed")]
    lines = [_line(one) for one in found[-most:]]
    if len(found) > most:
        lines.insert(0, f"the last {most} of {len(found)} requests")
    return "\n".join(lines)


def _line(request: RecordedRequest) -> str:
    """Return a request that failed in one line."""
    if request.outcome == "answered":
        outcome = ", ".join(dict.fromkeys(_error(error) for error in request.errors))
    else:
        outcome = {"open": "no answer yet", "closed": "the connection closed"}[request.outcome]
    names = [f"{topic}-{partition}" for topic, all_ in request.topics.items() for partition in all_]
    names += [topic for topic, partitions in request.topics.items() if not partitions]
    of = f" of {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}" if names else ""
    faults = f" (fault {', '.join(map(str, request.faults))})" if request.faults else ""
    who = f"{request.client_id or '-'} {request.peer}"
    return printable(f"{request.api} v{request.version}{of}: {outcome}{faults}  {who}")


def _error(error: AnsweredError) -> str:
    if error.topic is None:
        return error.error
    where = error.topic if error.partition is None else f"{error.topic}-{error.partition}"
    return f"{error.error} for {where}"
