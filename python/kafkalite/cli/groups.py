"""``kafkalite groups``: look at consumer groups and move them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from . import suggesting
from .answers import answer_json, answer_table, json_option, say
from .connecting import Cluster, cluster_options, confirm, yes_option
from .failures import CommandError, ExitCode
from .places import Place, PlaceValue
from .topics import expand

if TYPE_CHECKING:
    from ..admin import AdminClient

_ONE_GROUP = click.argument("name", metavar="GROUP", shell_complete=suggesting.groups)
_SOME_GROUPS = click.argument(
    "names", nargs=-1, required=True, metavar="GROUP...", shell_complete=suggesting.groups
)


@click.group("groups")
def command() -> None:
    """Look at consumer groups and move them."""


@command.command("list")
@click.option(
    "--state", "states", multiple=True, help="Only those in this state: Stable, Empty ..."
)
@json_option
@cluster_options
def list_groups(cluster: Cluster, states: tuple[str, ...], as_json: bool) -> None:
    """List the groups of all brokers."""
    with cluster.admin() as admin:
        groups = admin.list_groups(states=states, timeout=cluster.timeout)
    rows = [{"group": group.group_id} | asdict(group) for group in groups]
    answer_table(rows, ["group", "state", "protocol_type", "coordinator"], as_json=as_json)


@command.command("describe")
@_SOME_GROUPS
@json_option
@cluster_options
def describe(cluster: Cluster, names: tuple[str, ...], as_json: bool) -> None:
    """Tell the members of groups and the partitions they have."""
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


@command.command("lag")
@_ONE_GROUP
@json_option
@cluster_options
def lag(cluster: Cluster, name: str, as_json: bool) -> None:
    """Tell how far a group is behind."""
    with cluster.admin() as admin:
        if not admin.list_group_offsets(name, timeout=cluster.timeout):
            # A group that nobody knows has committed nothing: tell the two apart.
            admin.describe_group(name, timeout=cluster.timeout)
        found = admin.group_lag(name, timeout=cluster.timeout)
    rows: list[dict[str, object]] = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "committed": at.committed,
            "start": at.start,
            "end": at.end,
            "lag": at.lag,
        }
        for place, at in sorted(found.items())
    ]
    columns = ["topic", "partition", "committed", "end", "lag"]
    answer_table(rows, columns, as_json=as_json)
    if not as_json:
        say(f"lag in all: {sum(at.lag for at in found.values())}")


@command.command("reset-offsets")
@_ONE_GROUP
@click.option("--to", type=Place(), required=True, help="Offset, -N, earliest, latest, or a time.")
@click.option(
    "--topic",
    "words",
    multiple=True,
    metavar="TOPIC[:PARTITION]",
    shell_complete=suggesting.topics,
    help="By default all that the group committed for.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be committed.")
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
    """Move a group without members to another place."""
    with cluster.admin() as admin:
        before = _committed(admin, name, cluster)
        if not words and not before:
            raise CommandError(
                f"group {name} has committed nothing",
                hint="say where it shall begin: --topic TOPIC, which may be repeated.",
                exit_code=ExitCode.NOT_FOUND,
            )
        places = expand(admin, words, cluster) if words else list(before)
        offsets = to.resolve(admin, places, cluster)
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


def _committed(admin: AdminClient, name: str, cluster: Cluster) -> dict[tuple[str, int], int]:
    found = admin.list_group_offsets(name, timeout=cluster.timeout)
    return {(place.topic, place.partition): at.offset for place, at in found.items()}


@command.command("delete")
@_SOME_GROUPS
@click.option("--missing-ok", is_flag=True, help="It is fine if they do not exist.")
@yes_option
@json_option
@cluster_options
def delete(
    cluster: Cluster, names: tuple[str, ...], missing_ok: bool, yes: bool, as_json: bool
) -> None:
    """Delete groups without members, with what they committed."""
    confirm(f"Delete {', '.join(names)}?", yes)
    with cluster.admin() as admin:
        admin.delete_groups(names, missing_ok=missing_ok, timeout=cluster.timeout)
    if as_json:
        return answer_json({"deleted": list(names)})
    return say(f"deleted {', '.join(names)}")
