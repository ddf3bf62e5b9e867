"""``kafkalite context``: clusters that have a name."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tests.harness.process import Process
from tests.unit.test_command_line import completed, told


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has saved no context."""
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def saved(home: dict[str, str]) -> Path:
    """The file of the contexts."""
    return Path(home["XDG_CONFIG_HOME"]) / "kafkalite" / "contexts.json"


def test_the_current_context_says_where_the_cluster_is(
    broker: Process, home: dict[str, str]
) -> None:
    assert told("context", "add", "here", broker.ready, **home).returncode == 0
    assert told("context", "use", "here", **home).stderr == "using context here\n"
    info = json.loads(told("cluster", "info", "--json", **home).stdout)
    assert [one["address"] for one in info["brokers"]] == [broker.ready]
    assert told("doctor", **home).returncode == 0


def test_a_context_is_used_once_by_its_name(broker: Process, home: dict[str, str]) -> None:
    told("context", "add", "here", broker.ready, **home)
    told("context", "add", "nowhere", "127.0.0.1:1", "--use", **home)
    assert told("topics", "list", "--context", "here", **home).returncode == 0


@pytest.mark.parametrize("source", ["option", "variable"])
def test_an_address_is_stronger_than_the_current_context(
    broker: Process, home: dict[str, str], source: str
) -> None:
    told("context", "add", "nowhere", "127.0.0.1:1", "--use", **home)
    words = ("-b", broker.ready) if source == "option" else ()
    variables = {"KAFKALITE_BOOTSTRAP_SERVERS": broker.ready} if source == "variable" else {}
    assert told("topics", "list", *words, **home, **variables).returncode == 0


def test_client_keys_are_saved_with_the_addresses(home: dict[str, str]) -> None:
    told("context", "add", "odd", "127.0.0.1:1", "-X", "lingerms=1", "--use", **home)
    done = told("topics", "list", **home)
    assert (done.returncode, "lingerms" in done.stderr) == (2, True)


def test_contexts_are_listed_with_the_current_one(home: dict[str, str]) -> None:
    told("context", "add", "b", "b:9092", **home)
    told("context", "add", "a", "a:9092,a:9093", "--use", **home)
    rows = json.loads(told("context", "list", "--json", **home).stdout)
    assert [(row["context"], row["current"]) for row in rows] == [("a", True), ("b", False)]
    assert (
        told("context", "list", **home).stdout.splitlines()[1] == "a        yes      a:9092,a:9093"
    )


def test_a_context_is_replaced_when_that_is_said(home: dict[str, str]) -> None:
    told("context", "add", "a", "one:9092", **home)
    refused = told("context", "add", "a", "two:9092", **home)
    assert (refused.returncode, refused.stderr.splitlines()[-1]) == (
        1,
        "hint: --replace replaces it.",
    )
    assert told("context", "add", "a", "two:9092", "--replace", **home).returncode == 0
    (row,) = json.loads(told("context", "list", "--json", **home).stdout)
    assert row["bootstrap_servers"] == "two:9092"


def test_the_addresses_are_given_with_or_without_the_option_of_other_commands(
    home: dict[str, str],
) -> None:
    """The option was unknown to this command alone."""
    for option in ("-b", "--bootstrap-servers", "--bootstrap-server"):
        done = told("context", "add", "a", option, "one:9092", "--replace", **home)
        assert done.returncode == 0, done.stderr
    (row,) = json.loads(told("context", "list", "--json", **home).stdout)
    assert row["bootstrap_servers"] == "one:9092"
    twice = told("context", "add", "b", "one:9092", "-b", "two:9092", **home)
    assert (twice.returncode, "give the addresses once" in twice.stderr) == (2, True)
    never = told("context", "add", "b", **home)
    assert (never.returncode, "no address is given" in never.stderr) == (2, True)
    # What the environment says is for commands that ask a cluster.
    silent = told("context", "add", "b", **home, KAFKALITE_BOOTSTRAP_SERVERS="one:9092")
    assert silent.returncode == 2


def test_the_context_that_is_removed_is_not_the_current_one_any_more(home: dict[str, str]) -> None:
    told("context", "add", "a", "one:9092", "--use", **home)
    assert told("context", "remove", "a", **home).returncode == 0
    assert json.loads(saved(home).read_text()) == {"current": None, "contexts": {}}


@pytest.mark.parametrize("words", [("use", "stagin"), ("remove", "stagin")])
def test_a_mistyped_context_gets_a_hint_at_the_one_that_was_meant(
    home: dict[str, str], words: tuple[str, ...]
) -> None:
    told("context", "add", "staging", "one:9092", **home)
    done = told("context", *words, **home)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (5, "hint: did you mean staging?")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"current": 5, "contexts": {"a": 1}}', "\x00"])
def test_a_file_that_is_damaged_is_an_error_and_not_written_over(
    home: dict[str, str], text: str
) -> None:
    saved(home).parent.mkdir()
    saved(home).write_text(text)
    for words in (("topics", "list"), ("context", "add", "a", "b:9092")):
        done = told(*words, **home)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: cannot read the contexts in {saved(home)}\n")
    assert saved(home).read_text() == text
    assert completed("kafkalite topics describe t", **home).stdout.strip() == ""


def test_only_the_user_reads_the_file(home: dict[str, str]) -> None:
    told("context", "add", "a", "one:9092", **home)
    assert stat.S_IMODE(saved(home).stat().st_mode) == 0o600


def test_a_load_is_not_put_on_the_current_context(home: dict[str, str]) -> None:
    told("context", "add", "nowhere", "127.0.0.1:1", "--use", **home)
    done = told("perf", "e2e", "-n", "1", "--json", **home)
    assert (done.returncode, "a broker of its own" in done.stderr) == (0, True)
