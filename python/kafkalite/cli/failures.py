"""What a command says when it fails, and the exit code that goes with it.

::

    error: cannot reach any broker of localhost:9092
      127.0.0.1:9092  connection refused (3 tries in 3.0 s)
    hint: nothing listens there. Start one with `kafkalite dev`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import click

from .. import errors

if TYPE_CHECKING:
    from collections.abc import Iterable


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    #: Also: the directory is locked, the port is taken.
    REFUSED = 1
    #: Also: a bad configuration.
    USAGE = 2
    UNREACHABLE = 3
    #: Some of it was done, or is sound, and some not.
    PARTLY = 4
    NOT_FOUND = 5
    #: As shells say it of a process that SIGINT ended.
    INTERRUPTED = 130


#: By the class of an error, or the nearest class above it; others are refusals.
_EXIT_CODES: dict[type[BaseException], ExitCode] = {
    errors.BrokerStartError: ExitCode.USAGE,
    errors.ConfigError: ExitCode.USAGE,
    errors.InvalidArgumentError: ExitCode.USAGE,
    errors.InvalidPartitionsError: ExitCode.USAGE,
    errors.InvalidTopicError: ExitCode.USAGE,
    errors.PartialError: ExitCode.PARTLY,
    errors.NoBrokerReachable: ExitCode.UNREACHABLE,
    errors.ConnectionLostError: ExitCode.UNREACHABLE,
    TimeoutError: ExitCode.UNREACHABLE,
    errors.GroupNotFoundError: ExitCode.NOT_FOUND,
    errors.UnknownTopicError: ExitCode.NOT_FOUND,
}


#: What to do in words of the command line, where the error's own are those of a program.
_HINTS: dict[type[BaseException], str] = {
    errors.GroupNotFoundError: "`kafkalite groups list` shows those there are.",
    errors.TopicExistsError: "with --exist-ok that is fine.",
    errors.UnknownTopicError: "`kafkalite topics list` shows those there are, "
    "`kafkalite topics create` makes one.",
}


class CommandError(Exception):
    """A command did not do its work.

    Args:
        what: What failed.
        why: Lines that tell the cause.
        hint: What to do about it.
        exit_code: How the command ends.
    """

    what: str
    why: tuple[str, ...]
    hint: str | None
    exit_code: ExitCode

    def __init__(
        self,
        what: str,
        *,
        why: Iterable[str] = (),
        hint: str | None = None,
        exit_code: ExitCode = ExitCode.REFUSED,
    ) -> None:
        """Note what is to be said."""
        super().__init__(what)
        self.what, self.why, self.hint, self.exit_code = what, tuple(why), hint, exit_code


def told(error: Exception) -> CommandError:
    """Return what to say about an error of the package or of click."""
    if isinstance(error, CommandError):
        return error
    if isinstance(error, click.UsageError):
        return _usage(error)
    if isinstance(error, click.ClickException):
        return CommandError(error.format_message(), exit_code=ExitCode.REFUSED)
    first, *why = str(error).splitlines() or [type(error).__name__]
    if what := getattr(error, "what", None):
        first, cause = what, getattr(error, "why", None)
        why = [cause] if cause else []
    kinds = {type(one) for one in getattr(error, "errors", {}).values()} or {type(error)}
    hint = _HINTS.get(kinds.pop()) if len(kinds) == 1 else None
    hint = hint or getattr(error, "hint", None)
    return CommandError(
        first, why=[line.strip() for line in why], hint=hint, exit_code=_exit_code(error)
    )


def of_text(error: UnicodeEncodeError) -> CommandError:
    """Return what to say about a word that is no text: names are UTF-8 on the wire."""
    return CommandError(
        f"{ascii(error.object)[:200]} is not UTF-8",
        hint="names of topics, groups, keys and hosts are text in UTF-8.",
        exit_code=ExitCode.USAGE,
    )


def of_system(error: OSError) -> CommandError:
    """Return what to say about something that the system refuses."""
    what = "the answer cannot be written" if error.filename is None else str(error.filename)
    return CommandError(
        what if error.filename is None else f"cannot use {what}",
        why=[(error.strerror or str(error)).lower()],
        hint="look at the disk that stdout leads to."
        if error.filename is None
        else "look at its permissions, and whether it is there.",
    )


def _usage(error: click.UsageError) -> CommandError:
    message = error.format_message().rstrip(".")
    what, _, meant = message.partition("Did you mean ")
    path = "kafkalite" if error.ctx is None else error.ctx.command_path
    # Of several it lists them, all in brackets.
    what = what.rstrip(" (")
    meant = meant.rstrip("?)").removeprefix("one of: ") or _command_meant(error)
    hint = f"did you mean {meant}?" if meant else f"see `{path} --help`."
    what = what[:1].lower() + what[1:]
    return CommandError(what.rstrip("."), hint=hint, exit_code=ExitCode.USAGE)


def _command_meant(error: click.UsageError) -> str:
    """Return the quoted command that a wrong one comes near to, or nothing."""
    from difflib import get_close_matches

    group = error.ctx.command if error.ctx is not None else None
    quoted = error.message.split("'")
    if not isinstance(group, click.Group) or "No such command" not in error.message:
        return ""
    assert error.ctx is not None
    near = get_close_matches(quoted[1], group.list_commands(error.ctx), n=1)
    return f"'{near[0]}'" if near else ""


def _exit_code(error: Exception) -> ExitCode:
    given = getattr(error, "exit_code", None)
    if given is not None:
        return ExitCode(given)
    kinds = (kind for kind in type(error).__mro__ if kind in _EXIT_CODES)
    return next((_EXIT_CODES[kind] for kind in kinds), ExitCode.REFUSED)


def tell(error: CommandError) -> None:
    """Write it to stderr."""
    label = click.style("error:", fg="red", bold=True) if _colours() else "error:"
    click.echo(f"{label} {error.what}", err=True)
    for line in error.why:
        click.echo(f"  {line}", err=True)
    if error.hint:
        click.echo(f"hint: {error.hint}", err=True)


def _colours() -> bool:
    import os
    import sys

    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
