"""``kafkalite config``: the table of keys, and what a broker would make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..config_table import ClientKey, ConfigKey, client_keys, keys, nearest, origins
from .answers import answer_json, answer_table, json_option
from .failures import CommandError, ExitCode

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_CHANGES = {
    "start": "when the broker starts",
    "broker": "while it runs, one broker at a time",
    "cluster": "while it runs, one broker or all",
}


@click.group("config")
def command() -> None:
    """Tell about the keys of brokers, topics and clients."""


@command.command("list")
@json_option
def list_keys(as_json: bool) -> None:
    """List every key with its type, default and meaning."""
    if as_json:
        return answer_json([_row(key) for key in _everything()])
    level = ""
    for key in _everything():
        if key.level != level:
            level = key.level
            click.echo(f"{level}:")
        click.echo(f"  {key.name} ({key.kind}, {_default(key)})\n      {key.doc}")
    return None


def _everything() -> list[ConfigKey | ClientKey]:
    return [*keys(), *sorted(client_keys(), key=lambda key: key.level)]


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    known = {key.name: key.doc for key in _everything() if key.name.startswith(incomplete)}
    return [CompletionItem(name, help=doc) for name, doc in sorted(known.items())]


@command.command("explain")
@click.argument("key", shell_complete=_complete)
@json_option
def explain(key: str, as_json: bool) -> None:
    """Tell all there is to know about one key."""
    found = [row for row in _everything() if row.name == key]
    if not found:
        meant = nearest(key, [row.name for row in _everything()])
        hint = f"did you mean {meant}?" if meant else "`kafkalite config list` lists the keys."
        raise CommandError(f"unknown key {key}", hint=hint, exit_code=ExitCode.NOT_FOUND)
    if as_json:
        return answer_json([_row(row) for row in found])
    for row in found:
        _paragraph(row)
    return None


def _paragraph(key: ConfigKey | ClientKey) -> None:
    click.echo(f"{key.name} ({key.level})\n  {key.doc}\n  type: {key.kind}")
    facts = [("valid", key.valid), ("default", _default(key))]
    if isinstance(key, ConfigKey):
        changes = "while the broker runs" if key.level == "topic" else _CHANGES[key.changes]
        facts = [("unit", key.unit), *facts, ("changes", changes)]
    for label, text in facts:
        if text:
            click.echo(f"  {label}: {text}")
    if isinstance(key, ConfigKey) and key.synonyms:
        click.echo(f"  the first of these that is set: {', '.join(key.synonyms)}")


def _default(key: ConfigKey | ClientKey) -> str:
    if isinstance(key, ConfigKey) and key.synonyms:
        return f"the broker's {key.synonyms[0]}"
    if key.default is None:
        return "unset"
    if isinstance(key, ConfigKey) and key.by_machine:
        return f"{key.default} on this machine"
    return key.default or "empty"


def _row(key: ConfigKey | ClientKey) -> dict[str, object]:
    if isinstance(key, ClientKey):
        return key._asdict() | {"level": key.level}
    names: tuple[str, ...] = ("name", "level", "kind", "default", "by_machine", "valid", "unit")
    names += ("importance", "changes", "doc", "synonyms")
    return {name: getattr(key, name) for name in names}


@command.command(
    "show",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    epilog="The flags are those of `kafkalite serve`: --config FILE, --set KEY=VALUE, "
    "--profile dev and so on.",
)
@click.option("--origin", is_flag=True, help="Tell where each value was said.")
@click.option("--all", "everything", is_flag=True, help="Tell defaults as well.")
@json_option
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def show(origin: bool, everything: bool, as_json: bool, flags: tuple[str, ...]) -> None:
    """Tell what a broker started with these flags, here, would run with."""
    rows = [row for row in origins(flags) if everything or row.origin != "default"]
    if as_json or origin:
        told: list[dict[str, object]] = [
            {
                "key": row.key,
                "value": row.value,
                "origin": row.origin if row.known else f"{row.origin} (not used here)",
            }
            for row in rows
        ]
        return answer_table(told, ["key", "value", "origin"], as_json=as_json)
    for row in rows:
        if row.known:
            click.echo(f"{row.key}={'' if row.value is None else row.value}")
    return None
