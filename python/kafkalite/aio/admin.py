"""The admin client for asyncio."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypeVar, Unpack

from .. import _native, admin_calls, feature_calls, group_calls, log_dir_calls
from ..admin_calls import ConfigChange, OffsetAt, Partition, TopicLike
from ..arguments import refuse_positional
from ..config import AdminOptions, ConfigValue, merged, warn
from ..descriptions import (
    ClusterDescription,
    CommittedOffset,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    FeatureMetadata,
    GroupDescription,
    GroupListing,
    ListedOffset,
    LogDirDescription,
    NewTopic,
    PartitionLag,
    QuorumDescription,
    Reassignment,
    ResourceKind,
    TopicDescription,
)
from ..feature_calls import UpgradeType
from ..records import Place, TopicPartition
from .waiting import in_thread, result_of

if TYPE_CHECKING:
    from typing import Never, Self

__all__ = ["AsyncAdminClient"]

T = TypeVar("T")


class AsyncAdminClient:
    """The asyncio twin of ``AdminClient``: the same calls, each awaited.

    Being cancelled ends a call; its request may still have taken effect.

    Args:
        config: Keys with dots, as in ``{"bootstrap.servers": "localhost:9092"}``.
        options: The same keys as keywords; they win over ``config``.

    Raises:
        ConfigError: A key or value that cannot be.
    """

    def __init__(
        self,
        *_positional: Never,
        config: Mapping[str, ConfigValue | None] | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        """Make a client; it connects when it is first asked something."""
        refuse_positional("AsyncAdminClient", _positional)
        self._native = _native.AdminClient(merged(config, options))
        warn(self._native.warnings)

    async def _wait(self, call: admin_calls.Call[T]) -> T:
        return call.finish(await result_of(call.operation))

    async def close(self, timeout: float = 5.0) -> None:
        """End its connections and its thread; calls under way raise ``ClosedError``."""
        await in_thread(self._native.close, timeout)

    def __repr__(self) -> str:
        """Return what it is, and whether it is open."""
        return f"<kafkalite.AsyncAdminClient {'closed' if self._native.closed else 'open'}>"

    def _end(self, timeout: float = 5.0) -> None:
        """Close without an event loop, for a fixture whose loop is over; listeners hear nothing."""
        self._native.close(timeout)

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the client."""
        await self.close()

    async def create_topic(
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
        """Make a topic, and wait until its partitions have leaders."""
        topic = NewTopic(name, partitions, replication_factor, config)
        made = await self.create_topics(
            [topic], exist_ok=exist_ok, validate_only=validate_only, timeout=timeout
        )
        return made[name]

    async def create_topics(
        self,
        topics: Iterable[TopicLike] | Mapping[str, int],
        *,
        exist_ok: bool = False,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, CreatedTopic]:
        """Make topics, see ``AdminClient.create_topics``."""
        call = admin_calls.create_topics(self._native, topics, exist_ok, validate_only, timeout)
        return await self._wait(call)

    async def delete_topic(
        self, name: str, *, missing_ok: bool = False, timeout: float | None = None
    ) -> None:
        """Remove a topic with all its records."""
        await self.delete_topics([name], missing_ok=missing_ok, timeout=timeout)

    async def delete_topics(
        self, names: Iterable[str], *, missing_ok: bool = False, timeout: float | None = None
    ) -> None:
        """Remove topics, see ``delete_topic``."""
        await self._wait(admin_calls.delete_topics(self._native, names, missing_ok, timeout))

    async def list_topics(
        self, *, internal: bool = False, timeout: float | None = None
    ) -> list[TopicDescription]:
        """Return all topics, by name."""
        return await self._wait(admin_calls.list_topics(self._native, internal, timeout))

    async def describe_topic(self, name: str, *, timeout: float | None = None) -> TopicDescription:
        """Return a topic with its partitions, their leaders and replicas."""
        return (await self.describe_topics([name], timeout=timeout))[name]

    async def describe_topics(
        self, names: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Return topics by name, see ``describe_topic``."""
        return await self._wait(admin_calls.describe_topics(self._native, names, timeout))

    async def create_partitions(
        self, name: str, total: int, *, validate_only: bool = False, timeout: float | None = None
    ) -> None:
        """Give a topic more partitions; keys then go to others than before."""
        await self._wait(
            admin_calls.create_partitions(self._native, {name: total}, validate_only, timeout)
        )

    async def describe_topic_config(
        self, name: str, *, timeout: float | None = None
    ) -> dict[str, ConfigEntry]:
        """Return a topic's configuration by key, defaults included."""
        resource = ConfigResource("topic", name)
        return (await self.describe_configs([resource], timeout=timeout))[resource]

    async def describe_broker_config(
        self, broker: int, *, timeout: float | None = None
    ) -> dict[str, ConfigEntry]:
        """Return a broker's configuration by key, defaults included."""
        resource = ConfigResource("broker", str(broker))
        return (await self.describe_configs([resource], timeout=timeout))[resource]

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return configurations by resource and key."""
        return await self._wait(
            admin_calls.describe_configs(
                self._native, resources, keys, synonyms, documentation, timeout
            )
        )

    async def list_config_resources(
        self, kinds: Iterable[ResourceKind] | None = None, *, timeout: float | None = None
    ) -> list[ConfigResource]:
        """Return what has a configuration."""
        return await self._wait(admin_calls.list_config_resources(self._native, kinds, timeout))

    async def alter_topic_config(
        self,
        name: str,
        changes: Mapping[str, ConfigChange],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change keys of a topic's configuration; the others stay as they are."""
        resource = ConfigResource("topic", name)
        await self.alter_configs({resource: changes}, validate_only=validate_only, timeout=timeout)

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, ConfigChange]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change keys of several configurations, see ``alter_topic_config``."""
        await self._wait(admin_calls.alter_configs(self._native, changes, validate_only, timeout))

    async def list_offsets(
        self,
        partitions: Iterable[Partition],
        at: OffsetAt = "latest",
        *,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """Look an offset up for each partition."""
        read_committed = isolation_level == "read_committed"
        return await self._wait(
            admin_calls.list_offsets(self._native, partitions, at, read_committed, timeout)
        )

    async def delete_records(
        self,
        before: Mapping[Place, int | Literal["end"]],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, int]:
        """Remove the records of partitions below an offset."""
        return await self._wait(admin_calls.delete_records(self._native, before, timeout))

    async def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """Return the cluster's id, controller and brokers."""
        return await self._wait(admin_calls.describe_cluster(self._native, timeout))

    async def describe_quorum(self, *, timeout: float | None = None) -> QuorumDescription:
        """Return who votes on metadata, who leads, and how far each has come."""
        return await self._wait(admin_calls.describe_quorum(self._native, timeout))

    async def describe_features(
        self, *, broker: int | None = None, timeout: float | None = None
    ) -> FeatureMetadata:
        """Return the finalized level of each feature, and the levels that a broker supports."""
        return await self._wait(feature_calls.describe_features(self._native, broker, timeout))

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = "upgrade",
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Finalize other levels of features: all of them, or none if there is an error."""
        await self._wait(
            feature_calls.update_features(
                self._native, levels, upgrade_type, validate_only, timeout
            )
        )

    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, list[LogDirDescription]]:
        """Return the directories of brokers with the replicas in them."""
        return await self._wait(admin_calls.describe_log_dirs(self._native, brokers, timeout))

    async def alter_replica_log_dirs(
        self,
        targets: Mapping[tuple[str, int, int], str | PathLike[str]],
        *,
        timeout: float | None = None,
    ) -> None:
        """Move replicas into other log directories of their brokers, which go on serving."""
        await self._wait(log_dir_calls.alter_replica_log_dirs(self._native, targets, timeout))

    async def elect_leaders(
        self,
        partitions: Iterable[Partition] | None = None,
        *,
        unclean: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, bool]:
        """Let partitions elect their preferred leaders."""
        return await self._wait(
            admin_calls.elect_leaders(self._native, partitions, unclean, timeout)
        )

    async def reassign_partitions(
        self,
        targets: Mapping[Place, Sequence[int] | None],
        *,
        timeout: float | None = None,
    ) -> None:
        """Begin to move replicas to other brokers; ``list_reassignments`` tells how far it is."""
        await self._wait(admin_calls.reassign_partitions(self._native, targets, timeout))

    async def list_reassignments(
        self, partitions: Iterable[Partition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the partitions whose replicas move now."""
        return await self._wait(admin_calls.list_reassignments(self._native, partitions, timeout))

    async def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        """Return the groups of all brokers, by id."""
        return await self._wait(group_calls.list_groups(self._native, states, types, timeout))

    async def describe_group(
        self, group_id: str, *, timeout: float | None = None
    ) -> GroupDescription:
        """Return a group with its members and what they were given."""
        return (await self.describe_groups([group_id], timeout=timeout))[group_id]

    async def describe_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """Return groups by id, see ``describe_group``."""
        return await self._wait(group_calls.describe_groups(self._native, group_ids, timeout))

    async def delete_group(
        self, group_id: str, *, missing_ok: bool = False, timeout: float | None = None
    ) -> None:
        """Remove a group without members, and what it committed."""
        await self.delete_groups([group_id], missing_ok=missing_ok, timeout=timeout)

    async def delete_groups(
        self, group_ids: Iterable[str], *, missing_ok: bool = False, timeout: float | None = None
    ) -> None:
        """Remove groups, see ``delete_group``."""
        await self._wait(group_calls.delete_groups(self._native, group_ids, missing_ok, timeout))

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[Partition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return what a group committed; partitions without a commit are left out."""
        return await self._wait(
            group_calls.list_group_offsets(self._native, group_id, partitions, timeout)
        )

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[Place, int | CommittedOffset],
        *,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets for a group without members."""
        await self._wait(group_calls.alter_group_offsets(self._native, group_id, offsets, timeout))

    async def reset_group_offsets(
        self,
        group_id: str,
        to: OffsetAt,
        partitions: Iterable[Partition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, CommittedOffset]:
        """Commit a place in time for a group without members, see ``list_offsets``."""
        return await self._wait(
            group_calls.reset_group_offsets(self._native, group_id, to, partitions, timeout)
        )

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[Partition], *, timeout: float | None = None
    ) -> None:
        """Remove commits of a group for partitions that no member reads."""
        await self._wait(
            group_calls.delete_group_offsets(self._native, group_id, partitions, timeout)
        )

    async def group_lag(
        self, group_id: str, *, timeout: float | None = None
    ) -> dict[TopicPartition, PartitionLag]:
        """Return how far a group is behind on each partition that it committed for."""
        return await self._wait(group_calls.group_lag(self._native, group_id, timeout))
