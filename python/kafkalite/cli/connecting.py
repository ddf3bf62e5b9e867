"""How commands find a cluster: the options they share, and the clients made of them."""

from __future__ import annotations

import functools
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ..errors import GroupNotFoundError, NoBrokerReachable, PartialError, UnknownTopicError
from .contexts import DEFAULT_SERVERS, chosen
from .failures import CommandError, ExitCode
from .names_meant import with_name_meant
from .places import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..admin import AdminClient

_NUMBER = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True)
class Cluster:
    """Where the cluster is and how to talk to it."""

    servers: str
    #: Keys with dots, as every client takes them as ``config=``.
    config: dict[str, str] = field(default_factory=dict)
    #: Seconds for each call; ``None`` leaves it to the client.
    timeout: float | None = None

    def admin(self, *, beside: bool = False) -> AdminClient:
        """Make an admin client; it connects when it is first asked something.

        Args:
            beside: It serves a producer or a consumer: the keys that only these have are for them.
        """
        from .. import AdminClient
        from ..config_table import client_keys

        config = self.keys()
        if beside:
            others = {key.name for key in client_keys() if key.client in ("producer", "consumer")}
            config = {name: v for name, v in config.items() if name.replace("_", ".") not in others}
        return AdminClient(config=config)

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

    @servers_option
    @click.option("--context", "context", metavar="NAME", help="Saved context to use.")
    @_client_options
    @functools.wraps(command)
    def with_cluster(
        *args: Any,
        servers: str | None,
        context: str | None,
        client_pairs: tuple[str, ...],
        timeout: float | None,
        **rest: Any,
    ) -> Any:
        where = chosen(servers, context)
        config = where.client_config | key_values(client_pairs, "--client-config")
        cluster = Cluster(where.bootstrap_servers, config, timeout)
        with _explaining(cluster, rest):
            return command(*args, cluster=cluster, **rest)

    return with_cluster


def running_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same for a command that needs no cluster; it gets ``None`` where none is named."""

    @_servers_option(help="Address of a running broker.")
    @_client_options
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
        with _explaining(cluster, rest):
            return command(*args, cluster=cluster, **rest)

    return with_cluster


def _servers_option(**more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    # Kafka's tools have the name without an s.
    return click.option(
        "-b",
        "--bootstrap-servers",
        "--bootstrap-server",
        "servers",
        metavar="HOST:PORT,...",
        **more,
    )


#: Where the cluster is: ``None`` leaves that to the context.
servers_option: Callable[[Callable[..., Any]], Callable[..., Any]] = _servers_option(
    envvar="KAFKALITE_BOOTSTRAP_SERVERS",
    show_envvar=True,
    help=f"Addresses of brokers.  [default: those of the current context, or {DEFAULT_SERVERS}]",
)


def _client_options(command: Callable[..., Any]) -> Callable[..., Any]:
    pairs = click.option(
        "-X",
        "--client-config",
        "client_pairs",
        metavar="KEY=VALUE",
        multiple=True,
        help="Client key to set (repeatable).",
    )
    timeout = click.option(
        "--timeout", type=Seconds(min_open=True), help="Time limit of each call, in seconds."
    )
    return pairs(timeout(command))


@contextmanager
def _explaining(cluster: Cluster, given: dict[str, Any]) -> Iterator[None]:
    """Make failures say which addresses were tried, or which name was meant.

    Args:
        cluster: The cluster that is asked.
        given: The parameters of the command, by name.
    """
    try:
        yield
    except NoBrokerReachable as error:
        raise unreachable(cluster.servers, error) from None
    except (UnknownTopicError, GroupNotFoundError, PartialError) as error:
        raise with_name_meant(error, cluster, given) from None


def unreachable(servers: str, error: NoBrokerReachable) -> CommandError:
    """Return the error for unreachable brokers, with the cause for each address."""
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
    """Return what was given as KEY=VALUE; of a key that is given twice the last value.

    Raises:
        BadParameter: One has no ``=``.
    """
    return dict(pairs_of(pairs, option))


def pairs_of(pairs: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    """Return what was given as KEY=VALUE, all of it.

    Raises:
        BadParameter: One has no ``=``.
    """
    found = []
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        found.append((key.strip(), value))
    return found


def changes_of(
    pairs: tuple[str, ...], option: str, unset: tuple[str, ...] = ()
) -> dict[str, str | None]:
    """Return new values of keys, ``None`` for a key that is reset.

    Raises:
        BadParameter: A pair has no ``=``.
        UsageError: A key is given twice: only one of the two could come true.
    """
    given: list[tuple[str, str | None]] = [*pairs_of(pairs, option)]
    given += [(key.strip(), None) for key in unset]
    found = dict(given)
    if len(found) < len(given):
        keys = [key for key, _ in given]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise click.UsageError(f"{twice} is given twice: which of the two is meant?")
    return found


def partitions_of(words: tuple[str, ...]) -> list[tuple[str, int | None]]:
    """Return topics and partitions of words like ``TOPIC`` and ``TOPIC:3``.

    A word that begins with ``^`` is a pattern, which may have colons: no topic is called so.

    Raises:
        BadParameter: What follows the colon is no number.
    """
    found: list[tuple[str, int | None]] = []
    for word in words:
        topic, separator, number = (word, "", "") if word[:1] == "^" else word.partition(":")
        if separator and not (_NUMBER.fullmatch(number) and int(number) < 1 << 31):
            raise click.BadParameter(f"{word!r} is not TOPIC or TOPIC:PARTITION")
        found.append((topic, int(number) if separator else None))
    return found


def yes_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--yes``: the command asks no question, see ``confirm``."""
    return click.option(
        "-y", "--yes", is_flag=True, help="Do not ask. Required without a terminal."
    )(command)


def confirm(question: str, is_sure: bool) -> None:
    """Ask on a terminal before something is gone; elsewhere ``--yes`` is the answer.

    Args:
        question: Ends with a question mark.
        is_sure: Whether ``--yes`` was given.

    Raises:
        CommandError: The answer is no, or there is no terminal to ask on.
    """
    import sys

    if is_sure:
        return
    if not sys.stdin.isatty():
        raise CommandError(
            f"not confirmed: {question}",
            why=["stdin is not a terminal, so the question cannot be asked"],
            hint="add --yes to confirm.",
            exit_code=ExitCode.USAGE,
        )
    if not click.confirm(question, err=True):
        raise CommandError("nothing was changed", why=["the answer was no"])
