"""``kafkalite groups``: look at consumer groups and move them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

import click

from . import suggesting
from .answers import answer_json, answer_table, json_option, plural, say
from .connecting import Cluster, cluster_options, confirm, yes_option
from .failures import CommandError, ExitCode
from .helping import examples
from .places import Place, PlaceValue, within
from .topics import expand
from .volumes import done_of, lag_of
from .watching import repeat, watch_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..admin import AdminClient
    from ..descriptions import PartitionLag
    from ..records import TopicPartition

T = TypeVar("T")

_ONE_GROUP = click.argument("name", metavar="GROUP", shell_complete=suggesting.groups)
_SOME_GROUPS = click.argument(
    "names", nargs=-1, required=True, metavar="GROUP...", shell_complete=suggesting.groups
)


@click.group(
    "groups",
    epilog=examples(
        "kafkalite groups list",
        "kafkalite groups lag billing",
    ),
)
def command() -> None:
    """Show consumer groups and change their offsets."""


@command.command(
    "list", epilog=examples("kafkalite groups list", "kafkalite groups list --state Stable --json")
)
@click.option("--state", "states", multiple=True, help="State of groups to list: Stable, Empty.")
@json_option
@cluster_options
def list_groups(cluster: Cluster, states: tuple[str, ...], as_json: bool) -> None:
    """List groups with their members and total lag."""
    with cluster.admin() as admin:
        groups = admin.list_groups(states=states, timeout=cluster.timeout)
        names = [group.group_id for group in groups]
        lags = _in_parallel(lambda name: lag_of(admin, name, cluster), names)
        described = done_of(lambda: admin.describe_groups(names, timeout=cluster.timeout))
    members = {name: len(group.members) for name, group in described.items()}
    rows = [
        {"group": group.group_id}
        | asdict(group)
        | {"members": members.get(group.group_id), "lag": lags[group.group_id]}
        for group in groups
    ]
    columns = ["group", "state", "members", "lag", "protocol_type", "coordinator"]
    answer_table(rows, columns, as_json=as_json)


def _in_parallel(ask: Callable[[str], T], names: list[str]) -> dict[str, T]:
    """Ask for each group; an admin client takes calls from any thread."""
    # It brings logging along, and the help of all commands needs none.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=8) as pool:
        return dict(zip(names, pool.map(ask, names), strict=True))


@command.command(
    "describe",
    epilog=examples(
        "kafkalite groups describe billing",
    ),
)
@_SOME_GROUPS
@json_option
@cluster_options
def describe(cluster: Cluster, names: tuple[str, ...], as_json: bool) -> None:
    """Show the members of groups and their partitions."""
    with cluster.admin() as admin:
        groups = admin.describe_groups(names, timeout=cluster.timeout)
    if as_json:
        return answer_json([asdict(group) for group in groups.values()])
    for group in groups.values():
        click.echo(
            f"{group.group_id}  {group.state}  {group.protocol or 'no protocol'}  "
            f"coordinator {group.coordinator}"
        )
        rows = [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": [str(place) for place in member.assignment],
            }
            for member in group.members
        ]
        if rows:
            columns = ["member", "instance", "client", "host", "partitions"]
            answer_table(rows, columns, as_json=False)
    return None


@command.command(
    "lag", epilog=examples("kafkalite groups lag billing", "kafkalite groups lag --all --watch")
)
@click.argument("name", metavar="[GROUP]", required=False, shell_complete=suggesting.groups)
@click.option("--all", "everything", is_flag=True, help="Show the lag of every group.")
@watch_options
@json_option
@cluster_options
def lag(
    cluster: Cluster,
    name: str | None,
    everything: bool,
    watch: bool,
    interval: float,
    as_json: bool,
) -> None:
    """Show the lag of a group by partition."""
    if everything == (name is not None):
        raise click.UsageError("give the name of a group, or --all")
    with cluster.admin() as admin:

        def look() -> list[dict[str, object]]:
            if name is not None:
                return _lag_of_one(admin, name, cluster)
            groups = [group.group_id for group in admin.list_groups(timeout=cluster.timeout)]
            found = _in_parallel(lambda group: _lag(admin, group, cluster), groups)
            return [row for rows in found.values() for row in rows]

        def show(rows: list[dict[str, object]], *_: object) -> None:
            columns = ["topic", "partition", "committed", "end", "lag"]
            answer_table(rows, ["group", *columns] if everything else columns, as_json=as_json)
            if not as_json:
                total = sum(int(str(row["lag"])) for row in rows)
                say(f"total lag: {plural(total, 'record')}")

        repeat(look, show, watch=watch, interval=interval)


def _lag_of_one(admin: AdminClient, name: str, cluster: Cluster) -> list[dict[str, object]]:
    if not admin.list_group_offsets(name, timeout=cluster.timeout):
        # A group that does not exist has committed nothing either: tell the two apart.
        admin.describe_group(name, timeout=cluster.timeout)
    return _rows_of_lag(name, admin.group_lag(name, timeout=cluster.timeout))


def _lag(admin: AdminClient, name: str, cluster: Cluster) -> list[dict[str, object]]:
    return _rows_of_lag(name, done_of(lambda: admin.group_lag(name, timeout=cluster.timeout)))


def _rows_of_lag(
    name: str, found: Mapping[TopicPartition, PartitionLag]
) -> list[dict[str, object]]:
    return [
        {
            "group": name,
            "topic": place.topic,
            "partition": place.partition,
            "committed": at.committed,
            "start": at.start,
            "end": at.end,
            "lag": at.lag,
        }
        for place, at in sorted(found.items())
    ]


@command.command(
    "reset-offsets",
    epilog=examples(
        "kafkalite groups reset-offsets billing --to earliest --dry-run",
        "kafkalite groups reset-offsets billing --to 2h --topic orders --yes",
    ),
)
@_ONE_GROUP
@click.option("--to", type=Place(), required=True, help="Offset, -N, earliest, latest, or time.")
@click.option(
    "--topic",
    "words",
    multiple=True,
    metavar="TOPIC[:PARTITION]",
    shell_complete=suggesting.topics,
    help="Topic to reset (repeatable). Default: every topic with a committed offset.",
)
@click.option("--dry-run", is_flag=True, help="Show the new offsets without committing them.")
@yes_option
@json_option
@cluster_options
def reset_offsets(
    cluster: Cluster,
    name: str,
    to: PlaceValue,
    words: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Set the committed offsets of a group without members."""
    with cluster.admin() as admin:
        before = _committed(admin, name, cluster)
        if not words and not before:
            raise CommandError(
                f"group {name} has committed nothing",
                hint="name the topics: --topic TOPIC (repeatable).",
                exit_code=ExitCode.NOT_FOUND,
            )
        places = expand(admin, words, cluster) if words else list(before)
        wanted = to.resolve(admin, places, cluster)
        offsets = within(admin, wanted, cluster)
        _say_what_lies_outside(wanted, offsets)
        if offsets and not dry_run:
            confirm(f"Move {name} to {to} on {len(offsets)} partitions?", yes)
            admin.alter_group_offsets(name, offsets, timeout=cluster.timeout)
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "before": before.get((topic, partition)),
            "after": offset,
        }
        for (topic, partition), offset in sorted(offsets.items())
    ]
    answer_table(rows, ["topic", "partition", "before", "after"], as_json=as_json)
    if dry_run:
        say("nothing was changed (--dry-run)")


