"""Every option and argument of every command with hostile values: a message, never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

import kafkalite
from kafkalite.cli.program import program
from tests.harness.process import PATIENCE_S

#: How long one command may take, in seconds, and all of one group.
LIMIT_S, ALL_S = 60, 900

#: 0 done, 1 refused, 2 usage, 3 unreachable, 4 partly, 5 not found.
CODES = {0, 1, 2, 3, 4, 5}

#: An argument that is not UTF-8 reaches Python with such characters.
NOT_UTF_8 = "\udcff"

HOSTILE = (
    "",
    " ",
    "-",
    "--",
    "=",
    ":",
    "\\",
    "²",
    "t:²",
    "t:99999999999",
    "t:-1",
    "0",
    "-1",
    "2147483648",
    "99999999999999999999",
    "-99999999999999999999",
    "9" * 5_000,
    "1e400",
    "nan",
    "inf",
    "-inf",
    "99999999999999d",
    "9" * 30 + "s",
    "0001-01-01T00:00:00",
    "1969-12-31T23:59:59.999Z",
    "9999-12-31T23:59:59-12:00",
    "a=b",
    "a=1",
    "=b",
    "{",
    "{x}",
    "{key!r:>9}{0}",
    "\\x",
    "\\ud800",
    "\\U99999999",
    "\n\x1b[31m\t",
    "日本語",
    "../../etc/passwd",
    "a" * 30_000,
    NOT_UTF_8,
    f"a={NOT_UTF_8}",
    f"{NOT_UTF_8}=b",
)

#: Options of the cluster are the same everywhere: hostile ones are tried with `topics list`.
SHARED = {"servers", "client_pairs", "timeout"}

#: What they start does not end: a flag that does not exist comes last.
ENDLESS = {"serve", "dev"}

#: That many records are meant, and would come.
MEANT = {("perf produce", "records"), ("perf consume", "records"), ("perf e2e", "records")}


class Setting(NamedTuple):
    """What the commands work on."""

    servers: str
    partition: Path
    lines: Path


def write_one(broker: kafkalite.Broker) -> None:
    """Write a record to the topic."""
    with kafkalite.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("t", b"v").result(timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    """A broker with a topic of one record, and the files of a broker that has stopped."""
    directory = tmp_path_factory.mktemp("hostile")
    with kafkalite.Broker(topics="t", data_dir=directory / "data") as stopped:
        write_one(stopped)
    lines = directory / "lines"
    lines.write_bytes(b"a\nb\n")
    with kafkalite.Broker(topics="t") as broker:
        write_one(broker)
        yield Setting(broker.bootstrap_servers, directory / "data" / "t-0", lines)


def leaves(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, with its words."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*path, name))


COMMANDS = dict(leaves(program, ()))


def base_of(setting: Setting) -> dict[str, tuple[list[str], list[str]]]:
    """For each command options and arguments with which it does its work and ends."""
    cluster = ["-b", setting.servers, "-X", "kafkalite.bootstrap.timeout.ms=500", "--timeout", "5"]
    partition, lines = str(setting.partition), str(setting.lines)
    load = [*cluster, "-n", "3"]
    nowhere = ["--admin-url", "http://127.0.0.1:1"]
    return {
        "serve": ([], ["--quiet"]),
        "dev": ([], ["--quiet"]),
        "topics list": (cluster, []),
        "topics create": ([*cluster, "--exist-ok"], ["made"]),
        "topics describe": (cluster, ["t"]),
        "topics alter": ([*cluster, "--config", "retention.ms=-1"], ["t"]),
        "topics add-partitions": (cluster, ["t", "1"]),
        "topics trim": ([*cluster, "--before", "0", "-y"], ["t"]),
        "topics delete": ([*cluster, "-y"], ["no-such-topic"]),
        "groups list": (cluster, []),
        "groups describe": (cluster, ["g"]),
        "groups lag": (cluster, ["g"]),
        "groups reset-offsets": ([*cluster, "--to", "0", "--topic", "t", "-y"], ["g"]),
        "groups delete": ([*cluster, "-y"], ["no-such-group"]),
        "produce": ([*cluster, "--file", lines], ["t"]),
        "consume": ([*cluster, "-n", "1", "--idle", "0.1", "-o", "0"], ["t"]),
        "perf produce": (load, []),
        "perf consume": (load, []),
        "perf e2e": (load, []),
        "perf stages": (nowhere, []),
        "top": (nowhere, []),
        "console": (nowhere, []),
        "faults add": (nowhere, ["error"]),
        "faults list": (nowhere, []),
        "faults remove": (nowhere, ["1"]),
        "faults clear": (nowhere, []),
        "client-metrics subscribe": ([*cluster, "--metrics", "a."], ["s"]),
        "client-metrics delete": (cluster, ["no-such-subscription"]),
        "client-metrics list": (cluster, []),
        "client-metrics clients": (nowhere, []),
        "client-metrics show": (nowhere, ["F5TzbsWvQ0OzFz9hU7p0-w"]),
        "faults move-leader": (nowhere, ["t:0"]),
        "faults shuffle-leaders": (nowhere, []),
        "faults move-coordinator": (nowhere, ["g"]),
        "explain": (nowhere, []),
        "doctor": (["--timeout", "2"], [setting.servers]),
        "log dump": ([], [partition]),
        "log verify": ([], [partition]),
        "log adopt": (
            ["--topic", "t", "--partition", "0", "--data-dir", str(setting.lines.parent / "no")],
            [partition],
        ),
        "config list": ([], []),
        "config explain": ([], ["num.partitions"]),
        "config show": ([], []),
        "config alter": ([*cluster, "--topic", "t"], ["retention.ms=-1"]),
        "cluster info": (cluster, []),
        "cluster health": (cluster, []),
        "cluster brokers": (cluster, []),
        "cluster quorum": (cluster, []),
        "cluster features": ([*cluster, "--upgrade", "metadata.version=30", "--dry-run"], []),
        "cluster move-leader": (cluster, ["t"]),
        "cluster move-log-dir": ([*cluster, "--broker", "0"], ["t"]),
        "cluster reassign": ([*cluster, "--to", "1", "--dry-run"], ["t"]),
        "context add": ([], ["here", setting.servers]),
        "context use": ([], ["here"]),
        "context list": ([], []),
        "context remove": ([], ["here"]),
        "completion": ([], ["bash"]),
    }


def attempts(name: str, base: tuple[list[str], list[str]]) -> Iterator[list[str]]:
    """The command as it should be, and with every hostile value in every place."""
    options, arguments = base
    path = name.split()
    end = ["--no-such-flag"] if name in ENDLESS else []
    yield [*path, *options, *arguments, *end]
    own = [param for param in COMMANDS[name].params if isinstance(param, click.Option)]
    for param in own:
        if param.name == "watch":
            continue  # It does not end.
        if param.is_flag:
            yield [*path, *options, param.opts[-1], *arguments, *end]
        elif name == "topics list" or param.name not in SHARED:
            values = [v for v in HOSTILE if (name, param.name) not in MEANT or not v.isdigit()]
            for value in values:
                yield [*path, *options, f"{param.opts[-1]}={value}", *arguments, *end]
    for at in range(len(arguments)):
        for value in HOSTILE:
            words = [*arguments[:at], value, *arguments[at + 1 :], *end]
            yield [*path, *options, *words]
            yield [*path, *options, "--", *words]


def flags_of_serve() -> Iterator[list[str]]:
    """The flags that the binary reads itself, and every key of a broker by `config show`."""
    flags = ("listen", "advertise", "data-dir", "admin-port", "config", "set", "profile", "topic")
    for flag in (*flags, "stop-with-parent"):
        for value in HOSTILE:
            for command in ("serve", "dev", "config show"):
                yield [*command.split(), f"--{flag}={value}", "--no-such-flag"]
            yield ["config", "show", "--", f"--{flag}={value}"]


def outcomes(words: list[list[str]], cwd: Path) -> list[dict[str, Any]]:
    """What each list of words came to; fails with the words of one that does not end."""
    runner = Path(__file__).with_name("hostile_words.py")
    command = [sys.executable, str(runner), str(LIMIT_S)]
    given = json.dumps(words)
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=ALL_S, cwd=cwd
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (done.returncode, done.stderr, told[-1:])
    return [line for line in told if "code" in line]


def problem(outcome: dict[str, Any]) -> str | None:
    """What is wrong with an outcome."""
    if outcome["trace"] is not None:
        return str(outcome["trace"])
    if "Traceback" in outcome["stderr"] or outcome["code"] not in CODES:
        return f"exit code {outcome['code']}: {outcome['stderr']}"
    said = outcome["stderr"].splitlines()
    if outcome["code"] != 0 and not any(line.startswith("error: ") for line in said):
        return f"exit code {outcome['code']} without an error: {outcome['stderr']!r}"
    return None


def judge(words: list[list[str]], cwd: Path) -> None:
    """Run them all and fail with those that end in another way than they should."""
    found = outcomes(words, cwd)
    assert len(found) == len(words)
    wrong = [(o["words"], why) for o in found if (why := problem(o)) is not None]
    shown = "\n".join(f"{str(words)[:300]}\n{why}" for words, why in wrong[:10])
    assert not wrong, f"{len(wrong)} of {len(found)}:\n{shown}"


@pytest.mark.timeout(ALL_S)
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_hostile_word_is_answered_with_a_message(
    setting: Setting, name: str, tmp_path: Path
) -> None:
    """A backslash as a format, ``t:²``, an offset of 14 digits of days: tracebacks, and exit 1."""
    judge(list(attempts(name, base_of(setting)[name])), tmp_path)


@pytest.mark.timeout(ALL_S)
def test_a_hostile_flag_of_a_broker_is_answered_with_a_message(tmp_path: Path) -> None:
    judge(list(flags_of_serve()), tmp_path)


HOSTILE_LINES = (
    "",
    "{",
    "[]",
    "null",
    "5",
    "[" * 100_000,
    '{"value": ' + "[" * 100_000,
    '{"value": 1, "headers": ' + "[" * 900 + "]" * 900 + "}",
    '{"value": "v", "timestamp_ms": "soon"}',
    '{"value": "v", "timestamp_ms": true}',
    '{"value": "v", "timestamp_ms": 1.5}',
    '{"value": "v", "timestamp_ms": -5}',
    '{"value": "v", "timestamp_ms": 99999999999999999999}',
    '{"value": "v", "timestamp_ms": ' + "9" * 5_000 + "}",
    '{"value": "\\ud800"}',
    '{"value": "v", "key": "\\udfff"}',
    '{"value": "v", "headers": {"\\ud800": "x"}}',
    '{"value": "v", "headers": [{"name": 5, "value": "x"}]}',
    '{"value": "v", "headers": [{"value": "x"}]}',
    '{"value": "v", "headers": [5]}',
    '{"value": "v", "headers": "abc"}',
    '{"value": "v", "headers": 5}',
    '{"value_base64": "?"}',
    '{"value_base64": 5}',
    '{"value_base64": "ü"}',
    '{"key": "k"}',
)


@pytest.mark.timeout(ALL_S)
def test_a_hostile_line_of_json_is_named_by_its_number(setting: Setting, tmp_path: Path) -> None:
    """Bad timestamps and deep nesting ended in tracebacks."""
    words = []
    for at, line in enumerate(HOSTILE_LINES):
        path = tmp_path / f"lines-{at}"
        path.write_text(f'{{"value": "sound", "timestamp_ms": -1}}\n{line}\n')
        words.append(
            ["produce", "t", "--input", "jsonl", "--file", str(path), "-b", setting.servers]
        )
    (tmp_path / "latin").write_bytes(b'{"value": "sound"}\n{"value": "\xff"}\n')
    words.append([*words[0][:5], str(tmp_path / "latin"), "-b", setting.servers])
    for outcome in outcomes(words, tmp_path):
        assert problem(outcome) is None, outcome
        assert outcome["code"] == 2, outcome
        assert outcome["stderr"].startswith("error: line 2 is not a record: "), outcome


def test_every_command_is_tried(setting: Setting) -> None:
    assert set(base_of(setting)) == set(COMMANDS)
