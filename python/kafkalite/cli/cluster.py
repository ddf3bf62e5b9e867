"""``kafkalite cluster``: what a cluster is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .answers import answer_json, answer_table, json_option, plural, size_in_words
from .connecting import Cluster, cluster_options
from .helping import examples
from .volumes import done_of, volumes_of

if TYPE_CHECKING:
    from ..admin import AdminClient
    from ..descriptions import TopicDescription


@click.group("cluster", epilog=examples("kafkalite cluster info"))
def command() -> None:
    """Show a cluster as a whole."""


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
    found = done_of(lambda: admin.describe_log_dirs(timeout=cluster.timeout))
    return {
        broker: sum(one.size_bytes for directory in directories for one in directory.replicas)
        for broker, directories in found.items()
    }
