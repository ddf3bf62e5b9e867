"""The help of every command: it has examples, and the examples are commands that there are."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

import kafkalite
from kafkalite.cli.failures import ExitCode
from kafkalite.cli.program import program
from tests.harness.process import PATIENCE_S, Process
from tests.unit.test_command_line import told

#: The flags of these are read by the binary.
OF_THE_BINARY = {"serve", "dev", "config show"}


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and every group, by its words."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))


ALL = [" ".join(path) for path in commands(program)]


def examples_of(help_text: str) -> list[str]:
    """The lines behind ``Examples:``."""
    lines = iter(help_text.splitlines())
    for line in lines:
        if line.strip().lower() == "examples:":
            break
    found = []
    for line in lines:
        if not line.strip():
            break
        found.append(line.strip())
    return found


@pytest.mark.parametrize("words", ALL)
def test_every_help_has_an_example_of_the_command(words: str) -> None:
    done = told(*words.split(), "--help")
    assert done.returncode == 0
    assert any(f"kafkalite {words}".strip() in line for line in examples_of(done.stdout))


def leaf(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that these words name, and what is left of them."""
    command: click.Command = program
    while isinstance(command, click.Group):
        name, *words = words
        found = command.get_command(click.Context(command), name)
        assert found is not None, name
        command = found
    return command, words


@pytest.mark.parametrize("words", sorted(set(ALL) - OF_THE_BINARY))
def test_an_example_has_options_and_arguments_that_there_are(words: str) -> None:
    lines = examples_of(told(*words.split(), "--help").stdout)
    for part in (part for line in lines for part in line.split(" | ")):
        given = shlex.split(part.split(" > ")[0].split(" >> ")[0])
        if given[0] != "kafkalite":
            continue
        command, rest = leaf(given[1:])
        if command.name not in {"dev", "serve"} and "lines.txt" not in rest:
            # Reads every option and argument, and runs nothing.
            paths = [param for param in command.params if isinstance(param.type, click.Path)]
            for param in paths:
                param.type = click.STRING
            command.make_context(str(command.name), rest)


#: Commands that go on until Ctrl-C, and how the first line begins that tells that they do.
ENDLESS = [
    ("topics list --watch -b BROKER", "topic"),
    ("groups lag --all --watch -b BROKER", "group"),
    ("consume interrupted --from-beginning -b BROKER", "one"),
    ("consume interrupted --from-beginning -g interrupted -b BROKER", "one"),
    ("produce interrupted-new -b BROKER", "created topic"),
    ("perf produce -n 1000000000", "a broker of its own"),
    ("perf consume -n 1000000000", "a broker of its own"),
    ("perf stages --seconds 1000 --admin-url ADMIN", "looking"),
]


@pytest.mark.parametrize(("words", "first"), ENDLESS)
def test_ctrl_c_ends_a_command_with_130_and_no_traceback(
    broker: Process, words: str, first: str
) -> None:
    told("topics", "create", "interrupted", "--exist-ok", "-b", broker.ready)
    told("topics", "delete", "interrupted-new", "-y", "--missing-ok", "-b", broker.ready)
    with kafkalite.Producer(bootstrap_servers=broker.ready) as producer:
        producer.send("interrupted", b"one").result(timeout=PATIENCE_S)
    given = words.replace("BROKER", broker.ready).replace("ADMIN", broker.admin).split()
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-m", "kafkalite", *given],
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"a line\n")
        process.stdin.flush()
        assert process.stdout.readline().decode().startswith(first)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, b"Traceback" in rest) == (ExitCode.INTERRUPTED, False), rest


def test_ctrl_c_while_modules_are_imported_ends_with_130() -> None:
    program_text = (
        "import os, signal, sys, builtins\n"
        "imports = builtins.__import__\n"
        "def interrupted(name, *args, **kwargs):\n"
        "    if name == 'click':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return imports(name, *args, **kwargs)\n"
        "builtins.__import__ = interrupted\n"
        "sys.argv = ['kafkalite', 'topics', 'list']\n"
        "from kafkalite.__main__ import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program_text], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, "Traceback" in done.stderr) == (ExitCode.INTERRUPTED, False)
