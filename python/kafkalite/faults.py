"""Faults on purpose: ``broker.faults`` makes a broker fail, so that a client can show its retries.

Each call adds a fault and returns its handle. A fault counts until it is removed, or the broker
stops. ``times``, ``on_call``, ``probability`` and ``seed`` say which of the matching calls it
strikes; without them it strikes all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .arguments import checked_count
from .errors import IllegalStateError, InvalidArgumentError

if TYPE_CHECKING:
    from typing import Self

    from .moves import Moves

__all__ = ["Fault", "Faults"]

#: Sends a command: method, path and body; the status and the body of the answer.
Send: TypeAlias = Callable[[str, str, bytes], tuple[int, str]]

#: Before the broker sees the request, or after it has done what was asked.
Side: TypeAlias = Literal["before", "after"]

#: Members of a fault that are whole numbers, and those that are texts.
_VERSIONS = ("max_version", "min_version")
_COUNTS = ("broker", "leader_epoch", "ms", "on_call", "partition", "seed", "times", *_VERSIONS)
_TEXTS = ("api", "client_id", "disk", "error", "group", "operation", "side", "stage", "topic")
#: Words of other tools, and ours.
_MEANT = {"call": "on_call", "client": "client_id", "code": "error", "count": "times"}
_MEANT |= {"group_id": "group", "n": "times", "once": "times=1", "topics": "topic"}

_OFF = 403
_NOT_FOUND = 404
_NOT_RUNNING = 409
_REFUSED = 400


def command(send: Send, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Send a command of test control, and return its answer.

    Args:
        send: What sends it.
        method: ``GET``, ``POST`` or ``DELETE``.
        path: The path below ``/api/v1``.
        body: What is sent as JSON.

    Raises:
        IllegalStateError: The broker does not run, or test control is off.
        InvalidArgumentError: The broker refuses the command.
    """
    return _told(*_answered(send, method, path, body))


def remove(send: Send, path: str) -> Any | None:
    """Remove a fault or a recording.

    Returns:
        The broker's answer; ``None``: it is gone, perhaps with the broker that had it.

    Raises:
        IllegalStateError: The broker does not run, or test control is off.
        InvalidArgumentError: The broker refuses the command.
    """
    status, answer = _answered(send, "DELETE", path)
    return None if status == _NOT_FOUND else _told(status, answer)


def _answered(
    send: Send, method: str, path: str, body: dict[str, Any] | None = None
) -> tuple[int, Any]:
    status, text = send(method, path, b"" if body is None else json.dumps(body).encode())
    return status, json.loads(text)


def _told(status: int, answer: Any) -> Any:
    """Return an answer, or raise what it refuses with."""
    if status < _REFUSED:
        return answer
    message, hint = f"{answer['what']}: {answer['why']}", answer["hint"]
    if status in (_OFF, _NOT_RUNNING):
        raise IllegalStateError(f"ILLEGAL_STATE: {message}", hint=hint)
    raise InvalidArgumentError(f"INVALID_REQUEST: {message}", hint=hint)


def _check(name: str, value: object) -> None:
    """Refuse a member that the broker could not read."""
    if name in _COUNTS:
        checked_count(name, value)  # type: ignore[arg-type]
    elif name in _TEXTS:
        if not isinstance(value, str):
            error = TypeError(f"{name} must be a name, not {type(value).__name__}")
            if name == "error":
                error.add_note("hint: give Kafka's name of the error: NOT_LEADER_OR_FOLLOWER.")
            raise error
    elif name == "probability":
        if isinstance(value, float) and not math.isfinite(value):
            # JSON has no such number.
            text = f"INVALID_REQUEST: the fault is refused: probability is {value}"
            raise InvalidArgumentError(text, hint="give a number from 0 to 1.")
    else:
        error = TypeError(f"a fault has no member {name!r}")
        known = ", ".join(sorted((*_COUNTS, *_TEXTS, "probability")))
        meant = _MEANT.get(name)
        error.add_note(f"hint: it is {meant}." if meant else f"hint: there are {known}.")
        raise error


