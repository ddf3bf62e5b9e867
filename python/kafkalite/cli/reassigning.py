"""``kafkalite cluster move-leader`` and ``reassign``: who leads and who replicates."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import click

from . import suggesting
from .answers import answer_table, json_option, plural, say
from .connecting import Cluster, cluster_options, confirm, yes_option
from .failures import CommandError, ExitCode
from .helping import examples
from .places import Seconds
from .topics import expand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..admin import AdminClient
    from ..descriptions import PartitionDescription, Reassignment
    from ..records import TopicPartition

    Partition = tuple[str, int]

_SOME = click.argument(
    "words", nargs=-1, metavar="TOPIC[:PARTITION]...", shell_complete=suggesting.topics
)
#: The id of a broker, as far as a number of 32 bits has digits.
_ID = re.compile("[0-9]{1,9}")
#: Between two looks at replicas that move, in seconds.
_LOOK_S = 0.2


class Brokers(click.ParamType["tuple[int, ...]"]):
    """Ids of brokers, separated by commas; each once."""

    name = "BROKER,..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Read them."""
        if isinstance(value, tuple):
            return value
        words = [word.strip() for word in str(value).split(",")]
        if not all(_ID.fullmatch(word) for word in words):
            self.fail(f"{value!r} is not a list of broker ids, such as 0,1,2", param, ctx)
        brokers = tuple(int(word) for word in words)
        if len(set(brokers)) < len(brokers):
            self.fail(f"{value!r} names a broker twice", param, ctx)
        return brokers


@click.command(
    "move-leader",
    epilog=examples(
        "kafkalite cluster move-leader --all",
        "kafkalite cluster move-leader orders:0 --to 2",
        "kafkalite cluster move-leader orders --json",
    ),
)
@_SOME
@click.option("--all", "everything", is_flag=True, help="Move the leaders of all partitions.")
@click.option(
    "--to",
    "broker",
    type=click.IntRange(0, 2**31 - 1),
    metavar="BROKER",
    help="Id of the broker that shall lead. Default: the first replica of each partition.",
)
@json_option
@cluster_options
def move_leader(
    cluster: Cluster, words: tuple[str, ...], everything: bool, broker: int | None, as_json: bool
) -> None:
    """Let preferred replicas lead, or one that --to names.

    The preferred replica is the first one. --to makes an in-sync replica the first one, so the
    leader stays there.
    """
    if everything == bool(words):
        raise click.UsageError("give topics or partitions, or --all")
    if everything and broker is not None:
        raise click.UsageError("--to wants topics or partitions, not --all")
    with cluster.admin() as admin:
        before = _described(admin, words, cluster)
        if broker is not None:
            _prefer(admin, before, broker, cluster)
        admin.elect_leaders(list(before), timeout=cluster.timeout)
        after = _elected(admin, before, words, broker, cluster)
    rows = [
        {
            "topic": place[0],
            "partition": place[1],
            "before": before[place].leader,
            "leader": after[place].leader,
            "preferred": after[place].replicas[0],
        }
        for place in sorted(after)
    ]
    answer_table(rows, ["topic", "partition", "before", "leader"], as_json=as_json)


def _described(
    admin: AdminClient, words: tuple[str, ...], cluster: Cluster
) -> dict[Partition, PartitionDescription]:
    """Return the partitions that are meant; all without words."""
    if words:
        places = expand(admin, words, cluster)
        names = {topic for topic, _ in places}
        topics = list(admin.describe_topics(names, timeout=cluster.timeout).values())
    else:
        topics = admin.list_topics(internal=True, timeout=cluster.timeout)
        places = [(topic.name, each.partition) for topic in topics for each in topic.partitions]
    known = {(topic.name, each.partition): each for topic in topics for each in topic.partitions}
    for topic, number in places:
        if (topic, number) not in known:
            raise CommandError(
                f"topic {topic} has no partition {number}",
                hint=f"`kafkalite topics describe {topic}` shows its partitions.",
                exit_code=ExitCode.NOT_FOUND,
            )
    return {place: known[place] for place in places}


