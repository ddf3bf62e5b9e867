"""``kafkalite cluster move-log-dir``: in which directory of its broker a replica is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from . import suggesting
from .answers import answer_table, json_option, plural, say
from .connecting import Cluster, cluster_options
from .failures import CommandError, ExitCode
from .helping import examples
from .places import Seconds
from .topics import expand

if TYPE_CHECKING:
    from ..admin import AdminClient

    Rows = list[dict[str, object]]

#: Between two looks at replicas that move, in seconds.
_LOOK_S = 0.2


@click.command(
    "move-log-dir",
    epilog=examples(
        "kafkalite cluster move-log-dir orders:0 --broker 1 --to /disk2/kafka --wait 600",
        "kafkalite cluster move-log-dir orders --broker 1",
    ),
)
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="TOPIC[:PARTITION]...",
    shell_complete=suggesting.topics,
)
@click.option(
    "--broker",
    type=click.IntRange(0, 2**31 - 1),
    required=True,
    help="Id of the broker that has the replicas.",
)
@click.option("--to", "path", help="The directory, as the broker spells it. Default: only show.")
@click.option("--wait", "wait_s", type=Seconds(), help="Wait so many seconds until all is moved.")
@json_option
@cluster_options
def move_log_dir(
    cluster: Cluster,
    words: tuple[str, ...],
    broker: int,
    path: str | None,
    wait_s: float | None,
    as_json: bool,
) -> None:
    """Move replicas into another log directory of their broker, which serves on.

    The directory that a replica is in ends a move of it. Without --to, shows where replicas are and
    where they move.
    """
    if wait_s is not None and path is None:
        raise click.UsageError("--wait wants --to")
    with cluster.admin() as admin:
        places = expand(admin, words, cluster)
        if path is not None:
            targets = {(topic, number, broker): path for topic, number in places}
            admin.alter_replica_log_dirs(targets, timeout=cluster.timeout)
        rows = _rows(admin, places, broker, cluster)
        deadline = time.monotonic() + (wait_s or 0.0)
        while wait_s is not None and any(row["to"] for row in rows):
            if time.monotonic() >= deadline:
                raise CommandError(
                    f"{plural(sum(bool(row['to']) for row in rows), 'replica')} still move"
                    f" after {wait_s:g} s",
                    hint="they move on; the same command without --to shows them.",
                    exit_code=ExitCode.PARTLY,
                )
            time.sleep(_LOOK_S)
            rows = _rows(admin, places, broker, cluster)
    answer_table(rows, ["topic", "partition", "directory", "to", "lag"], as_json=as_json)
    if not as_json and any(row["to"] for row in rows):
        say("the same command without --to shows what still moves")


def _rows(admin: AdminClient, places: list[tuple[str, int]], broker: int, cluster: Cluster) -> Rows:
    """Where the replicas of a broker are, and where they move; offsets that the copy lacks."""
    at: dict[tuple[str, int], str] = {}
    to: dict[tuple[str, int], tuple[str, int]] = {}
    for directory in admin.describe_log_dirs([broker], timeout=cluster.timeout)[broker]:
        for replica in directory.replicas:
            place = (replica.partition.topic, replica.partition.partition)
            if replica.future:
                to[place] = (directory.path, replica.offset_lag)
            else:
                at[place] = directory.path
    rows: Rows = []
    for topic, number in places:
        path, lag = to.get((topic, number), (None, None))
        row = {"topic": topic, "partition": number, "directory": at.get((topic, number))}
        rows.append({**row, "to": path, "lag": lag})
    return rows
