"""``kafkalite config``: the table of keys, and what a broker would make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from ..config_table import ClientKey, ConfigKey, client_keys, keys, nearest, origins
from ..descriptions import ConfigResource
from . import suggesting
from .answers import answer_json, answer_table, json_option, say
from .connecting import Cluster, changes_of, cluster_options, running_options
from .failures import CommandError, ExitCode
from .helping import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

    from ..config_table import ConfigOrigin

_CHANGES = {
    "start": "when the broker starts",
    "broker": "while it runs, one broker at a time",
    "cluster": "while it runs, one broker or all",
}

#: How a broker that runs came to a value.
_ORIGINS = {
    "file": "its start",
    "broker": "set while it runs, for this broker",
    "brokers": "set while it runs, for all brokers",
}


class Setting(NamedTuple):
    """A key of a broker that runs, told as that of one that would be started."""

    key: str
    value: str | None
    origin: str
    known: bool = True


@click.group(
    "config",
    epilog=examples("kafkalite config explain retention.ms", "kafkalite config show --origin"),
)
def command() -> None:
    """Show the keys of brokers, topics and clients, and change them."""


@command.command(
    "list",
    epilog=examples(
        "kafkalite config list",
        "kafkalite config list --json",
    ),
)
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


@command.command(
    "explain",
    epilog=examples(
        "kafkalite config explain retention.ms",
        "kafkalite config explain KAFKALITE_LOG_SEGMENT_BYTES",
    ),
)
@click.argument("key", shell_complete=_complete)
@json_option
def explain(key: str, as_json: bool) -> None:
    """Show type, default, range and meaning of one key.

    KEY may also be a Python keyword (linger_ms) or an environment variable
    (KAFKALITE_LOG_SEGMENT_BYTES).
    """
    known = {row.name for row in _everything()}
    name = _real_name(key, known)
    found = [row for row in _everything() if row.name == name]
    if not found:
        meant = nearest(name, sorted(known))
        hint = f"did you mean {meant}?" if meant else "`kafkalite config list` lists the keys."
        raise CommandError(f"unknown key {key}", hint=hint, exit_code=ExitCode.NOT_FOUND)
    if as_json:
        return answer_json([_row(row) for row in found])
    for row in found:
        _paragraph(row)
    return None


def _real_name(given: str, known: set[str]) -> str:
    """Return the key of a keyword (``linger_ms``) or a variable (``KAFKALITE_LOG_DIRS``)."""
    dotted = given.lower().replace("_", ".") if given not in known else given
    short = dotted.removeprefix("kafkalite.")
    return short if dotted not in known and short in known else dotted


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
    "--profile dev and so on.\n\n"
    + examples(
        "kafkalite config show --origin --set num.partitions=4",
        "kafkalite config show --config server.properties --all --json",
        "kafkalite config show -b localhost:9092 --origin",
    ),
)
@click.option("--origin", is_flag=True, help="Show the place that each value comes from.")
@click.option("--all", "everything", is_flag=True, help="Show defaults too.")
@click.option("--broker", type=int, help="Id of the broker to query.")
@json_option
@running_options
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def show(
    cluster: Cluster | None,
    origin: bool,
    everything: bool,
    broker: int | None,
    as_json: bool,
    flags: tuple[str, ...],
) -> None:
    """Show the configuration that a broker would have with these flags.

    With -b HOST:PORT, show the configuration of a running broker and the source of each value.
    """
    if cluster is None:
        if broker is not None:
            raise click.UsageError("--broker is one that runs: say where with -b HOST:PORT")
        found: Sequence[ConfigOrigin | Setting] = origins(flags)
    else:
        if flags:
            raise click.UsageError(f"what runs there has its flags already: {' '.join(flags)}")
        found = _running(cluster, broker)
    rows = [row for row in found if everything or row.origin != "default"]
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
    known = [row for row in rows if row.known]
    if not known:
        click.echo("every key has its default: --all tells them", err=True)
    for row in known:
        click.echo(f"{row.key}={'' if row.value is None else row.value}")
    return None


def _running(cluster: Cluster, broker: int | None) -> list[Setting]:
    """Ask a broker, the only one or the one with this id."""
    with cluster.admin() as admin:
        ids = [one.id for one in admin.describe_cluster(timeout=cluster.timeout).brokers]
        if broker is None and len(ids) > 1:
            raise click.UsageError(f"there are brokers {ids}: say which with --broker ID")
        if broker is not None and broker not in ids:
            hint = f"there is {', '.join(map(str, ids))}."
            raise CommandError(f"no broker {broker}", hint=hint, exit_code=ExitCode.NOT_FOUND)
        entries = admin.describe_broker_config(
            ids[0] if broker is None else broker, timeout=cluster.timeout
        )
    return [
        Setting(entry.name, entry.value, _ORIGINS.get(entry.source, entry.source))
        for entry in entries.values()
    ]


@command.command(
    "alter",
    epilog=examples(
        "kafkalite config alter --topic orders retention.ms=3600000",
        "kafkalite config alter --topic orders --unset retention.ms",
        "kafkalite config alter --broker 1 log.cleaner.threads=2",
        "kafkalite config alter --all-brokers max.connections=1000 --dry-run",
    ),
)
@click.argument("pairs", nargs=-1, metavar="KEY=VALUE...")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    shell_complete=suggesting.topics,
    help="Topic to change (repeatable).",
)
@click.option(
    "--broker", "brokers", type=int, multiple=True, help="Id of a broker to change (repeatable)."
)
@click.option("--all-brokers", is_flag=True, help="Change the default of all brokers.")
@click.option(
    "--unset", multiple=True, metavar="KEY", help="Key to reset to its default (repeatable)."
)
@click.option("--dry-run", is_flag=True, help="Check the change without applying it.")
@json_option
@cluster_options
def alter(
    cluster: Cluster,
    pairs: tuple[str, ...],
    topics: tuple[str, ...],
    brokers: tuple[int, ...],
    all_brokers: bool,
    unset: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Change keys of topics or running brokers. Other keys keep their values."""
    changes = changes_of(pairs, "KEY=VALUE", unset)
    if not changes:
        raise click.UsageError("nothing to change: give KEY=VALUE or --unset KEY")
    resources = [ConfigResource("topic", name) for name in topics]
    resources += [ConfigResource("broker", str(broker)) for broker in brokers]
    resources += [ConfigResource("broker", "")] if all_brokers else []
    if not resources:
        raise click.UsageError(
            "no topic and no broker: give --topic NAME, --broker ID or --all-brokers"
        )
    with cluster.admin() as admin:
        by_resource = dict.fromkeys(resources, changes)
        admin.alter_configs(by_resource, validate_only=dry_run, timeout=cluster.timeout)
    if as_json:
        told = [{"kind": one.kind, "name": one.name, "changed": changes} for one in resources]
        return answer_json([row | {"dry_run": dry_run} for row in told])
    for one in resources:
        name = f"{one.kind} {one.name}" if one.name else "the default of all brokers"
        say(f"{name} {'could be' if dry_run else 'is'} changed")
    return None
