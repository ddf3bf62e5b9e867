"""Asks the admin port of a broker: the option that names it, the token, the stream."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .failures import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Command = TypeVar("_Command", bound="Callable[..., object]")

_HINT = "pass the address that the broker prints after `admin:` with --admin-url."


def admin_options(command: _Command) -> _Command:
    """Add ``--admin-url`` and ``--token``; the command gets ``admin_url`` and ``token``."""
    url = click.option(
        "--admin-url",
        default="http://127.0.0.1:9644",
        show_default=True,
        help="Admin address of the broker, as `serve` prints it after `admin:`.",
    )
    token = click.option(
        "--token",
        envvar="KAFKALITE_ADMIN_TOKEN",
        help="Value of kafkalite.admin.token, if the broker has one. "
        "Default: the variable KAFKALITE_ADMIN_TOKEN.",
    )
    return url(token(command))


def ask(admin_url: str, path: str, token: str | None, timeout: float = 10.0) -> Any:
    """Open a path below the API's root; the caller closes the answer.

    Raises:
        CommandError: The broker cannot be reached, or refuses.
    """
    url = f"{admin_url.rstrip('/')}/api/v1{path}"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        if not url.startswith(("http://", "https://")):
            raise ValueError("not a URL of http")
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        raise _refused(url, error) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        why = [str(getattr(error, "reason", error)).lower()]
        raise CommandError(
            f"cannot read {url}", why=why, hint=_HINT, exit_code=ExitCode.UNREACHABLE
        ) from None


def _refused(url: str, error: urllib.error.HTTPError) -> CommandError:
    try:
        said = json.loads(error.read(65_536))
        return CommandError(f"cannot read {url}", why=[str(said["why"])], hint=str(said["hint"]))
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return CommandError(f"cannot read {url}", why=[f"status {error.code}"], hint=_HINT)


def events(
    admin_url: str, token: str | None, broker: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the events of the broker's stream, five a second, for as long as they are wanted.

    With ``broker``, the id of another one or ``all``, they come once a second.

    Raises:
        CommandError: The broker cannot be reached, refuses, or ends the stream.
    """
    path = "/live" if broker is None else f"/live?broker={broker}"
    with ask(admin_url, path, token) as answer:
        try:
            for line in answer:
                if line.startswith(b"data: "):
                    event: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
                    yield event
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise _ended(admin_url, str(error).lower()) from None
    # The end of a connection says no more: a broker that stops, and one that dies, look alike.
    raise _ended(admin_url, "")


def _ended(admin_url: str, why: str) -> CommandError:
    return CommandError(
        f"the stream of {admin_url} ended",
        why=[why or "the broker closed it"],
        hint="look whether the broker runs.",
        exit_code=ExitCode.UNREACHABLE,
    )
