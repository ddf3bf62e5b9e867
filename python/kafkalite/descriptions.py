"""Values of admin clients: topics, configurations, groups, brokers.

All of these are values: frozen, compared by content. Offsets count records from 0, end offsets
are exclusive; times are milliseconds since 1970 in UTC, sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .arguments import hinted
from .config import ConfigValue
from .records import TopicPartition

__all__ = [
    "Append",
    "BrokerDescription",
    "ClusterDescription",
    "CommittedOffset",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSynonym",
    "CreatedTopic",
    "FeatureLevels",
    "FeatureMetadata",
    "GroupDescription",
    "GroupListing",
    "ListedOffset",
    "LogDirDescription",
    "MemberDescription",
    "NewTopic",
    "PartitionDescription",
    "PartitionLag",
    "QuorumDescription",
    "QuorumReplica",
    "Reassignment",
    "ReplicaDescription",
    "Subtract",
    "TopicDescription",
]

#: What has a configuration.
ResourceKind = Literal["topic", "broker", "broker_logger", "client_metrics", "group"]

#: Where a value stands, the strongest first; ``unknown`` is one this version has no name for.
ConfigSource = Literal[
    "topic",
    "group",
    "client_metrics",
    "broker",
    "broker_logger",
    "brokers",
    "file",
    "default",
    "unknown",
]

#: The type of a value.
ConfigType = Literal[
    "boolean", "string", "int", "short", "long", "double", "list", "class", "password", "unknown"
]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made.

    Args:
        name: 1 to 249 of letters, digits, dots, dashes and underscores.
        partitions: How many; -1 is the broker's ``num.partitions``.
        replication_factor: Replicas of each; -1 is the broker's ``default.replication.factor``.
        config: Its own configuration, such as ``{"retention.ms": 60_000}``.
        assignments: Partition by partition, the brokers that have a replica, the preferred leader
            first; instead of both numbers.
    """

    name: str
    partitions: int = 1
    replication_factor: int = -1
    config: Mapping[str, ConfigValue | None] | None = None
    assignments: Mapping[int, Sequence[int]] | None = None


# Other clients call its numbers otherwise.
NewTopic.__init__ = hinted(NewTopic.__init__)  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """What came of making a topic; numbers and id where the broker told them."""

    name: str
    created: bool
    topic_id: str | None = None
    partitions: int | None = None
    replication_factor: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition: who leads it, since which epoch, and the brokers that have a replica."""

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic; ``partitions`` by number."""

    name: str
    topic_id: str | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def replication_factor(self) -> int:
        """Replicas of a partition, the most there are."""
        return max((len(each.replicas) for each in self.partitions), default=0)


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """Something that has a configuration; a broker's name is its id."""

    kind: ResourceKind
    name: str


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """What a key would be without what stands above it."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A key and its value, which is ``None`` for secrets and where there is none."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: ConfigType
    documentation: str | None = None
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether it has its default value."""
        return self.source == "default"


@dataclass(frozen=True, slots=True)
class Append:
    """Adds texts to a key whose value is a list."""

    values: str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Subtract:
    """Takes texts from a key whose value is a list."""

    values: str | Sequence[str]


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset that was looked up; -1 where no record is so new."""

    offset: int
    timestamp_ms: int | None
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """What a group committed for a partition: the next record it reads, and its own words."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group is behind: its commit, and the partition's first offset and end."""

    committed: int
    start: int
    end: int

    @property
    def lag(self) -> int:
        """Records it has still to read; those that are gone already do not count."""
        return max(0, self.end - max(self.committed, self.start))


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group; ``state`` and ``type`` are empty where the broker is too old to tell them."""

    group_id: str
    protocol_type: str
    state: str
    type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group: what it asked for and what it was given."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group; ``protocol`` is the assignor its members agreed upon."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: int
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker as it advertises itself."""

    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool

    @property
    def address(self) -> str:
        """``HOST:PORT``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster; ``controller`` takes changes, or stands for the controllers that do."""

    cluster_id: str | None
    controller: int | None
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A node with the metadata log; ``None`` where the leader does not tell."""

    id: int
    log_end_offset: int | None
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The controller quorum: what stands below ``high_watermark`` is committed."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


@dataclass(frozen=True, slots=True)
class FeatureLevels:
    """The finalized level of a feature, and the levels that a broker supports; 0 is none."""

    finalized: int
    min_supported: int
    max_supported: int


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """Features by name; ``epoch`` is the offset of the metadata with the finalized levels."""

    epoch: int | None
    features: dict[str, FeatureLevels]


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """A replica in a directory; ``future`` says that it will replace another."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A directory of a broker that holds replicas, and the volume that it is on."""

    path: str
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: tuple[ReplicaDescription, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition whose replicas move: all of them, those that come, those that go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
