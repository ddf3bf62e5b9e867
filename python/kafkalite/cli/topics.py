"""``kafkalite topics``: look at topics and change them."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from . import suggesting
from .answers import answer_json, answer_table, json_option, say, size_in_words
from .connecting import Cluster, changes_of, cluster_options, confirm, partitions_of, yes_option
from .failures import CommandError, ExitCode
from .helping import examples
from .places import PARTITIONS, Place, PlaceValue
from .volumes import Volume, rate, volumes_of
from .watching import repeat, watch_options

if TYPE_CHECKING:
    from typing import Any

    from ..admin import AdminClient
    from ..descriptions import TopicDescription

    Rows = list[dict[str, Any]]

_END = PlaceValue(word="latest")

_ONE_TOPIC = click.argument("name", metavar="TOPIC", shell_complete=suggesting.topics)
_SOME_TOPICS = click.argument(
    "names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=suggesting.topics
)


@click.group(
    "topics", epilog=examples("kafkalite topics list", "kafkalite topics create orders -p 3")
)
def command() -> None:
    """Show, create, change and delete topics."""


@command.command(
    "list",
    epilog=examples(
        "kafkalite topics list",
        "kafkalite topics list --watch --interval 5",
        "kafkalite topics list --json -b broker.example.com:9092",
    ),
)
@click.option("--internal", is_flag=True, help="List internal topics too.")
@watch_options
@json_option
@cluster_options
def list_topics(
    cluster: Cluster, internal: bool, watch: bool, interval: float, as_json: bool
) -> None:
    """List the topics with their partitions, records and bytes.

    Records are offsets between start and end. Bytes are those of one replica. --watch adds rates.
    """
    with cluster.admin() as admin:

        def look() -> list[dict[str, Any]]:
            topics = admin.list_topics(internal=internal, timeout=cluster.timeout)
            volumes = volumes_of(admin, topics, cluster)
            return [_listed(topic, volumes[topic.name]) for topic in topics]

        def show(now: Rows, before: Rows | None, seconds: float) -> None:
            columns = ["topic", "partitions", "replication_factor", "records", "size"]
            if watch:
                _add_rates(now, before, seconds)
                columns += ["records_per_s", "written_per_s"]
            if not as_json:
                for row in now:
                    row["size"] = size_in_words(row["bytes"])
                    row["written_per_s"] = size_in_words(row.get("bytes_per_s"))
            answer_table(now, columns, as_json=as_json)

        repeat(look, show, watch=watch, interval=interval)


def _listed(topic: TopicDescription, volume: Volume) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "records": volume.records,
        "bytes": volume.bytes,
        "end_offsets": volume.written,
        "topic_id": topic.topic_id,
        "internal": topic.internal,
    }


def _add_rates(now: Rows, before: Rows | None, seconds: float) -> None:
    """Add rates; a topic that was created again starts at zero."""
    earlier = {row["topic_id"] or row["topic"]: row for row in before or ()}
    for row in now:
        was = earlier.get(row["topic_id"] or row["topic"], {})
        row["records_per_s"] = rate(row["end_offsets"], was.get("end_offsets"), seconds)
        row["bytes_per_s"] = rate(row["bytes"], was.get("bytes"), seconds)


@command.command(
    "create",
    epilog=examples(
        "kafkalite topics create orders -p 3",
        "kafkalite topics create orders returns --config retention.ms=3600000 --exist-ok",
    ),
)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(-1, PARTITIONS.max),
    default=-1,
    help="Number of partitions. Default: the broker's num.partitions.",
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(-1, 32_767),
    default=-1,
    help="Replicas of each partition. Default: the broker's default.replication.factor.",
)
@click.option(
    "--config", "pairs", multiple=True, metavar="KEY=VALUE", help="Key to set (repeatable)."
)
@click.option("--exist-ok", is_flag=True, help="Do not fail if a topic exists.")
@json_option
@cluster_options
def create(
    cluster: Cluster,
    names: tuple[str, ...],
    partitions: int,
    replication_factor: int,
    pairs: tuple[str, ...],
    exist_ok: bool,
    as_json: bool,
) -> None:
    """Create topics."""
    from ..descriptions import NewTopic

    config = changes_of(pairs, "--config")
    topics = [NewTopic(name, partitions, replication_factor, config) for name in names]
    with cluster.admin() as admin:
        made = admin.create_topics(topics, exist_ok=exist_ok, timeout=cluster.timeout)
    if as_json:
        return answer_json([asdict(topic) for topic in made.values()])
    for topic in made.values():
        say(f"{topic.name} is {'created' if topic.created else 'there already'}")
    return None


@command.command(
    "describe",
    epilog=examples(
        "kafkalite topics describe orders", "kafkalite topics describe orders --all-config --json"
    ),
)
@_SOME_TOPICS
@click.option("--all-config", is_flag=True, help="Show keys with default values too.")
@json_option
@cluster_options
def describe(cluster: Cluster, names: tuple[str, ...], all_config: bool, as_json: bool) -> None:
    """Show partitions, offsets and configuration of topics."""
    with cluster.admin() as admin:
        topics = admin.describe_topics(names, timeout=cluster.timeout)
        told = [_described(admin, topic, all_config, cluster) for topic in topics.values()]
    if as_json:
        return answer_json(told)
    for topic in told:
        click.echo(f"{topic['topic']}  id {topic['topic_id'] or 'unknown'}")
        for key, value in topic["config"].items():
            click.echo(f"  {key}={value}")
        columns = ["partition", "leader", "replicas", "isr", "start", "end"]
        answer_table(topic["partitions"], columns, as_json=False)
    return None


def _described(
    admin: AdminClient, topic: TopicDescription, all_config: bool, cluster: Cluster
) -> dict[str, Any]:
    places = [(topic.name, each.partition) for each in topic.partitions]
    starts = admin.list_offsets(places, "earliest", timeout=cluster.timeout)
    ends = admin.list_offsets(places, "latest", timeout=cluster.timeout)
    start_of = {place.partition: found.offset for place, found in starts.items()}
    end_of = {place.partition: found.offset for place, found in ends.items()}
    config = admin.describe_topic_config(topic.name, timeout=cluster.timeout)
    set_here = [entry for entry in config.values() if all_config or entry.source == "topic"]
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.internal,
        "config": {entry.name: entry.value for entry in set_here},
        "partitions": [
            asdict(each)
            | {"start": start_of.get(each.partition), "end": end_of.get(each.partition)}
            for each in topic.partitions
        ],
    }


@command.command(
    "alter",
    epilog=examples(
        "kafkalite topics alter orders --config retention.ms=3600000",
        "kafkalite topics alter orders --unset retention.ms",
    ),
)
@_ONE_TOPIC
@click.option(
    "--config", "pairs", multiple=True, metavar="KEY=VALUE", help="Key to set (repeatable)."
)
@click.option("--unset", "unset", multiple=True, metavar="KEY", help="Key to reset (repeatable).")
@json_option
@cluster_options
def alter(
    cluster: Cluster, name: str, pairs: tuple[str, ...], unset: tuple[str, ...], as_json: bool
) -> None:
    """Change the configuration of a topic. Other keys keep their values."""
    changes = changes_of(pairs, "--config", unset)
    if not changes:
        raise click.UsageError("nothing to change: give --config KEY=VALUE or --unset KEY")
    with cluster.admin() as admin:
        admin.alter_topic_config(name, changes, timeout=cluster.timeout)
    if as_json:
        return answer_json({"topic": name, "changed": changes})
    return say(f"{name} is changed")


@command.command(
    "add-partitions",
    epilog=examples(
        "kafkalite topics add-partitions orders 6",
    ),
)
@_ONE_TOPIC
@click.argument("total", type=PARTITIONS)
@json_option
@cluster_options
def add_partitions(cluster: Cluster, name: str, total: int, as_json: bool) -> None:
    """Raise the number of partitions to TOTAL. Keys then map to other partitions."""
    with cluster.admin() as admin:
        admin.create_partitions(name, total, timeout=cluster.timeout)
    if as_json:
        return answer_json({"topic": name, "partitions": total})
    return say(f"{name} has {total} partitions")


@command.command(
    "trim",
    epilog=examples(
        "kafkalite topics trim orders --before 7d",
        "kafkalite topics trim orders:0 --before end --yes",
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
    "--before",
    type=Place(),
    required=True,
    help="Offset, `end`, or time. All records before it are deleted.",
)
@yes_option
@json_option
@cluster_options
def trim(
    cluster: Cluster, words: tuple[str, ...], before: PlaceValue, yes: bool, as_json: bool
) -> None:
    """Delete the oldest records of topics or partitions."""
    confirm(f"Remove the records of {', '.join(words)} before {before}?", yes)
    with cluster.admin() as admin:
        partitions = expand(admin, words, cluster)
        offsets = before.resolve(admin, partitions, cluster)
        _refuse_beyond_ends(offsets, _END.resolve(admin, partitions, cluster))
        left = admin.delete_records(offsets, timeout=cluster.timeout)
    rows = [
        {"topic": place.topic, "partition": place.partition, "start": start}
        for place, start in sorted(left.items())
    ]
    answer_table(rows, ["topic", "partition", "start"], as_json=as_json)


def _refuse_beyond_ends(
    offsets: dict[tuple[str, int], int], ends: dict[tuple[str, int], int]
) -> None:
    beyond = {place: ends[place] for place, offset in offsets.items() if offset > ends[place]}
    if beyond:
        raise CommandError(
            f"offset {max(offsets.values())} is behind the end",
            why=[f"{topic}-{number} ends at {end}" for (topic, number), end in beyond.items()],
            hint="nothing is removed. `--before end` removes all records there are.",
        )


def expand(
    admin: AdminClient, words: tuple[str, ...], cluster: Cluster, *, patterns: bool = False
) -> list[tuple[str, int]]:
    """Return every partition of words like ``TOPIC`` and ``TOPIC:3``.

    Args:
        admin: Asks the cluster.
        words: As they were given.
        cluster: How long a call may take.
        patterns: Whether ``^REGEX`` means the topics whose whole names match.

    Raises:
        CommandError: No topic matches a pattern.
    """
    wanted = partitions_of(words)
    whole = {topic for topic, partition in wanted if partition is None}
    if patterns:
        regexes = {name for name in whole if name.startswith("^")}
        whole = (whole - regexes) | _matching(admin, regexes, cluster)
    described = admin.describe_topics(whole, timeout=cluster.timeout) if whole else {}
    found = [(topic, number) for topic, number in wanted if number is not None]
    for name, topic in described.items():
        found += [(name, each.partition) for each in topic.partitions]
    return found


def _matching(admin: AdminClient, regexes: set[str], cluster: Cluster) -> set[str]:
    if not regexes:
        return set()
    names = [topic.name for topic in admin.list_topics(timeout=cluster.timeout)]
    found: set[str] = set()
    for regex in regexes:
        try:
            matching = {name for name in names if re.fullmatch(regex, name)}
        except re.error as error:
            raise click.BadParameter(f"{regex!r} is not a regular expression: {error}") from None
        if not matching:
            raise CommandError(
                f"no topic matches {regex}",
                hint="`kafkalite topics list` shows the topics; the whole name has to match.",
                exit_code=ExitCode.NOT_FOUND,
            )
        found |= matching
    return found


@command.command(
    "delete",
    epilog=examples(
        "kafkalite topics delete orders",
        "kafkalite topics delete orders returns --yes --missing-ok",
    ),
)
@_SOME_TOPICS
@click.option("--missing-ok", is_flag=True, help="Do not fail if a topic does not exist.")
@yes_option
@json_option
@cluster_options
def delete(
    cluster: Cluster, names: tuple[str, ...], missing_ok: bool, yes: bool, as_json: bool
) -> None:
    """Delete topics and all their records."""
    confirm(f"Delete {', '.join(names)}?", yes)
    with cluster.admin() as admin:
        admin.delete_topics(names, missing_ok=missing_ok, timeout=cluster.timeout)
    if as_json:
        return answer_json({"deleted": list(names)})
    return say(f"deleted {', '.join(names)}")
