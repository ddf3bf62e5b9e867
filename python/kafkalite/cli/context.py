"""``kafkalite context``: clusters that have a name."""

from __future__ import annotations

import click

from . import contexts
from .answers import answer_json, answer_table, json_option, say
from .connecting import key_values
from .failures import CommandError
from .helping import examples

_NAME = click.argument("name", metavar="NAME")


@click.group(
    "context",
    epilog=examples(
        "kafkalite context add staging broker.example.com:9092",
        "kafkalite context use staging",
        "kafkalite topics list --context staging",
    ),
)
def command() -> None:
    """Save the addresses of clusters under names.

    Commands use the current context, unless you give -b, --context or
    KAFKALITE_BOOTSTRAP_SERVERS.
    """


@command.command(
    "add",
    epilog=examples(
        "kafkalite context add local localhost:9092 --use",
        "kafkalite context add staging b1:9092,b2:9092 -X client.id=me",
    ),
)
@_NAME
@click.argument("servers", metavar="HOST:PORT,...", required=False)
@click.option(
    "-b",
    "--bootstrap-servers",
    "--bootstrap-server",
    "also_servers",
    metavar="HOST:PORT,...",
    help="The addresses, as other commands take them.",
)
@click.option(
    "-X",
    "--client-config",
    "client_pairs",
    metavar="KEY=VALUE",
    multiple=True,
    help="Client key to save with the addresses (repeatable).",
)
@click.option("--use", is_flag=True, help="Make the new context the current one.")
@click.option("--replace", is_flag=True, help="Replace a context of this name.")
@json_option
def add(
    name: str,
    servers: str | None,
    also_servers: str | None,
    client_pairs: tuple[str, ...],
    use: bool,
    replace: bool,
    as_json: bool,
) -> None:
    """Save the addresses of a cluster under a name."""
    if not name.strip() or not name.isprintable():
        raise click.BadParameter(f"{name!r} is not a name", param_hint="NAME")
    if servers is not None and also_servers is not None:
        raise click.UsageError("give the addresses once: after NAME, or with -b")
    servers = also_servers if servers is None else servers
    if servers is None or not servers.strip():
        raise click.BadParameter("no address is given", param_hint="HOST:PORT,...")
    found = contexts.load()
    if name in found.contexts and not replace:
        raise CommandError(
            f"context {name} exists",
            why=[f"it is {found.contexts[name].bootstrap_servers}"],
            hint="--replace replaces it.",
        )
    # What is not UTF-8 cannot be written to the file.
    (name + servers).encode()
    found.contexts[name] = contexts.Context(servers, key_values(client_pairs, "--client-config"))
    found.current = name if use else found.current
    found.save()
    if as_json:
        return answer_json({"context": name, "bootstrap_servers": servers, "current": use})
    if use:
        return say(f"context {name} is saved and is the current one")
    return say(f"context {name} is saved; `kafkalite context use {name}` makes it the current one")


@command.command(
    "use", epilog=examples("kafkalite context use staging", "kafkalite context use --none")
)
@click.argument("name", metavar="NAME", required=False)
@click.option("--none", "none", is_flag=True, help="Use the default address instead of a context.")
@json_option
def use(name: str | None, none: bool, as_json: bool) -> None:
    """Make a context the current one."""
    if none == (name is not None):
        raise click.UsageError("give the name of a context, or --none")
    found = contexts.load()
    if name is not None:
        found.named(name)
    found.current = name
    found.save()
    if as_json:
        return answer_json({"current": name})
    return say("using no context" if name is None else f"using context {name}")


@command.command("list", epilog=examples("kafkalite context list", "kafkalite context list --json"))
@json_option
def list_contexts(as_json: bool) -> None:
    """List the contexts."""
    found = contexts.load()
    rows = [
        {
            "context": name,
            "current": name == found.current,
            "bootstrap_servers": context.bootstrap_servers,
            "client_config": context.client_config,
        }
        for name, context in sorted(found.contexts.items())
    ]
    if not rows and not as_json:
        return say("no contexts; `kafkalite context add NAME HOST:PORT` saves one")
    return answer_table(rows, ["context", "current", "bootstrap_servers"], as_json=as_json)


@command.command("remove", epilog=examples("kafkalite context remove staging"))
@_NAME
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove a saved context. The cluster does not change."""
    found = contexts.load()
    found.named(name)
    del found.contexts[name]
    found.current = None if found.current == name else found.current
    found.save()
    if as_json:
        return answer_json({"removed": name})
    return say(f"context {name} is removed")
