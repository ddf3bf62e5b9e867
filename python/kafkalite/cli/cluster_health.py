"""What is wrong with a cluster, as far as its own answers tell."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..errors import BrokerError, PartialError, UnsupportedVersionError
from .answers import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..admin import AdminClient
    from ..descriptions import (
        LogDirDescription,
        PartitionDescription,
        QuorumReplica,
        TopicDescription,
    )
    from ..errors import KafkaliteError
    from .connecting import Cluster

#: How long a broker may take to answer, in seconds.
_ANSWER_S = 3.0
#: A voter that has not caught up for so long is behind, in seconds: each lags for a moment.
_BEHIND_S = 1.0
_LOOK_S = 0.1
#: Lines of one kind that people see; JSON has all.
_MOST_LINES = 20


@dataclass(frozen=True)
class Problem:
    """Something that is wrong: its kind for programs, and words."""

    kind: str
    text: str


@dataclass(frozen=True)
class Health:
    """What was looked at, and what is wrong with it."""

    brokers: int
    partitions: int
    problems: list[Problem]

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        return {"healthy": not self.problems} | asdict(self)

    def lines(self) -> Iterator[str]:
        """Return it for people: of each kind some, and how many more there are."""
        kinds = dict.fromkeys(problem.kind for problem in self.problems)
        for kind in kinds:
            texts = [problem.text for problem in self.problems if problem.kind == kind]
            yield from (f"{kind}: {text}" for text in texts[:_MOST_LINES])
            if len(texts) > _MOST_LINES:
                yield f"{kind}: and {len(texts) - _MOST_LINES} more, see --json"


def look(admin: AdminClient, cluster: Cluster) -> Health:
    """Look at a whole cluster."""
    # What takes longest comes first: the rest is as new as the answer.
    of_brokers = _problems_of_brokers(admin, cluster)
    described = admin.describe_cluster(timeout=cluster.timeout)
    adding = _adding(admin, cluster)
    topics = admin.list_topics(internal=True, timeout=cluster.timeout)
    problems: list[Problem] = []
    if described.controller is None:
        problems.append(Problem("no controller", "no broker takes changes of metadata"))
    for broker in described.brokers:
        if broker.fenced:
            text = f"broker {broker.id} at {broker.address} is down, starts, or is not reached"
            problems.append(Problem("fenced", text))
    problems += _problems_of_partitions(admin, topics, adding, cluster)
    problems += of_brokers
    problems += [Problem("behind", text) for text in _voters_behind(admin, cluster)]
    partitions = sum(len(topic.partitions) for topic in topics)
    return Health(len(described.brokers), partitions, problems)


def _problems_of_brokers(admin: AdminClient, cluster: Cluster) -> list[Problem]:
    """Ask every broker that serves for its disks."""
    described = admin.describe_cluster(timeout=cluster.timeout).brokers
    serving = {broker.id: broker.address for broker in described if not broker.fenced}
    limit = min(_ANSWER_S, cluster.timeout or _ANSWER_S)
    found: Mapping[int, list[LogDirDescription]]
    failed: Mapping[int, KafkaliteError] = {}
    try:
        found = admin.describe_log_dirs(serving, timeout=limit)
    except PartialError as error:
        found, failed = error.done, error.errors
    except (BrokerError, UnsupportedVersionError):
        return []
    problems = [
        Problem("disk", f"broker {broker}: {directory.path}: {directory.error}")
        for broker, directories in sorted(found.items())
        for directory in directories
        if directory.error
    ]
    for broker in sorted(failed):
        # A refusal is an answer.
        if not isinstance(failed[broker], BrokerError):
            text = f"broker {broker} at {serving[broker]} does not answer within {limit:g} s"
            problems.append(Problem("unreached", text))
    return problems


def _adding(admin: AdminClient, cluster: Cluster) -> Mapping[tuple[str, int], tuple[int, ...]]:
    """Return the brokers that reassignments add, by topic and partition."""
    try:
        moves = admin.list_reassignments(timeout=cluster.timeout)
    except (BrokerError, UnsupportedVersionError):
        # A broker without reassignments, or with some that this user may not see.
        return {}
    return {place: move.adding for place, move in moves.items()}


def _problems_of_partitions(
    admin: AdminClient,
    topics: list[TopicDescription],
    adding: Mapping[tuple[str, int], tuple[int, ...]],
    cluster: Cluster,
) -> list[Problem]:
    lacking = {
        topic.name
        for topic in topics
        if any(len(each.isr) < len(each.replicas) for each in topic.partitions)
    }
    least = {name: _min_insync(admin, name, cluster) for name in sorted(lacking)}
    found = (
        _problem_of(
            topic.name,
            each,
            least.get(topic.name, 1),
            adding.get((topic.name, each.partition), ()),
        )
        for topic in topics
        for each in topic.partitions
    )
    return sorted(filter(None, found), key=lambda problem: problem.kind)


def _min_insync(admin: AdminClient, topic: str, cluster: Cluster) -> int:
    try:
        entry = admin.describe_topic_config(topic, timeout=cluster.timeout)["min.insync.replicas"]
    except (BrokerError, KeyError):
        # Deleted meanwhile, or a broker that does not tell.
        return 1
    return int(entry.value or 1)


def _problem_of(
    topic: str, partition: PartitionDescription, least: int, adding: tuple[int, ...]
) -> Problem | None:
    """Return the worst that is wrong with a partition.

    A replica that a reassignment adds does not count as missing: it copies what there is.
    """
    name, replicas, isr = f"{topic}-{partition.partition}", partition.replicas, partition.isr
    there = f"{plural(len(isr), 'in-sync replica')} of {len(replicas)}"
    if partition.leader is None:
        where = ", ".join(map(str, replicas))
        return Problem("offline", f"{name} has no leader; its replicas are on {where}")
    if len(isr) < min(least, len(replicas)):
        text = f"{name} has {there}, and min.insync.replicas={least}: acks=all is refused"
        return Problem("below min.insync.replicas", text)
    if missing := [str(one) for one in replicas if one not in (*isr, *adding)]:
        text = f"{name} has {there}; missing: {', '.join(missing)}"
        return Problem("under-replicated", text)
    return None


def lag_of(replica: QuorumReplica, high_watermark: int) -> int | None:
    """Return how many committed offsets of the metadata log a node lacks, if that is known."""
    end = replica.log_end_offset
    return None if end is None else max(0, high_watermark - end)


def _voters_behind(admin: AdminClient, cluster: Cluster) -> list[str]:
    """Return the voters that do not reach what is committed now within a second, in words."""
    try:
        told = admin.describe_quorum(timeout=cluster.timeout)
    except (BrokerError, UnsupportedVersionError):
        # A cluster without a quorum of its own, or one whose answer this user may not see.
        return []
    committed, deadline = told.high_watermark, time.monotonic() + _BEHIND_S
    while behind := [one for one in told.voters if lag_of(one, committed) != 0]:
        if time.monotonic() >= deadline:
            break
        time.sleep(_LOOK_S)
        told = admin.describe_quorum(timeout=cluster.timeout)
    return [
        f"voter {one.id} is at offset {'?' if one.log_end_offset is None else one.log_end_offset} "
        f"of the metadata, {committed} is committed"
        for one in behind
    ]
