"""The command line: help, version, the table of keys, and what it imports."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
import uuid

import pytest

import kafkalite
from tests.harness.process import PATIENCE_S, Process, Processes


def told(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What ``python -m kafkalite`` with these words says."""
    command = [sys.executable, "-m", "kafkalite", *words]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        timeout=120,
    )


def imported(*words: str) -> set[str]:
    """The modules that ``python -m kafkalite`` with these words has imported when it ends."""
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        f"sys.argv = {['kafkalite', *words]!r}\n"
        "from kafkalite.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    return set(done.stderr.split())


def test_version_is_that_of_the_package() -> None:
    assert told("--version").stdout == f"kafkalite {kafkalite.__version__}\n"


@pytest.mark.parametrize(
    "words", [(), ("--help",), ("serve", "--help"), ("config", "--help"), ("dev", "--help")]
)
def test_help_goes_to_stdout(words: tuple[str, ...]) -> None:
    done = told(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.lower().startswith("usage: kafkalite")


@pytest.mark.parametrize(
    ("words", "stderr"),
    [
        (
            ("config", "explain"),
            "error: missing argument 'KEY'\nhint: see `kafkalite config explain --help`.\n",
        ),
        (("servee",), "error: no such command 'servee'\nhint: did you mean 'serve'?\n"),
        (
            ("config", "list", "--jsn"),
            "error: no such option '--jsn'\nhint: did you mean '--json'?\n",
        ),
        (
            ("perf", "produce", "--record-size", "1"),
            "error: no such option '--record-size'\nhint: did you mean '--records', '--size'?\n",
        ),
    ],
)
def test_wrong_words_exit_with_2_and_a_hint(words: tuple[str, ...], stderr: str) -> None:
    done = told(*words)
    assert (done.returncode, done.stderr) == (2, stderr)


@pytest.mark.parametrize("environment", [{}, {"KAFKALITE_OF_ANOTHER_PROGRAM": "/x"}])
def test_config_show_says_so_where_nothing_is_set(environment: dict[str, str]) -> None:
    done = told("config", "show", **environment)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "every key has its default: --all tells them\n"


def test_config_list_tells_keys_of_brokers_and_topics() -> None:
    lines = told("config", "list").stdout.splitlines()
    assert "  offsets.topic.replication.factor (short, 3)" in lines
    assert "  retention.ms (long, the broker's log.retention.ms)" in lines
    rows = json.loads(told("config", "list", "--json").stdout)
    levels = {row["level"] for row in rows}
    assert levels == {
        "broker",
        "topic",
        "every client",
        "consumer and admin",
        "producer",
        "consumer",
    }
    assert "  linger.ms (long, 5)" in lines


@pytest.mark.parametrize(
    ("key", "exit_code", "stderr"),
    [
        ("retention.ms", 0, ""),
        (
            "retention.msx",
            5,
            "error: unknown key retention.msx\nhint: did you mean retention.ms?\n",
        ),
    ],
)
def test_config_explain_tells_one_key(key: str, exit_code: int, stderr: str) -> None:
    done = told("config", "explain", key)
    assert (done.returncode, done.stderr) == (exit_code, stderr)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("linger_ms", "linger.ms"),
        ("KAFKALITE_LOG_SEGMENT_BYTES", "log.segment.bytes"),
        ("KAFKALITE_ADMIN_PORT", "kafkalite.admin.port"),
        ("kafkalite_admin_port", "kafkalite.admin.port"),
        ("Num.Partitions", "num.partitions"),
    ],
)
def test_a_keyword_or_a_variable_is_explained_by_the_name_of_its_key(given: str, name: str) -> None:
    (row,) = json.loads(told("config", "explain", given, "--json").stdout)
    assert row["name"] == name


def test_explaining_a_key_tells_unit_range_default_and_synonyms() -> None:
    lines = told("config", "explain", "retention.ms").stdout.splitlines()
    for line in [
        "retention.ms (topic)",
        "  type: long",
        "  unit: ms",
        "  valid: [-1,...]",
        "  the first of these that is set: log.retention.ms, log.retention.minutes, "
        "log.retention.hours",
    ]:
        assert line in lines


