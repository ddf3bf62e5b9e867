"""One address of a broker, step by step: DNS, TCP, ApiVersions, login, metadata.

::

    ApiVersions request v0:  header v1, no body
    ApiVersions response v0: error i16, [key i16, min i16, max i16]
    Metadata request v2:     header v1, topics [string]: an empty list asks for none
    Metadata response v2:    [broker i32, host, port i32, rack], cluster id, ...

Source: the Kafka protocol; both versions are served by every broker from 0.10.1 to 4.x.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

_API_VERSIONS, _METADATA, _SASL_HANDSHAKE = 18, 3, 17

#: No answer to these two is longer; a peer that claims more is no broker.
_MOST_BYTES = 4 << 20


@dataclass
class Checked:
    """How one step went."""

    address: str
    broker: int | None
    step: str
    is_well: bool
    detail: str
    took_ms: float | None = None
    hint: str | None = None

    def told(self) -> dict[str, object]:
        """Return it for JSON."""
        return asdict(self)


class StepError(Exception):
    """A step failed: what happened, and what to do about it."""

    def __init__(self, what: str, hint: str) -> None:
        """Note both."""
        super().__init__(what)
        self.hint = hint


@dataclass
class Probe:
    """The steps to one address; each needs the one before it."""

    address: str
    timeout: float
    #: The broker that should answer there, if one said so.
    broker: int | None = None
    cluster_id: str | None = None
    checks: list[Checked] = field(default_factory=list)
    #: Address of each broker, as this one advertises them.
    brokers: dict[int, str] = field(default_factory=dict)
    _places: list[tuple[socket.AddressFamily, tuple[str, int]]] = field(default_factory=list)
    _peer: socket.socket | None = None

    @property
    def is_well(self) -> bool:
        """Whether every step went well."""
        return all(checked.is_well for checked in self.checks)

    def run(self) -> Probe:
        """Take the steps until one fails."""
        steps: list[tuple[str, Callable[[], str]]] = [
            ("dns", self._resolve),
            ("tcp", self._connect),
            ("apiversions", self._ask_versions),
            ("login", self._ask_login),
            ("metadata", self._ask_metadata),
        ]
        try:
            for step, take in steps:
                if not self._check(step, take):
                    break
        finally:
            if self._peer is not None:
                self._peer.close()
        return self

    def _check(self, step: str, take: Callable[[], str]) -> bool:
        started = time.perf_counter()
        checked = Checked(self.address, self.broker, step, True, "")
        try:
            checked.detail = take()
        except StepError as error:
            checked.is_well, checked.detail, checked.hint = False, str(error), error.hint
        except struct.error:
            checked.is_well, checked.detail = False, "its answer is cut short"
            checked.hint = "is that a Kafka broker?"
        checked.took_ms = round((time.perf_counter() - started) * 1e3, 3)
        self.checks.append(checked)
        return checked.is_well

    def _resolve(self) -> str:
        host, separator, port = self.address.rpartition(":")
        if not separator or not re.fullmatch("[0-9]{1,5}", port):
            raise StepError(f"{self.address} is not HOST:PORT", "write it as localhost:9092.")
        try:
            found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        except (OSError, OverflowError, UnicodeError) as error:
            hint = "look for a typing error, at /etc/hosts, or at the network's name server."
            if self.broker is not None:
                hint = (
                    f"broker {self.broker} tells clients a name that this machine does not "
                    "know: set advertised.listeners to one that clients know."
                )
            raise StepError(f"the name {host} has no address: {error}", hint) from None
        for family, _, _, _, place in found:
            self._places.append((family, (str(place[0]), int(place[1]))))
        return ", ".join(dict.fromkeys(place[0] for _, place in self._places))

    def _connect(self) -> str:
        failures = []
        for family, place in self._places:
            peer = socket.socket(family, socket.SOCK_STREAM)
            peer.settimeout(self.timeout)
            try:
                peer.connect(place)
            except OSError as error:
                peer.close()
                failures.append((place, error))
                continue
            self._peer = peer
            refused = "".join(f"; not {host}: {why}" for (host, _), why in failures)
            return f"{place[0]}:{place[1]}{refused}"
        return self._no_connection(failures)

    def _no_connection(self, failures: list[tuple[tuple[str, int], OSError]]) -> NoReturn:
        why = "; ".join(f"{host} {_words(error)}" for (host, _), error in failures)
        if any(isinstance(error, TimeoutError) for _, error in failures):
            hint = "a firewall, or a wrong address: nothing comes back from there."
        elif self.broker is not None:
            hint = (
                f"broker {self.broker} sends clients to {self.address}, and nothing listens "
                "there for this machine: look at its advertised.listeners."
            )
        else:
            hint = "nothing listens there. Start a broker with `kafkalite dev`."
        raise StepError(why, hint)

    def _ask_versions(self) -> str:
        answer = self._ask(_API_VERSIONS, 0, b"")
        (error, count) = struct.unpack_from(">hi", answer)
        if error != 0:
            raise StepError(f"it answers with error {error}", "is that a Kafka broker?")
        keys = {struct.unpack_from(">hhh", answer, 6 + 6 * at)[0] for at in range(count)}
        return f"{count} APIs" + (", transactions" if 24 in keys else "")

    def _ask_login(self) -> str:
        # A listener that wants a login closes the connection at any other request; the next
        # step would tell less.
        mechanisms = self._ask(_SASL_HANDSHAKE, 1, _string("PLAIN"))
        (error,) = struct.unpack_from(">h", mechanisms)
        # Neither "go on" nor "not by that mechanism": ILLEGAL_SASL_STATE, as a rule.
        if error not in (0, 33):
            return "none is asked for"
        raise StepError(
            "this listener wants a login (SASL)",
            "name a listener without login; this client has none yet.",
        )

    def _ask_metadata(self) -> str:
        answer = _Reader(self._ask(_METADATA, 2, struct.pack(">i", 0)))
        for _ in range(answer.int32()):
            broker, host, port = answer.int32(), answer.string(), answer.int32()
            answer.string()
            self.brokers[broker] = f"{host}:{port}"
        cluster_id = answer.string()
        if self.broker is not None and cluster_id != self.cluster_id:
            raise StepError(
                f"it is of cluster {cluster_id}, not {self.cluster_id}",
                "two clusters advertise the same address.",
            )
        self.cluster_id = cluster_id
        if not self.brokers:
            raise StepError("it knows of no broker", "it is starting, or cut off from others.")
        plural = "" if len(self.brokers) == 1 else "s"
        return f"cluster {cluster_id}, {len(self.brokers)} broker{plural}"

    def _ask(self, api: int, version: int, body: bytes) -> bytes:
        """Send a request and return what follows the response's header."""
        assert self._peer is not None
        head = struct.pack(">hhi", api, version, 1) + _string("kafkalite-doctor")
        frame = head + body
        try:
            self._peer.sendall(struct.pack(">i", len(frame)) + frame)
            (length,) = struct.unpack(">i", self._receive(4))
            if not 4 <= length <= _MOST_BYTES:
                raise StepError(
                    "it answers with something that is not Kafka's protocol",
                    "a listener with TLS, or another kind of server?",
                )
            return self._receive(length)[4:]
        except TimeoutError:
            raise StepError(
                f"no answer within {self.timeout:g} s", "is it overloaded, or no Kafka broker?"
            ) from None
        except OSError as error:
            raise StepError(_words(error), "does this listener want TLS or a login?") from None

    def _receive(self, count: int) -> bytes:
        assert self._peer is not None
        got = b""
        while len(got) < count:
            part = self._peer.recv(count - len(got))
            if not part:
                raise ConnectionResetError("it closed the connection")
            got += part
        return got


class _Reader:
    """Reads the fields of an answer in order."""

    def __init__(self, answer: bytes) -> None:
        self._answer, self._at = answer, 0

    def _take(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._answer, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def int32(self) -> int:
        return self._take(">i")

    def string(self) -> str | None:
        length = self._take(">h")
        if length < 0:
            return None
        self._at += length
        return self._answer[self._at - length : self._at].decode(errors="replace")


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