def _prefer(
    admin: AdminClient,
    partitions: Mapping[Partition, PartitionDescription],
    broker: int,
    cluster: Cluster,
) -> None:
    """Make the broker the first replica of all these partitions.

    Raises:
        CommandError: A partition moves to other brokers. Another order of all replicas that it has
            meanwhile would take the place of that move.
    """
    for place in sorted(admin.list_reassignments(list(partitions), timeout=cluster.timeout)):
        raise CommandError(
            f"the replicas of {place.topic}-{place.partition} move to other brokers now",
            hint="wait until `kafkalite cluster reassign --list` does not show the partition.",
        )
    for (topic, number), partition in partitions.items():
        if broker not in partition.replicas:
            raise CommandError(
                f"broker {broker} has no replica of {topic}-{number}",
                why=[f"its replicas are on {_joined(partition.replicas)}"],
                hint="name one of them, or `kafkalite cluster reassign` the partition first.",
            )
        if broker not in partition.isr:
            raise CommandError(
                f"broker {broker} is not in sync with {topic}-{number}",
                why=[f"in sync are {_joined(partition.isr)}"],
                hint="wait until it has caught up: `kafkalite cluster health` tells.",
            )
    targets = {
        place: (broker, *(one for one in partition.replicas if one != broker))
        for place, partition in partitions.items()
        if partition.replicas[0] != broker
    }
    if targets:
        admin.reassign_partitions(targets, timeout=cluster.timeout)


def _elected(
    admin: AdminClient,
    before: Mapping[Partition, PartitionDescription],
    words: tuple[str, ...],
    broker: int | None,
    cluster: Cluster,
) -> dict[Partition, PartitionDescription]:
    """Return the partitions as they are now; the broker that is asked may learn it a bit later."""
    deadline = time.monotonic() + (cluster.timeout or 10.0)
    while True:
        after = _described(admin, words, cluster)
        after = {place: after[place] for place in before if place in after}
        # Without --to a preferred replica that is not in sync leaves the leader where it is.
        wanted = {
            place: partition.replicas[0] if broker is None else broker
            for place, partition in after.items()
            if broker is not None or partition.replicas[0] in partition.isr
        }
        if all(after[place].leader == leader for place, leader in wanted.items()):
            return after
        if time.monotonic() >= deadline:
            late = [place for place, leader in wanted.items() if after[place].leader != leader]
            raise CommandError(
                f"{plural(len(late), 'partition')} did not get the leader in time",
                why=[f"{topic}-{number}" for topic, number in sorted(late)[:20]],
                hint="`kafkalite cluster health` tells what is wrong.",
                exit_code=ExitCode.PARTLY,
            )
        time.sleep(_LOOK_S)