def test_config_show_tells_who_said_what() -> None:
    words = ("--profile", "dev", "--set", "num.partitions=3", "--set", "zookeeper.connect=z")
    environment = {"KAFKALITE_LOG_SEGMENT_BYTES": "1048576"}
    rows = json.loads(told("config", "show", "--json", *words, **environment).stdout)
    origins = {row["key"]: (row["value"], row["origin"]) for row in rows}
    assert origins["num.partitions"] == ("3", "--set")
    assert origins["log.segment.bytes"] == ("1048576", "environment KAFKALITE_LOG_SEGMENT_BYTES")
    assert origins["auto.create.topics.enable"] == ("true", "--profile dev")
    assert origins["zookeeper.connect"] == (None, "--set (not used here)")
    lines = told("config", "show", *words).stdout.splitlines()
    assert "num.partitions=3" in lines
    refused = told("config", "show", "--set", "num.partitons=3")
    assert (refused.returncode, refused.stderr.splitlines()[-1]) == (
        2,
        "hint: did you mean num.partitions?",
    )


def test_config_show_asks_a_broker_that_runs(processes: Processes) -> None:
    process = processes.serve("--set", "num.partitions=3")
    where = ("config", "show", "--bootstrap-server", process.ready)
    rows = {row["key"]: row for row in json.loads(told(*where, "--json").stdout)}
    assert rows["num.partitions"] == {
        "key": "num.partitions",
        "value": "3",
        "origin": "its start",
    }
    assert "num.io.threads" not in rows
    everything = json.loads(told(*where, "--all", "--json").stdout)
    origins = {row["key"]: row["origin"] for row in everything}
    assert origins["num.io.threads"] == "default"
    with kafkalite.AdminClient(bootstrap_servers=process.ready) as admin:
        brokers = kafkalite.ConfigResource("broker", "")
        admin.alter_configs({brokers: {"log.retention.ms": 60_000}})
    assert "log.retention.ms=60000" in told(*where).stdout.splitlines()
    changed = json.loads(told(*where, "--json").stdout)
    assert ("log.retention.ms", "set while it runs, for all brokers") in [
        (row["key"], row["origin"]) for row in changed
    ]


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("--broker", "1"), 2),
        (("-b", "127.0.0.1:1", "--set", "num.partitions=3"), 2),
        (("-b", "127.0.0.1:1", "-X", "kafkalite.bootstrap.timeout.ms=50"), 3),
    ],
)
def test_config_show_refuses_what_cannot_be_asked(words: tuple[str, ...], exit_code: int) -> None:
    assert told("config", "show", *words).returncode == exit_code


def test_config_show_tells_which_brokers_there_are(broker: Process) -> None:
    done = told("config", "show", "-b", broker.ready, "--broker", "77")
    assert (done.returncode, done.stderr.splitlines()[0]) == (5, "error: no broker 77")