class Fault:
    """A fault in force. In ``with`` it is removed at the end of the block.

    It ends with its broker: after a restart or a reset the handle names no other fault.
    """

    def __init__(self, send: Send, told: dict[str, Any]) -> None:
        """Keep the broker's answer."""
        self._send = send
        self._told = told

    @property
    def id(self) -> int:
        """Its number."""
        return int(self._told["id"])

    @property
    def seen(self) -> int:
        """How many calls matched so far.

        Raises:
            InvalidArgumentError: It is gone: another handle removed it, or its broker ended.
        """
        return int(self._asked()["seen"])

    @property
    def fired(self) -> int:
        """How many calls it struck so far.

        Raises:
            InvalidArgumentError: As ``seen``.
        """
        return int(self._asked()["fired"])

    def remove(self) -> None:
        """Remove it; what it held goes on. Where it is gone this does nothing."""
        if "removed" not in self._told:
            told = remove(self._send, self._path) or self._told
            self._told = told | {"removed": True}

    @property
    def _path(self) -> str:
        return f"/faults/{self.id}?life={self._told['life']}"

    def _asked(self) -> dict[str, Any]:
        if "removed" not in self._told:
            self._told = command(self._send, "GET", self._path)
        return self._told

    def __enter__(self) -> Self:
        """Return the handle."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the fault."""
        self.remove()

    def __repr__(self) -> str:
        """Tell what it does."""
        counts = {"id", "life", "seen", "fired", "spent", "removed"}
        members = {name: value for name, value in self._told.items() if name not in counts}
        words = " ".join(f"{name}={value}" for name, value in members.items())
        return f"<kafkalite.Fault {self.id} {words}>"


