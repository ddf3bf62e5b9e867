"""How commands find a cluster: the options they share, and the clients made of them."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ..errors import NoBrokerReachable
from .failures import CommandError, ExitCode
from .places import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..admin import AdminClient

DEFAULT_SERVERS = "localhost:9092"
_NUMBER = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True)
class Cluster:
    """Where the cluster is and how to talk to it."""

    servers: str
    #: Keys with dots, as every client takes them as ``config=``.
    config: dict[str, str] = field(default_factory=dict)
    #: Seconds for each call; ``None`` leaves it to the client.
    timeout: float | None = None

    def admin(self) -> AdminClient:
        """Make an admin client; it connects when it is first asked something."""
        from .. import AdminClient

        return AdminClient(config=self.keys())

    def keys(self, **more: str) -> dict[str, str]:
        """Return all keys for a client, what was said on the command line last.

        Args:
            more: Keys with underscores, weaker than those.
        """
        dotted = {key.replace("_", "."): value for key, value in more.items()}
        named = {"bootstrap.servers": self.servers, "client.id": "kafkalite-cli"}
        return named | dotted | self.config


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where the cluster is; the command gets ``cluster``."""
    return _with_cluster(
        command,
        default=DEFAULT_SERVERS,
        envvar="KAFKALITE_BOOTSTRAP_SERVERS",
        show_default=True,
        show_envvar=True,
        help="Where to ask for the cluster.",
    )


def running_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same for a command that needs no cluster; it gets ``None`` where none is named."""
    return _with_cluster(command, help="Ask a broker that runs there.")


def _with_cluster(command: Callable[..., Any], **where: Any) -> Callable[..., Any]:
    # Kafka's tools have the name without an s.
    @click.option(
        "-b",
        "--bootstrap-servers",
        "--bootstrap-server",
        "servers",
        metavar="HOST:PORT,...",
        **where,
    )
    @click.option(
        "-X",
        "--client-config",
        "client_pairs",
        metavar="KEY=VALUE",
        multiple=True,
        help="Any key of the client; may be repeated.",
    )
    @click.option("--timeout", type=Seconds(min_open=True), help="Seconds for a call.")
    @functools.wraps(command)
    def with_cluster(
        *args: Any,
        servers: str | None,
        client_pairs: tuple[str, ...],
        timeout: float | None,
        **rest: Any,
    ) -> Any:
        if servers is None:
            return command(*args, cluster=None, **rest)
        cluster = Cluster(servers, key_values(client_pairs, "--client-config"), timeout)
        try:
            return command(*args, cluster=cluster, **rest)
        except NoBrokerReachable as error:
            raise unreachable(servers, error) from None

    return with_cluster


def unreachable(servers: str, error: NoBrokerReachable) -> CommandError:
    """Return what to say when nobody answers: the cause for each address."""
    width = max((len(address) for address in error.causes), default=0)
    doctor = f"or run `kafkalite doctor {servers.split(',')[0]}`."
    refused = all("refused" in cause for cause in error.causes.values())
    hint = "nothing listens there. Start one with `kafkalite dev`, " if refused else ""
    return CommandError(
        f"cannot reach any broker of {servers}",
        why=[f"{address:<{width}}  {cause}" for address, cause in error.causes.items()],
        hint=hint + doctor if hint else doctor.removeprefix("or "),
        exit_code=ExitCode.UNREACHABLE,
    )


def key_values(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """Return what was given as KEY=VALUE.

    Raises:
        BadParameter: One has no ``=``.
    """
    found = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        found[key.strip()] = value
    return found


def partitions_of(words: tuple[str, ...]) -> list[tuple[str, int | None]]:
    """Return topics and partitions of words like ``TOPIC`` and ``TOPIC:3``.

    Raises:
        BadParameter: What follows the colon is no number.
    """
    found: list[tuple[str, int | None]] = []
    for word in words:
        topic, separator, number = word.partition(":")
        if separator and not (_NUMBER.fullmatch(number) and int(number) < 1 << 31):
            raise click.BadParameter(f"{word!r} is not TOPIC or TOPIC:PARTITION")
        found.append((topic, int(number) if separator else None))
    return found


def yes_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--yes``: whoever says it is not asked, see ``confirm``."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(command)


def confirm(question: str, is_sure: bool) -> None:
    """Ask a person before something is gone; a program knows what it does.

    Raises:
        Abort: The answer is no.
    """
    import sys

    if not is_sure and sys.stdin.isatty():
        click.confirm(question, abort=True, err=True)