def _say_what_lies_outside(
    wanted: dict[tuple[str, int], int], taken: dict[tuple[str, int], int]
) -> None:
    for (topic, partition), offset in sorted(wanted.items()):
        at = taken[topic, partition]
        if at != offset:
            side = "behind the end" if at < offset else "before the start"
            say(f"{topic}-{partition}: offset {offset} is {side}; taking {at}")


def _committed(admin: AdminClient, name: str, cluster: Cluster) -> dict[tuple[str, int], int]:
    found = admin.list_group_offsets(name, timeout=cluster.timeout)
    return {(place.topic, place.partition): at.offset for place, at in found.items()}


@command.command(
    "delete",
    epilog=examples(
        "kafkalite groups delete billing", "kafkalite groups delete billing --yes --missing-ok"
    ),
)
@_SOME_GROUPS
@click.option("--missing-ok", is_flag=True, help="Do not fail if a group does not exist.")
@yes_option
@json_option
@cluster_options
def delete(
    cluster: Cluster, names: tuple[str, ...], missing_ok: bool, yes: bool, as_json: bool
) -> None:
    """Delete groups without members, and their committed offsets."""
    confirm(f"Delete {', '.join(names)}?", yes)
    with cluster.admin() as admin:
        admin.delete_groups(names, missing_ok=missing_ok, timeout=cluster.timeout)
    if as_json:
        return answer_json({"deleted": list(names)})
    return say(f"deleted {', '.join(names)}")
