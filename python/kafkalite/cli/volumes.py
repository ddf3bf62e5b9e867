"""How many records and bytes topics have, from ListOffsets and DescribeLogDirs.

No API tells how many records a partition has: what stands here are the offsets between its start
and its end. Compaction and the markers of transactions leave offsets without a record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ..errors import BrokerError, PartialError, UnsupportedVersionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..admin import AdminClient
    from ..descriptions import LogDirDescription, TopicDescription
    from .connecting import Cluster

#: Seconds that brokers have to tell what they hold, unless --timeout gives others. A broker that is
#: down, or a partition without a leader, would hold up all others for a minute.
_ANSWER_S = 5.0

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Volume:
    """What a topic holds; ``None`` where no broker told."""

    #: Offsets from the start to the end of its partitions.
    records: int | None
    #: Bytes of one replica of each partition: of the largest.
    bytes: int | None
    #: The sum of the ends: what was ever written.
    written: int | None


def volumes_of(
    admin: AdminClient, topics: Iterable[TopicDescription], cluster: Cluster
) -> dict[str, Volume]:
    """Return what each topic holds, by name."""
    partitions = {
        topic.name: [(topic.name, each.partition) for each in topic.partitions] for topic in topics
    }
    places = [place for of in partitions.values() for place in of]
    wait = cluster.timeout or _ANSWER_S
    starts = done_of(lambda: admin.list_offsets(places, "earliest", timeout=wait))
    ends = done_of(lambda: admin.list_offsets(places, "latest", timeout=wait))
    start_of = {(place.topic, place.partition): at.offset for place, at in starts.items()}
    end_of = {(place.topic, place.partition): at.offset for place, at in ends.items()}
    held = {at: end - start_of[at] for at, end in end_of.items() if at in start_of}
    sizes = sizes_of(admin, cluster)
    return {
        name: Volume(_sum(held, of), _sum(sizes, of), _sum(end_of, of))
        for name, of in partitions.items()
    }


def sizes_of(admin: AdminClient, cluster: Cluster) -> dict[tuple[str, int], int]:
    """Return the bytes of each partition: of its largest replica. A copy on its way is none."""
    sizes: dict[tuple[str, int], int] = {}
    for directories in log_dirs_of(admin, cluster).values():
        for replica in (one for directory in directories for one in directory.replicas):
            if replica.future:
                continue
            place = (replica.partition.topic, replica.partition.partition)
            sizes[place] = max(sizes.get(place, 0), replica.size_bytes)
    return sizes


def log_dirs_of(admin: AdminClient, cluster: Cluster) -> Mapping[int, list[LogDirDescription]]:
    """Return the directories of the brokers that answer soon."""
    limit = cluster.timeout or _ANSWER_S
    return done_of(lambda: admin.describe_log_dirs(timeout=limit))


def done_of(ask: Callable[[], Mapping[K, V]]) -> Mapping[K, V]:
    """Return what could be asked: partitions without a leader, and brokers that refuse, are left.

    Raises:
        KafkaliteError: Nothing could be asked, and no broker said why.
    """
    try:
        return ask()
    except PartialError as error:
        return error.done
    except (BrokerError, UnsupportedVersionError):
        return {}


def _sum(of: Mapping[tuple[str, int], int], places: Iterable[tuple[str, int]]) -> int | None:
    known = [of[place] for place in places if place in of]
    return sum(known) if known else None


def rate(now: int | None, before: int | None, seconds: float) -> float | None:
    """Return how much was added a second; what was removed meanwhile counts as nothing."""
    if now is None or before is None:
        return None
    return round(max(0, now - before) / seconds, 1)


def lag_of(admin: AdminClient, group: str, cluster: Cluster) -> int | None:
    """Return how far a group is behind in all; ``None`` if it has committed nothing."""
    found = done_of(lambda: admin.group_lag(group, timeout=cluster.timeout))
    return sum(at.lag for at in found.values()) if found else None