class Faults:
    """The faults of one broker.

    ``api`` is Kafka's name of an API. ``topic`` and ``partition`` restrict a fault to requests that
    name them, ``group`` to one group, and ``client_id`` to one client. A ``*`` in a client id
    stands for any characters: ``billing-*``. Names are checked when the fault is added.
    """

    def __init__(self, send: Send) -> None:
        """Use ``send`` to reach the broker."""
        self._send = send

    def add(self, kind: str, **members: Any) -> Fault:
        """Add a fault of any kind, with the members of the admin API.

        Args:
            kind: What it does.
            **members: The rest of it; ``None`` is left out.

        Raises:
            IllegalStateError: The broker does not run, or test control is off.
            InvalidArgumentError: A name that does not exist, or members that do not go together.
            TypeError: A fault has no such member, or the member is of another type.
        """
        given = {name: value for name, value in members.items() if value is not None}
        for name, value in given.items():
            _check(name, value)
        return Fault(self._send, command(self._send, "POST", "/faults", {"kind": kind, **given}))

    def error(self, api: str, error: str, *, side: Side = "before", **when: Any) -> Fault:
        """Answer with an error.

        Args:
            api: Kafka's name of the API: ``Produce``.
            error: Kafka's name of the error: ``NOT_LEADER_OR_FOLLOWER``.
            side: ``before`` the broker does what is asked, or ``after`` it.
            **when: ``topic``, ``partition``, ``client_id``, ``times``, ``on_call``,
                ``probability``, ``seed``.
        """
        return self.add("error", api=api, error=error, side=side, **when)

    def delay(self, ms: int, *, side: Side = "after", **when: Any) -> Fault:
        """Send answers later, or with ``side="before"`` run requests later.

        Args:
            ms: For how long.
            side: What is late.
            **when: ``api``, and the words of ``error()``.
        """
        return self.add("delay", ms=ms, side=side, **when)

    def disconnect(self, *, side: Side = "before", **when: Any) -> Fault:
        """Close the connection in place of an answer.

        Args:
            side: ``after``: the broker has appended the records, and the client does not know.
            **when: ``api``, and the words of ``error()``.
        """
        return self.add("disconnect", side=side, **when)

    def drop_response(self, **when: Any) -> Fault:
        """Run requests and never answer; the connection stays open.

        Args:
            **when: ``api``, and the words of ``error()``.
        """
        return self.add("drop_response", **when)

    def blackhole(self, client_id: str | None = None, **when: Any) -> Fault:
        """Swallow requests: they are neither run nor answered until the fault is removed.

        Args:
            client_id: The client; ``None`` is all. ``*`` stands for any characters.
            **when: ``api``, and the words of ``error()``.
        """
        return self.add("blackhole", client_id=client_id, **when)

    def throttle(self, ms: int, **when: Any) -> Fault:
        """Tell clients to wait: ``throttle_time_ms`` of the answer.

        Args:
            ms: For how long.
            **when: ``api``, and the words of ``error()``.
        """
        return self.add("throttle", ms=ms, **when)

    def corrupt(self, topic: str | None = None, **when: Any) -> Fault:
        """Change a byte of a batch in an answer to Fetch; the log stays sound.

        Args:
            topic: The topic; ``None`` is all.
            **when: The words of ``error()``.
        """
        return self.add("corrupt", topic=topic, **when)

    def stall(self, stage: str, **when: Any) -> Fault:
        """Let a stage of the data plane stand still until the fault is removed.

        Args:
            stage: ``request_queue``, ``io_threads``, ``log`` or ``response_queue``.
            **when: ``api``, and the words of ``error()``, as far as the stage has them.
        """
        return self.add("stall", stage=stage, **when)

    def versions(
        self,
        api: str,
        *,
        min_version: int | None = None,
        max_version: int | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Serve an API in fewer versions, as an older or a newer broker does.

        Answers to ApiVersions list no other version, so a client that connects keeps to those.
        Requests of other versions are refused with UNSUPPORTED_VERSION, or where an answer has no
        place for that by a closed connection.

        Args:
            api: Kafka's name of the API: ``Produce``.
            min_version: The least version that is served; ``None`` is the broker's own.
            max_version: The newest one. Without both, no version is served.
            client_id: The client; ``None`` is all.
        """
        limits = {"min_version": min_version, "max_version": max_version}
        return self.add("versions", api=api, client_id=client_id, **limits)

    def follower(self, broker: int, topic: str | None = None, **when: Any) -> Fault:
        """Have Fetch name another replica to read from, and give no records.

        Args:
            broker: The id of that broker, which may not exist.
            topic: The topic; ``None`` is all.
            **when: The words of ``error()``.
        """
        return self.add("follower", broker=broker, topic=topic, **when)

    def leader(
        self, broker: int, topic: str | None = None, *, leader_epoch: int | None = None, **when: Any
    ) -> Fault:
        """Have Metadata name another leader, as a broker does that knows of no move yet.

        Args:
            broker: The id of that broker, which may not exist.
            topic: The topic; ``None`` is all.
            leader_epoch: The leader epoch; ``None`` is the true one.
            **when: The words of ``error()``.
        """
        return self.add("leader", broker=broker, topic=topic, leader_epoch=leader_epoch, **when)

    def disk(self, disk: str, *, ms: int | None = None, **when: Any) -> Fault:
        """Make the disk of the logs ``full``, ``slow`` (for ``ms``) or fail with an ``error``.

        Args:
            disk: What is wrong with it.
            ms: How long a slow operation takes.
            **when: ``topic``, ``partition``, ``operation`` (``write``, ``sync``, ``read``),
                ``times``, ``on_call``, ``probability``, ``seed``.
        """
        return self.add("disk", disk=disk, ms=ms, **when)

    def move_leader(
        self, topic: str, partition: int, to: int | None = None, *, times: int = 1
    ) -> Moves:
        """Have another in-sync replica lead a partition.

        Without another one the same broker leads on in a higher epoch, and answers Produce, Fetch
        and ListOffsets of the partition with NOT_LEADER_OR_FOLLOWER.

        Args:
            topic: The topic.
            partition: The partition's number.
            to: The id of a broker; ``None`` is the next replica that is in sync.
            times: Errors of each API where the same broker leads on.
        """
        from .moves import move

        path, place = "/leaders/move", {"topic": topic, "partition": partition}
        return move(self._send, path, **place, to=to, times=times)

    def shuffle_leaders(self, topic: str | None = None, *, seed: int = 0, times: int = 1) -> Moves:
        """Have another in-sync replica lead each partition, chosen by chance.

        Args:
            topic: The topic; ``None`` is every topic but internal ones.
            seed: The same seed chooses the same leaders.
            times: As in ``move_leader()``.
        """
        from .moves import move

        return move(self._send, "/leaders/shuffle", topic=topic, seed=seed, times=times)

    def move_coordinator(self, group: str, to: int | None = None, *, times: int = 1) -> Moves:
        """Have another broker coordinate a group: the leader of the partition with its offsets.

        Without another one the same broker answers the group with NOT_COORDINATOR.

        Args:
            group: The group's id.
            to: The id of a broker; ``None`` is the next one that has the offsets.
            times: Errors of each API of groups where the same broker leads on.
        """
        from .moves import move

        return move(self._send, "/coordinators/move", group=group, to=to, times=times)

    def clear(self) -> int:
        """Remove all faults; return how many there were."""
        return int(command(self._send, "DELETE", "/faults")["removed"])

    def __iter__(self) -> Iterator[Fault]:
        """Return the faults in force, in the order in which they were added."""
        told = command(self._send, "GET", "/faults")["faults"]
        return iter([Fault(self._send, one) for one in told])

    def __len__(self) -> int:
        """Return how many there are."""
        return len(command(self._send, "GET", "/faults")["faults"])