@click.command(
    "reassign",
    epilog=examples(
        "kafkalite cluster reassign orders --to 0,1,2 --dry-run",
        "kafkalite cluster reassign orders:0 --to 1,2,3 --yes --wait 600",
        "kafkalite cluster reassign --list",
        "kafkalite cluster reassign orders --cancel --yes",
    ),
)
@_SOME
@click.option("--to", "brokers", type=Brokers(), help="Brokers that shall have the replicas.")
@click.option("--list", "lists", is_flag=True, help="Show the replicas that move now.")
@click.option("--cancel", "cancels", is_flag=True, help="End moves; replicas stay where they were.")
@click.option("--wait", "wait_s", type=Seconds(), help="Wait so many seconds until all is moved.")
@click.option("--dry-run", is_flag=True, help="Show the new replicas without moving them.")
@yes_option
@json_option
@cluster_options
def reassign(
    cluster: Cluster,
    words: tuple[str, ...],
    brokers: tuple[int, ...] | None,
    lists: bool,
    cancels: bool,
    wait_s: float | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Move replicas to other brokers.

    --to gives every partition as many replicas as it names brokers. Partition 0 prefers the first
    broker as its leader, partition 1 the second one, and so on.
    """
    if sum((brokers is not None, lists, cancels)) != 1:
        raise click.UsageError("give one of --to, --list and --cancel")
    if not words and not lists:
        raise click.UsageError("give topics or partitions")
    with cluster.admin() as admin:
        if lists:
            return _show(_moving(admin, words, cluster), as_json)
        if cancels:
            return _cancel(admin, words, yes, as_json, cluster)
        assert brokers is not None
        return _move(admin, (words, brokers), wait_s, dry_run, yes, as_json, cluster)


def _move(
    admin: AdminClient,
    wish: tuple[tuple[str, ...], tuple[int, ...]],
    wait_s: float | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    cluster: Cluster,
) -> None:
    words, brokers = wish
    before = _described(admin, words, cluster)
    there = {broker.id for broker in admin.describe_cluster(timeout=cluster.timeout).brokers}
    if unknown := [broker for broker in brokers if broker not in there]:
        raise CommandError(
            f"there is no broker {unknown[0]}",
            why=[f"the brokers are {_joined(sorted(there))}"],
            hint="`kafkalite cluster brokers` shows them.",
            exit_code=ExitCode.NOT_FOUND,
        )
    after = {
        place: brokers[place[1] % len(brokers) :] + brokers[: place[1] % len(brokers)]
        for place in before
    }
    moved = {place: to for place, to in after.items() if to != before[place].replicas}
    if moved and not dry_run:
        confirm(f"Move {plural(len(moved), 'partition')} to brokers {_joined(brokers)}?", yes)
        admin.reassign_partitions(moved, timeout=cluster.timeout)
    rows = [
        {"topic": topic, "partition": number, "before": list(one.replicas), "after": list(to)}
        for ((topic, number), one), to in zip(before.items(), after.values(), strict=True)
    ]
    answer_table(rows, ["topic", "partition", "before", "after"], as_json=as_json)
    if dry_run:
        return say("nothing was changed (--dry-run)")
    if wait_s is None:
        return say("`kafkalite cluster reassign --list` shows the replicas that still move")
    return _wait(admin, tuple(moved), wait_s, cluster)


def _wait(
    admin: AdminClient, places: tuple[Partition, ...], wait_s: float, cluster: Cluster
) -> None:
    deadline = time.monotonic() + wait_s
    while places and (moving := admin.list_reassignments(places, timeout=cluster.timeout)):
        if time.monotonic() >= deadline:
            raise CommandError(
                f"{plural(len(moving), 'partition')} still move after {wait_s:g} s",
                hint="`kafkalite cluster reassign --list` shows them; they move on.",
                exit_code=ExitCode.PARTLY,
            )
        time.sleep(_LOOK_S)


def _moving(
    admin: AdminClient, words: tuple[str, ...], cluster: Cluster
) -> Mapping[TopicPartition, Reassignment]:
    places = expand(admin, words, cluster) if words else None
    return admin.list_reassignments(places, timeout=cluster.timeout)


def _show(moving: Mapping[TopicPartition, Reassignment], as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": list(one.replicas),
            "adding": list(one.adding),
            "removing": list(one.removing),
        }
        for place, one in sorted(moving.items())
    ]
    answer_table(rows, ["topic", "partition", "replicas", "adding", "removing"], as_json=as_json)


def _cancel(
    admin: AdminClient, words: tuple[str, ...], yes: bool, as_json: bool, cluster: Cluster
) -> None:
    moving = _moving(admin, words, cluster)
    if moving:
        confirm(f"End the moves of {plural(len(moving), 'partition')}?", yes)
        targets = dict.fromkeys(moving)
        admin.reassign_partitions(targets, timeout=cluster.timeout)
    else:
        say("no replica of them moves")
    _show(moving, as_json)


def _joined(brokers: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"
