"""The command ``kafkalite``: finds a command's module, runs it, and ends the process."""

from __future__ import annotations

import contextlib
import errno
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

import click

from .. import KafkaliteError, __version__
from . import streams
from .failures import CommandError, ExitCode, of_system, of_text, tell, told
from .helping import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

#: Every command, in the order of the help: the module is named as the command, with underscores.
COMMANDS = (
    "serve",
    "dev",
    "topics",
    "groups",
    "cluster",
    "client-metrics",
    "faults",
    "explain",
    "produce",
    "consume",
    "perf",
    "top",
    "console",
    "doctor",
    "log",
    "config",
    "context",
    "completion",
)


class ReaderGoneError(Exception):
    """The reader of an answer has closed the pipe, as ``head`` does: it has enough."""


@contextlib.contextmanager
def _closed_pipes() -> Iterator[None]:
    """Take a closed pipe out of click's hands, which would end the process with 1."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise ReaderGoneError from None
        raise


class Program(click.Group):
    """A group whose commands are imported when they are named."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the words; ``--help`` is answered here."""
        with _closed_pipes():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that the words name."""
        with _closed_pipes():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command's module and return the command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(
            f".{cmd_name.replace('-', '_')}", __package__
        ).command
        return command


@click.command(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "kafkalite dev",
        "echo hello | kafkalite produce greetings",
        "kafkalite consume greetings --from-beginning -e",
    )
    + "\n\nExit codes: 0 done, 1 refused, 2 usage or a bad configuration, 3 unreachable, "
    "4 partly, 5 not found, 130 interrupted. 129 and 143: ended by SIGHUP and SIGTERM.",
)
@click.version_option(__version__, "-V", "--version", message="kafkalite %(version)s")
def program() -> None:
    """A Kafka broker that pip installs, and tools for any Kafka without TLS."""


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code.

    Args:
        words: The words after the program's name; ``None`` takes the process's own.
    """
    import signal

    from .ending import Ending

    ending = Ending()
    ending.begin()
    try:
        code = int(run(words))
    except KeyboardInterrupt:
        # It came before or behind the work.
        code = int(ExitCode.INTERRUPTED)
    ending.finish()
    if code == ExitCode.INTERRUPTED:
        # A second Ctrl-C while the interpreter ends would write a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if ending.number is not None:
            # The rest of an answer may be for a reader that does not read, and would hold the end.
            # What was not written is not committed.
            streams.silence(sys.stdout)
            code = 128 + ending.number
    sys.exit(code)


def run(words: Sequence[str] | None = None) -> int:
    """Run the command line; errors go to stderr.

    Returns:
        The exit code.
    """
    streams.prepare()
    try:
        ended = program.main(words, prog_name="kafkalite", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, ReaderGoneError):
        # The rest is for no reader, and the end of the process cannot write it either.
        streams.silence(sys.stdout)
        return ExitCode.DONE
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return ExitCode.DONE
    except (CommandError, KafkaliteError, click.ClickException, TimeoutError) as error:
        return _fail(told(error))
    except UnicodeEncodeError as error:
        return _fail(of_text(error))
    except OSError as error:
        if error.filename is None:
            # A full disk, most likely: what waits to be written would fail again at the end.
            streams.silence(sys.stdout)
        return _fail(of_system(error))
    return ended if isinstance(ended, int) else ExitCode.DONE


def _fail(failure: CommandError) -> int:
    try:
        tell(failure)
    except OSError:
        streams.silence(sys.stderr)
    return failure.exit_code
