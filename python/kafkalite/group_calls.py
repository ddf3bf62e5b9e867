"""What both admin clients do with consumer groups; see ``admin_calls``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import descriptions as told
from .admin_calls import (
    Call,
    OffsetAt,
    Partition,
    one_or_many,
    pairs,
    partition_of,
    settled,
    time_of,
)
from .records import Place, TopicPartition

if TYPE_CHECKING:
    from ._native import AdminClient

_GROUP_ID_NOT_FOUND = 69


def list_groups(
    native: AdminClient, states: Iterable[str], types: Iterable[str], timeout: float | None
) -> Call[list[told.GroupListing]]:
    """Start listing groups."""
    operation = native.list_groups(list(states), list(types), timeout)
    return Call(operation, lambda groups: [told.GroupListing(*group) for group in groups])


def describe_groups(
    native: AdminClient, groups: Iterable[str], timeout: float | None
) -> Call[dict[str, told.GroupDescription]]:
    """Start describing groups."""

    def member(fields: Any) -> told.MemberDescription:
        member_id, instance_id, client_id, host, topics, assignment = fields
        partitions = tuple(TopicPartition(*of) for of in assignment)
        return told.MemberDescription(
            member_id, instance_id, client_id, host, tuple(topics), partitions
        )

    def described(fields: Any) -> told.GroupDescription:
        group_id, state, protocol_type, protocol, coordinator, members = fields
        return told.GroupDescription(
            group_id,
            state,
            protocol_type,
            protocol,
            coordinator,
            tuple(member(each) for each in members),
        )

    operation = native.describe_groups(one_or_many(groups), timeout)
    return Call(operation, lambda results: settled(results, str, described))


def delete_groups(
    native: AdminClient, groups: Iterable[str], missing_ok: bool, timeout: float | None
) -> Call[None]:
    """Start removing groups."""
    operation = native.delete_groups(one_or_many(groups), timeout)
    ignoring = _GROUP_ID_NOT_FOUND if missing_ok else None

    def finish(results: Any) -> None:
        settled(results, str, bool, ignoring)

    return Call(operation, finish)


def _committed(fields: Any) -> told.CommittedOffset:
    return told.CommittedOffset(*fields)


def list_group_offsets(
    native: AdminClient,
    group: str,
    partitions: Iterable[Partition] | None,
    timeout: float | None,
) -> Call[dict[TopicPartition, told.CommittedOffset]]:
    """Start listing what a group committed."""
    operation = native.list_group_offsets(group, pairs(partitions), timeout)
    return Call(operation, lambda results: settled(results, partition_of, _committed))


def alter_group_offsets(
    native: AdminClient,
    group: str,
    offsets: Mapping[Place, int | told.CommittedOffset],
    timeout: float | None,
) -> Call[None]:
    """Start committing for a group."""
    arguments = []
    for (topic, number), given in offsets.items():
        offset = told.CommittedOffset(given) if isinstance(given, int) else given
        commit = (offset.offset, offset.leader_epoch, offset.metadata)
        arguments.append(((topic, number), commit))
    operation = native.alter_group_offsets(group, arguments, timeout)

    def finish(results: Any) -> None:
        settled(results, partition_of, bool)

    return Call(operation, finish)


def reset_group_offsets(
    native: AdminClient,
    group: str,
    to: OffsetAt,
    partitions: Iterable[Partition] | None,
    timeout: float | None,
) -> Call[dict[TopicPartition, told.CommittedOffset]]:
    """Start committing a place in time for a group."""
    operation = native.reset_group_offsets(group, pairs(partitions), time_of(to), timeout)
    return Call(operation, lambda results: settled(results, partition_of, _committed))


def delete_group_offsets(
    native: AdminClient, group: str, partitions: Iterable[Partition], timeout: float | None
) -> Call[None]:
    """Start removing what a group committed."""
    operation = native.delete_group_offsets(group, pairs(partitions) or [], timeout)

    def finish(results: Any) -> None:
        settled(results, partition_of, bool)

    return Call(operation, finish)


def group_lag(
    native: AdminClient, group: str, timeout: float | None
) -> Call[dict[TopicPartition, told.PartitionLag]]:
    """Start comparing what a group committed with the ends of partitions."""
    operation = native.group_lag(group, timeout)
    return Call(
        operation,
        lambda results: settled(results, partition_of, lambda fields: told.PartitionLag(*fields)),
    )
