"""The calls of ``AdminClient`` about consumer groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from . import _native, group_calls
from .admin_calls import Call, OffsetAt, Partition
from .descriptions import CommittedOffset, GroupDescription, GroupListing, PartitionLag
from .records import Place, TopicPartition

T = TypeVar("T")


class GroupAdmin:
    """What an admin client does with consumer groups."""

    _native: _native.AdminClient

    def _wait(self, call: Call[T]) -> T:
        return call.finish(call.operation.result())

    def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        """Return the groups of all brokers, by id.

        Args:
            states: Only in one of these, such as ``Stable`` or ``Empty``.
            types: Only of one of these, such as ``Classic``.
            timeout: In seconds.
        Source:
            Kafka protocol, ListGroups (key 16).
        """
        return self._wait(group_calls.list_groups(self._native, states, types, timeout))

    def describe_group(self, group_id: str, *, timeout: float | None = None) -> GroupDescription:
        """Return a group with its members and what they were given.

        Raises:
            GroupNotFoundError: There is no such group.
        Source:
            Kafka protocol, DescribeGroups (key 15).
        """
        return self.describe_groups([group_id], timeout=timeout)[group_id]

    def describe_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """Return groups by id, see ``describe_group``.

        Raises:
            PartialError: Some do not exist.
        """
        return self._wait(group_calls.describe_groups(self._native, group_ids, timeout))

    def delete_group(
        self, group_id: str, *, missing_ok: bool = False, timeout: float | None = None
    ) -> None:
        """Remove a group without members, and what it committed.

        Args:
            group_id: The group.
            missing_ok: It need not exist.
            timeout: In seconds.

        Raises:
            GroupNotFoundError: There is no such group.
            GroupNotEmptyError: It has members.
        Source:
            Kafka protocol, DeleteGroups (key 42).
        """
        self.delete_groups([group_id], missing_ok=missing_ok, timeout=timeout)

    def delete_groups(
        self, group_ids: Iterable[str], *, missing_ok: bool = False, timeout: float | None = None
    ) -> None:
        """Remove groups, see ``delete_group``.

        Raises:
            PartialError: Some could not be removed.
        """
        self._wait(group_calls.delete_groups(self._native, group_ids, missing_ok, timeout))

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[Partition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return what a group committed; partitions without a commit are left out.

        Args:
            group_id: The group; an unknown group has no commits.
            partitions: Look only at these.
            timeout: In seconds.
        Source:
            Kafka protocol, OffsetFetch (key 9).
        """
        return self._wait(
            group_calls.list_group_offsets(self._native, group_id, partitions, timeout)
        )

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[Place, int | CommittedOffset],
        *,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets for a group without members.

        Args:
            group_id: The group; it is made if there is none.
            offsets: The next record to read, by partition.
            timeout: In seconds.

        Raises:
            GroupNotEmptyError: It has members.
            PartialError: Some could not be committed.
        Source:
            Kafka protocol, OffsetCommit (key 8).
        """
        self._wait(group_calls.alter_group_offsets(self._native, group_id, offsets, timeout))

    def reset_group_offsets(
        self,
        group_id: str,
        to: OffsetAt,
        partitions: Iterable[Partition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, CommittedOffset]:
        """Commit a place in time for a group without members, see ``list_offsets``.

        Args:
            group_id: The group.
            to: The place; where no record is so new it is the end.
            partitions: By default all that the group committed for.
            timeout: In seconds.

        Returns:
            What was committed, by partition.

        Raises:
            GroupNotEmptyError: It has members.
            PartialError: Some could not be committed.
        """
        return self._wait(
            group_calls.reset_group_offsets(self._native, group_id, to, partitions, timeout)
        )

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[Partition], *, timeout: float | None = None
    ) -> None:
        """Remove commits of a group for partitions that no member reads.

        Raises:
            GroupNotFoundError: There is no such group.
            GroupError: A member reads the topic.
            PartialError: Some could not be removed.
        Source:
            Kafka protocol, OffsetDelete (key 47).
        """
        self._wait(group_calls.delete_group_offsets(self._native, group_id, partitions, timeout))

    def group_lag(
        self, group_id: str, *, timeout: float | None = None
    ) -> dict[TopicPartition, PartitionLag]:
        """Return how far a group is behind on each partition that it committed for.

        Raises:
            PartialError: Some partitions cannot be looked at.
        """
        return self._wait(group_calls.group_lag(self._native, group_id, timeout))
