"""Why a client is stuck: ``print(broker.explain("billing"))``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .faults import command
from .showing import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .faults import Send
    from .under_test import UnderTest

__all__ = ["Explanation", "Reason"]


@dataclass(frozen=True)
class Reason:
    """One reason why a client is stuck."""

    kind: str
    """Which kind of reason: ``waiting_for_bytes``, ``rebalancing``, ``fenced``, ``idle``, ..."""
    says: str
    """What is so, in words."""
    todo: str
    """What to do about it."""
    client_id: str | None
    """``client.id`` of the client."""
    connection_id: int | None
    """The connection; ``None``: the reason is about no connection."""
    peer: str | None
    """The client's end of the connection: ``HOST:PORT``."""
    facts: dict[str, Any] = field(repr=False)
    """The same for programs. Which members there are depends on the kind."""

    def __str__(self) -> str:
        """Return both sentences."""
        return f"{self.says}. What to do: {self.todo}."


@dataclass(frozen=True)
class Explanation:
    """Why a client is stuck, as its broker sees it at one moment."""

    broker_id: int
    """The broker. What other brokers do with the client it does not know."""
    client_id: str | None
    """The client; ``None``: every client that is connected."""
    connections: int
    """How many connections of it are open."""
    reasons: list[Reason]
    """The reasons, in the order of the connections."""

    @property
    def kinds(self) -> set[str]:
        """The kinds of all reasons."""
        return {reason.kind for reason in self.reasons}

    def of(self, kind: str) -> list[Reason]:
        """Return the reasons of one kind."""
        return [reason for reason in self.reasons if reason.kind == kind]

    def __iter__(self) -> Iterator[Reason]:
        """Return the reasons."""
        return iter(self.reasons)

    def __len__(self) -> int:
        """Return how many reasons there are."""
        return len(self.reasons)

    def __bool__(self) -> bool:
        """Return whether there is a reason."""
        return bool(self.reasons)

    def __str__(self) -> str:
        """Return a line for each reason."""
        lines = []
        for reason in self.reasons:
            where = f" {reason.peer}" if reason.peer else ""
            lines.append(printable(f"{reason.client_id or '-'}{where}: {reason}"))
        return "\n".join(lines)


def explain(send: Send, client_id: str | None) -> Explanation:
    """Ask the broker behind ``send``."""
    if client_id is not None and not isinstance(client_id, str):
        raise TypeError(f"client_id must be a text, not {type(client_id).__name__}")
    query = (
        ""
        if client_id is None
        else f"?client_id={quote(client_id.encode(errors='surrogateescape'), safe='')}"
    )
    told = command(send, "GET", f"/explain{query}")
    reasons = [Reason(**reason) for reason in told.pop("reasons")]
    return Explanation(reasons=reasons, **told)


def for_failure(broker: UnderTest, most: int = 20) -> str:
    """Return why the clients of a broker wait: a line for each reason, and one for idle clients.

    Args:
        broker: The broker.
        most: How many reasons, at most.
    """
    from .errors import KafkaliteError

    try:
        explanation = broker.explain()
    except KafkaliteError:
        # It does not run, or is not under test.
        return ""
    waiting = [reason for reason in explanation if reason.kind != "idle"]
    lines = str(replace(explanation, reasons=waiting)).splitlines()
    if len(lines) > most:
        lines[most:] = [f"and {len(lines) - most} more reasons"]
    # Brokers of a cluster are each other's clients: of those, many are idle.
    idle = dict.fromkeys(printable(one.client_id or "-") for one in explanation.of("idle"))
    if idle:
        lines.append(f"idle, all their requests are answered: {', '.join(idle)}")
    return "\n".join(lines)
