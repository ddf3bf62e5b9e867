"""The admin client: looks at a cluster and changes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, Unpack

from . import _native, admin_calls, log_dir_calls
from .admin_calls import ConfigChange, OffsetAt, Partition, TopicLike
from .admin_features import FeatureAdmin
from .arguments import hinted, refuse_positional
from .config import AdminOptions, ConfigValue, merged, warn
from .descriptions import (
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    ListedOffset,
    LogDirDescription,
    NewTopic,
    QuorumDescription,
    Reassignment,
    ResourceKind,
    TopicDescription,
)
from .records import Place, TopicPartition

if TYPE_CHECKING:
    from typing import Never, Self

__all__ = ["AdminClient"]


class AdminClient(FeatureAdmin):
    """Looks at a cluster and changes it; works with any Kafka without TLS.

    It can be used with ``with`` or without; calls may come from any thread. What fails in passing
    (a broker that restarts, a leader that moves) is tried again until the call's time is over.
    Methods for several things try all of them; if some fail they raise ``PartialError``, which has
    what was done and each error. ``timeout`` is in seconds, ``None`` is ``default_api_timeout_ms``.

    Args:
        config: Keys with dots, as in ``{"bootstrap.servers": "localhost:9092"}``.
        options: The same keys as keywords; they win over ``config``.

    Raises:
        ConfigError: A key or value that cannot be.
    Source:
        Kafka's ``Admin`` interface.
    """

    def __init__(
        self,
        *_positional: Never,
        config: Mapping[str, ConfigValue | None] | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        """Make a client; it connects when it is first asked something."""
        refuse_positional("AdminClient", _positional)
        self._native = _native.AdminClient(merged(config, options))
        warn(self._native.warnings)

    def close(self, timeout: float = 5.0) -> None:
        """End its connections and its thread; calls under way raise ``ClosedError``.

        Args:
            timeout: How long to wait for that, in seconds.
        """
        self._native.close(timeout)

    def __repr__(self) -> str:
        """Return what it is, and whether it is open."""
        return f"<kafkalite.AdminClient {'closed' if self._native.closed else 'open'}>"

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()

    @hinted
    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        config: Mapping[str, ConfigValue | None] | None = None,
        exist_ok: bool = False,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> CreatedTopic:
        """Make a topic, and wait until its partitions have leaders.

        Args:
            name: 1 to 249 of letters, digits, dots, dashes and underscores.
            partitions: How many; -1 is the broker's ``num.partitions``.
            replication_factor: Replicas of each; -1 is ``default.replication.factor``.
            config: Its own configuration, such as ``{"retention.ms": 60_000}``.
            exist_ok: A topic of this name may exist, however it is made; it is left as it is.
            validate_only: Only say what would happen.
            timeout: In seconds.

        Returns:
            What was made; ``created`` is false for a topic that existed.

        Raises:
            TopicExistsError: A topic of this name exists.
            InvalidTopicError: No topic can have this name.
            InvalidPartitionsError: Numbers that cannot be.
            ConfigError: A key or value that a topic cannot have.
        Source:
            Kafka protocol, CreateTopics (key 19).
        """
        topic = NewTopic(name, partitions, replication_factor, config)
        made = self.create_topics(
            [topic], exist_ok=exist_ok, validate_only=validate_only, timeout=timeout
        )
        return made[name]

    @hinted
    def create_topics(
        self,
        topics: Iterable[TopicLike] | Mapping[str, int],
        *,
        exist_ok: bool = False,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, CreatedTopic]:
        """Make topics, see ``create_topic``.

        Args:
            topics: Names, of one partition each; names with their numbers of partitions, as in
                ``{"orders": 3}``; or ``NewTopic``.
            exist_ok: As of ``create_topic``.
            validate_only: As of ``create_topic``.
            timeout: In seconds.

        Returns:
            What was made, by name.

        Raises:
            PartialError: Some could not be made.
        """
        call = admin_calls.create_topics(self._native, topics, exist_ok, validate_only, timeout)
        return self._wait(call)

    @hinted
    def delete_topic(
        self, name: str, *, missing_ok: bool = False, timeout: float | None = None
    ) -> None:
        """Remove a topic with all its records.

        Args:
            name: The topic.
            missing_ok: It need not exist.
            timeout: In seconds.

        Raises:
            UnknownTopicError: There is no such topic.
        Source:
            Kafka protocol, DeleteTopics (key 20).
        """
        self.delete_topics([name], missing_ok=missing_ok, timeout=timeout)

    @hinted
    def delete_topics(
        self, names: Iterable[str], *, missing_ok: bool = False, timeout: float | None = None
    ) -> None:
        """Remove topics, see ``delete_topic``.

        Raises:
            PartialError: Some could not be removed.
        """
        self._wait(admin_calls.delete_topics(self._native, names, missing_ok, timeout))

    @hinted
    def list_topics(
        self, *, internal: bool = False, timeout: float | None = None
    ) -> list[TopicDescription]:
        """Return all topics, by name.

        Args:
            internal: Whether the brokers' own belong to them.
            timeout: In seconds.
        Source:
            Kafka protocol, Metadata (key 3).
        """
        return self._wait(admin_calls.list_topics(self._native, internal, timeout))

    def describe_topic(self, name: str, *, timeout: float | None = None) -> TopicDescription:
        """Return a topic with its partitions, their leaders and replicas.

        Raises:
            UnknownTopicError: There is no such topic.
        Source:
            Kafka protocol, Metadata (key 3).
        """
        return self.describe_topics([name], timeout=timeout)[name]

    def describe_topics(
        self, names: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Return topics by name, see ``describe_topic``.

        Raises:
            PartialError: Some do not exist.
        """
        return self._wait(admin_calls.describe_topics(self._native, names, timeout))

    @hinted
    def create_partitions(
        self, name: str, total: int, *, validate_only: bool = False, timeout: float | None = None
    ) -> None:
        """Give a topic more partitions; keys then go to others than before.

        Args:
            name: The topic.
            total: How many it has afterwards, more than before.
            validate_only: Only say what would happen.
            timeout: In seconds.

        Raises:
            UnknownTopicError: There is no such topic.
            InvalidPartitionsError: It has so many already.
        Source:
            Kafka protocol, CreatePartitions (key 37).
        """
        self._wait(
            admin_calls.create_partitions(self._native, {name: total}, validate_only, timeout)
        )

    def describe_topic_config(
        self, name: str, *, timeout: float | None = None
    ) -> dict[str, ConfigEntry]:
        """Return a topic's configuration by key, defaults included.

        Raises:
            UnknownTopicError: There is no such topic.
        Source:
            Kafka protocol, DescribeConfigs (key 32).
        """
        resource = ConfigResource("topic", name)
        return self.describe_configs([resource], timeout=timeout)[resource]

    def describe_broker_config(
        self, broker: int, *, timeout: float | None = None
    ) -> dict[str, ConfigEntry]:
        """Return a broker's configuration by key, defaults included.

        Source:
            Kafka protocol, DescribeConfigs (key 32).
        """
        resource = ConfigResource("broker", str(broker))
        return self.describe_configs([resource], timeout=timeout)[resource]

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return configurations by resource and key.

        Args:
            resources: Topics, brokers, groups.
            keys: Only these.
            synonyms: Also what each would be without what stands above it.
            documentation: Also what each means.
            timeout: In seconds.

        Raises:
            UnknownTopicError: There is no such topic.
            PartialError: Some cannot be described.
        Source:
            Kafka protocol, DescribeConfigs (key 32).
        """
        return self._wait(
            admin_calls.describe_configs(
                self._native, resources, keys, synonyms, documentation, timeout
            )
        )

    def list_config_resources(
        self, kinds: Iterable[ResourceKind] | None = None, *, timeout: float | None = None
    ) -> list[ConfigResource]:
        """Return what has a configuration.

        A group or a subscription of client metrics is there while a key of it is set.

        Args:
            kinds: Kinds of resources; all by default.
            timeout: In seconds.
        Source:
            Kafka protocol, ListConfigResources (key 74).
        """
        return self._wait(admin_calls.list_config_resources(self._native, kinds, timeout))

    def alter_topic_config(
        self,
        name: str,
        changes: Mapping[str, ConfigChange],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change keys of a topic's configuration; the others stay as they are.

        Args:
            name: The topic.
            changes: New values; ``None`` is the default, ``Append`` and ``Subtract`` change lists.
            validate_only: Only say whether it could be done.
            timeout: In seconds.

        Raises:
            UnknownTopicError: There is no such topic.
            ConfigError: A key or value that a topic cannot have.
        Source:
            Kafka protocol, IncrementalAlterConfigs (key 44).
        """
        resource = ConfigResource("topic", name)
        self.alter_configs({resource: changes}, validate_only=validate_only, timeout=timeout)

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, ConfigChange]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change keys of several configurations, see ``alter_topic_config``.

        Raises:
            PartialError: Some could not be changed.
        """
        self._wait(admin_calls.alter_configs(self._native, changes, validate_only, timeout))

    def list_offsets(
        self,
        partitions: Iterable[Partition],
        at: OffsetAt = "latest",
        *,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """Look an offset up for each partition.

        Args:
            partitions: Pairs of a topic's name and a number.
            at: ``latest`` is the end, exclusive; ``earliest`` the first record there is;
                ``max_timestamp`` the newest by time. A time finds the first record that is not
                older: milliseconds since 1970, or a ``datetime`` with a zone.
            isolation_level: Whether ``latest`` stops at the first open transaction.
            timeout: In seconds.

        Returns:
            The offsets; -1 where no record is so new.

        Raises:
            UnknownTopicError: There is no such topic or partition.
            PartialError: Some could not be looked up.
        Source:
            Kafka protocol, ListOffsets (key 2).
        """
        read_committed = isolation_level == "read_committed"
        return self._wait(
            admin_calls.list_offsets(self._native, partitions, at, read_committed, timeout)
        )

    def delete_records(
        self,
        before: Mapping[Place, int | Literal["end"]],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, int]:
        """Remove the records of partitions below an offset.

        Args:
            before: The first offset to keep, or ``end`` to keep none, by partition.
            timeout: In seconds.

        Returns:
            The first offset that is left, by partition.

        Raises:
            OffsetOutOfRangeError: The partition does not reach so far.
            PartialError: Some records could not be removed.
        Source:
            Kafka protocol, DeleteRecords (key 21).
        """
        return self._wait(admin_calls.delete_records(self._native, before, timeout))

    def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """Return the cluster's id, controller and brokers.

        Raises:
            NoBrokerReachable: No broker answers at any address.
        Source:
            Kafka protocol, DescribeCluster (key 60).
        """
        return self._wait(admin_calls.describe_cluster(self._native, timeout))

    def describe_quorum(self, *, timeout: float | None = None) -> QuorumDescription:
        """Return who votes on metadata, who leads, and how far each has come.

        Source:
            Kafka protocol, DescribeQuorum (key 55).
        """
        return self._wait(admin_calls.describe_quorum(self._native, timeout))

    def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, list[LogDirDescription]]:
        """Return the directories of brokers with the replicas in them.

        Args:
            brokers: Ids; all by default.
            timeout: In seconds.
        Source:
            Kafka protocol, DescribeLogDirs (key 35).
        """
        return self._wait(admin_calls.describe_log_dirs(self._native, brokers, timeout))

    def alter_replica_log_dirs(
        self,
        targets: Mapping[tuple[str, int, int], str | PathLike[str]],
        *,
        timeout: float | None = None,
    ) -> None:
        """Move replicas into other log directories of their brokers, which go on serving.

        They are copied later: :meth:`describe_log_dirs` shows the copies. The present directory
        ends a move.

        Args:
            targets: Directories, as that spells them, by topic, partition and broker.
            timeout: In seconds.

        Raises:
            StorageError: The broker has no such directory, or its disk failed or is full.
        Source:
            Kafka protocol, AlterReplicaLogDirs (key 34).
        """
        self._wait(log_dir_calls.alter_replica_log_dirs(self._native, targets, timeout))

    def elect_leaders(
        self,
        partitions: Iterable[Partition] | None = None,
        *,
        unclean: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, bool]:
        """Let partitions elect their preferred leaders.

        Args:
            partitions: All by default.
            unclean: Elect any replica that is there, if no other is left; this may lose records.
            timeout: In seconds.

        Returns:
            Whether there was an election, by partition.
        Source:
            Kafka protocol, ElectLeaders (key 43).
        """
        return self._wait(admin_calls.elect_leaders(self._native, partitions, unclean, timeout))

    def reassign_partitions(
        self,
        targets: Mapping[Place, Sequence[int] | None],
        *,
        timeout: float | None = None,
    ) -> None:
        """Begin to move replicas to other brokers; ``list_reassignments`` tells how far it is.

        Args:
            targets: The brokers, the preferred leader first; ``None`` ends a move.
            timeout: In seconds.
        Source:
            Kafka protocol, AlterPartitionReassignments (key 45).
        """
        self._wait(admin_calls.reassign_partitions(self._native, targets, timeout))

    def list_reassignments(
        self, partitions: Iterable[Partition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the partitions whose replicas move now.

        Args:
            partitions: Look only at these.
            timeout: In seconds.
        Source:
            Kafka protocol, ListPartitionReassignments (key 46).
        """
        return self._wait(admin_calls.list_reassignments(self._native, partitions, timeout))
