"""The command ``kafkalite``: finds a command's module, runs it, and ends the process."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

import click

from .. import KafkaliteError, __version__
from .failures import CommandError, ExitCode, tell, told

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Every command, in the order of the help: the module is named as the command.
COMMANDS = (
    "serve",
    "dev",
    "topics",
    "groups",
    "produce",
    "consume",
    "perf",
    "doctor",
    "log",
    "config",
    "completion",
)


class Program(click.Group):
    """A group whose commands are imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command's module and return the command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f".{cmd_name}", __package__).command
        return command


@click.command(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 refused, 2 usage or a bad configuration, 3 unreachable, "
    "4 partly, 5 not found, 130 interrupted.",
)
@click.version_option(__version__, "-V", "--version", message="kafkalite %(version)s")
def program() -> None:
    """A Kafka broker that pip installs, and tools for any Kafka."""


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code.

    Args:
        words: The words after the program's name; ``None`` takes the process's own.
    """
    sys.exit(int(run(words)))


def run(words: Sequence[str] | None = None) -> int:
    """Run the command line; failures are told on stderr.

    Returns:
        The exit code.
    """
    try:
        ended = program.main(words, prog_name="kafkalite", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our answer has enough of it; nor can the end of the process tell it more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return ExitCode.DONE
    except (CommandError, KafkaliteError, click.ClickException, TimeoutError) as error:
        failure = told(error)
        tell(failure)
        return failure.exit_code
    return ended if isinstance(ended, int) else ExitCode.DONE