def on_a_terminal(*words: str, **environment: str) -> str:
    """What ``python -m kafkalite`` with these words writes to a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "kafkalite", *words]
    variables = {**os.environ, "TERM": "xterm", "COLUMNS": "200", **environment}
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=variables)
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 1 << 16):
            written += part
    except OSError:
        pass  # Linux says so that the other end is closed.
    os.close(ours)
    assert child.wait() == 0
    return written.decode()


def test_colours_are_for_terminals_that_want_them() -> None:
    words = ("config", "show", "--origin", "--profile", "dev")
    assert "\x1b[" in on_a_terminal(*words)
    plain = on_a_terminal(*words, NO_COLOR="1")
    assert "\x1b[" not in plain
    assert plain.replace("\r\n", "\n") == told(*words).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_writes_a_script(shell: str) -> None:
    done = told("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_KAFKALITE_COMPLETE" in done.stdout


def completed(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The words that a shell gets for the last of these words."""
    asked = {
        "_KAFKALITE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    return told(**asked, **environment)


@pytest.mark.parametrize(
    ("words", "expected"),
    [("kafkalite con", "config"), ("kafkalite config explain retention.m", "retention.ms")],
)
def test_completion_finds_commands_and_keys(words: str, expected: str) -> None:
    assert f"plain,{expected}" in completed(words).stdout.splitlines()


def suggested(words: str, **environment: str) -> list[str]:
    """What the cluster suggests, which has half a second to answer: asked for until it does."""
    deadline = time.monotonic() + PATIENCE_S
    while not (lines := completed(words, **environment).stdout.splitlines()):
        assert time.monotonic() < deadline
    return lines


def test_completion_finds_topics_and_groups_of_the_cluster(broker: Process) -> None:
    prefix = f"completed-{uuid.uuid4().hex[:8]}"
    with kafkalite.AdminClient(bootstrap_servers=broker.ready) as admin:
        for number in (1, 2):
            admin.create_topic(f"{prefix}-{number}")
        admin.alter_group_offsets(f"{prefix}-group", {(f"{prefix}-1", 0): 0})
    words = f"kafkalite topics describe -b {broker.ready} {prefix}-2 {prefix}"
    assert suggested(words) == [f"plain,{prefix}-1"]
    by_variable = suggested(f"kafkalite consume {prefix}", KAFKALITE_BOOTSTRAP_SERVERS=broker.ready)
    assert by_variable == [f"plain,{prefix}-{number}" for number in (1, 2)]
    words = f"kafkalite groups lag -b {broker.ready} {prefix}"
    assert suggested(words) == [f"plain,{prefix}-group"]


def test_completion_says_nothing_without_a_broker() -> None:
    done = completed("kafkalite topics describe -b 127.0.0.1:1 t")
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_an_answer_that_is_not_read_to_its_end_is_no_failure() -> None:
    command = f"{sys.executable} -m kafkalite config list | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("broker:\n", "")


@pytest.mark.parametrize(
    "words", ["topics list --help", "--version", "serve --help", "config list --json"]
)
def test_a_pipe_that_is_closed_already_is_no_failure(words: str) -> None:
    """click ends the process with 1 where a write meets a closed pipe; `head` may close early."""
    command = f"set -o pipefail; {sys.executable} -m kafkalite {words} | true"
    for unbuffered in ("", "1"):
        environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, env=environment, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", ["config list", "--help", "--version", "serve --help"])
def test_a_full_disk_is_an_error_of_one_line(words: str) -> None:
    """`> /dev/full` ended in a traceback, or in no word at all."""
    command = f"{sys.executable} -m kafkalite {words} > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "no space left on device" in done.stderr.lower()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_a_stream_that_is_closed_is_as_good_as_an_empty_one(closed: str) -> None:
    for words, code in (("config list", 0), ("config explain nothing", 5)):
        command = f"{sys.executable} -m kafkalite {words} {closed}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False)


def test_serve_and_version_import_nothing_but_the_binary() -> None:
    bare = subprocess.run(
        [sys.executable, "-c", "import atexit, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    expected = {"kafkalite", "kafkalite.__main__", "kafkalite._native"}
    for words in [("serve", "--help"), ("--version",)]:
        ours = imported(*words) - set(bare.stdout.split())
        assert ours - {"__future__", "signal", "_signal"} == expected


@pytest.mark.parametrize("words", [("config", "list"), ("config", "show"), ("--help",)])
def test_a_command_imports_what_it_needs_alone(words: tuple[str, ...]) -> None:
    modules = imported(*words)
    assert "click" in modules
    assert not modules & {"rich", "asyncio", "logging", "kafkalite.producer"}


def test_public_names_are_sorted_and_exist() -> None:
    assert list(kafkalite.__all__) == sorted(kafkalite.__all__)
    for name in kafkalite.__all__:
        assert getattr(kafkalite, name) is not None
    with pytest.raises(AttributeError):
        _ = kafkalite.nothing
