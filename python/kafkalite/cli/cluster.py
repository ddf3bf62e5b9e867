"""``kafkalite cluster``: what a cluster is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import cluster_health, features, moving, reassigning
from .answers import answer_json, answer_table, json_option, plural, size_in_words
from .connecting import Cluster, cluster_options
from .failures import CommandError
from .helping import examples
from .volumes import log_dirs_of, volumes_of

if TYPE_CHECKING:
    from ..admin import AdminClient
    from ..descriptions import TopicDescription


@click.group("cluster", epilog=examples("kafkalite cluster info", "kafkalite cluster health"))
def command() -> None:
    """Show a cluster as a whole, move leaders and replicas, and finalize features."""


command.add_command(reassigning.move_leader)
command.add_command(reassigning.reassign)
command.add_command(moving.move_log_dir)
command.add_command(features.features)


@command.command("info", epilog=examples("kafkalite cluster info", "kafkalite cluster info --json"))
@json_option
@cluster_options
def info(cluster: Cluster, as_json: bool) -> None:
    """Show the brokers of a cluster, and its topics, groups, records and bytes.

    Internal topics are not counted, except in the columns leads, replicas and size. Records are
    offsets between start and end. Bytes are those of one replica of each partition.
    """
    with cluster.admin() as admin:
        described = admin.describe_cluster(timeout=cluster.timeout)
        topics = admin.list_topics(internal=True, timeout=cluster.timeout)
        own = [topic for topic in topics if not topic.internal]
        volumes = volumes_of(admin, own, cluster).values()
        groups = admin.list_groups(timeout=cluster.timeout)
        held = _bytes_by_broker(admin, cluster)
    brokers = [
        {
            "broker": broker.id,
            "address": broker.address,
            "rack": broker.rack,
            "controller": broker.id == described.controller,
            "fenced": broker.fenced,
            "leads": _count(topics, lambda each, at=broker.id: each.leader == at),
            "replicas": _count(topics, lambda each, at=broker.id: at in each.replicas),
            "bytes": held.get(broker.id),
            "size": size_in_words(held.get(broker.id)),
        }
        for broker in described.brokers
    ]
    told: dict[str, Any] = {
        "cluster_id": described.cluster_id,
        "controller": described.controller,
        "topics": len(own),
        "partitions": sum(len(topic.partitions) for topic in own),
        "groups": len(groups),
        "records": sum(volume.records or 0 for volume in volumes),
        "bytes": sum(volume.bytes or 0 for volume in volumes),
    }
    if as_json:
        for row in brokers:
            del row["size"]
        return answer_json(told | {"brokers": brokers})
    click.echo(f"cluster {told['cluster_id']}")
    counts = [plural(told[of], of.removesuffix("s")) for of in ("topics", "partitions", "groups")]
    counts += [plural(told["records"], "record"), str(size_in_words(told["bytes"]))]
    click.echo(f"{', '.join(counts)}\n")
    columns = ["broker", "address", "rack", "controller", "leads", "replicas", "size"]
    return answer_table(brokers, columns, as_json=False)


def _count(topics: list[TopicDescription], counts: Any) -> int:
    return sum(bool(counts(each)) for topic in topics for each in topic.partitions)


def _bytes_by_broker(admin: AdminClient, cluster: Cluster) -> dict[int, int]:
    found = log_dirs_of(admin, cluster)
    return {
        broker: sum(one.size_bytes for directory in directories for one in directory.replicas)
        for broker, directories in found.items()
    }


@command.command(
    "health", epilog=examples("kafkalite cluster health", "kafkalite cluster health --json")
)
@json_option
@cluster_options
def health(cluster: Cluster, as_json: bool) -> None:
    """Tell what is wrong with a cluster, in words. Exits with 1 if anything is.

    Looks for fenced brokers, failed disks and voters that are behind. Of each partition it looks at
    the leader and at the number of in-sync replicas.
    """
    with cluster.admin() as admin:
        found = cluster_health.look(admin, cluster)
    if as_json:
        answer_json(found.document())
    elif not found.problems:
        counts = f"{plural(found.brokers, 'broker')}, {plural(found.partitions, 'partition')}"
        click.echo(f"healthy: {counts}")
    else:
        for line in found.lines():
            click.echo(line)
    if found.problems:
        raise CommandError(
            f"the cluster has {plural(len(found.problems), 'problem')}",
            hint="the logs of the brokers that are named tell more.",
        )


@command.command(
    "brokers", epilog=examples("kafkalite cluster brokers", "kafkalite cluster brokers --json")
)
@json_option
@cluster_options
def brokers(cluster: Cluster, as_json: bool) -> None:
    """List the brokers: what each leads, should lead and replicates.

    A broker should lead the partitions whose first replica it has. A fenced broker leads nothing.
    """
    with cluster.admin() as admin:
        described = admin.describe_cluster(timeout=cluster.timeout)
        topics = admin.list_topics(internal=True, timeout=cluster.timeout)
    rows = [
        {
            "broker": broker.id,
            "address": broker.address,
            "rack": broker.rack,
            "controller": broker.id == described.controller,
            "fenced": broker.fenced,
            "leads": _count(topics, lambda each, at=broker.id: each.leader == at),
            "should_lead": _count(topics, lambda each, at=broker.id: each.replicas[:1] == (at,)),
            "replicas": _count(topics, lambda each, at=broker.id: at in each.replicas),
            "in_sync": _count(topics, lambda each, at=broker.id: at in each.isr),
        }
        for broker in described.brokers
    ]
    columns = ["broker", "address", "rack", "controller", "fenced", "leads", "should_lead"]
    answer_table(rows, [*columns, "replicas", "in_sync"], as_json=as_json)


@command.command(
    "quorum", epilog=examples("kafkalite cluster quorum", "kafkalite cluster quorum --json")
)
@json_option
@cluster_options
def quorum(cluster: Cluster, as_json: bool) -> None:
    """Show the controller quorum: who votes on metadata, who leads, and how far each has come."""
    with cluster.admin() as admin:
        told = admin.describe_quorum(timeout=cluster.timeout)
    rows = [
        {
            "node": one.id,
            "role": "leader" if one.id == told.leader else role,
            "log_end_offset": one.log_end_offset,
            "lag": cluster_health.lag_of(one, told.high_watermark),
            "last_caught_up_ms": one.last_caught_up_ms,
        }
        for role, members in (("voter", told.voters), ("observer", told.observers))
        for one in members
    ]
    if as_json:
        return answer_json(
            {
                "leader": told.leader,
                "leader_epoch": told.leader_epoch,
                "high_watermark": told.high_watermark,
                "replicas": rows,
            }
        )
    click.echo(f"epoch {told.leader_epoch}, committed up to offset {told.high_watermark}\n")
    return answer_table(rows, ["node", "role", "log_end_offset", "lag"], as_json=False)
