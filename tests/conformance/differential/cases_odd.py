"""Requests that no client sends, and a few that old ones do: of groups, offsets and topics."""

from __future__ import annotations

import uuid
from typing import Any

from tests.conformance.differential.registry import case, each
from tests.harness.requests import join, member_of
from tests.harness.session import Session


def committed(s: Session) -> tuple[str, str]:
    """A group without members, and the topic of which it committed offset 1 of partition 0."""
    topic, group = s.topic(2), s.name()
    part = {"PartitionIndex": 0, "CommittedOffset": 1, "CommittedMetadata": "m"}
    s.call("OffsetCommit", 8, GroupId=group, GenerationIdOrMemberEpoch=-1, MemberId="",
           Topics=[{"Name": topic, "Partitions": [part]}])  # fmt: skip
    return group, topic


def offsets_of(groups: list[dict[str, Any]]) -> Any:
    """What an OffsetFetch answers about each group, without names."""
    return [
        (one["ErrorCode"],
         sorted((p["PartitionIndex"], p["CommittedOffset"], p["Metadata"], p["ErrorCode"])
                for topic in one["Topics"] for p in topic["Partitions"]))
        for one in groups
    ]  # fmt: skip


@each({"no group": 0, "a group twice": 1, "all topics": 2, "no topic": 3, "a partition twice": 4,
       "an empty id": 5, "a negative partition": 6, "a topic twice": 7})  # fmt: skip
def offset_fetch_of_several_groups_in_an_odd_way(s: Session, way: int) -> Any:
    group, topic = committed(s)

    def asked(*partitions: int) -> list[dict[str, Any]]:
        return [{"Name": topic, "PartitionIndexes": list(partitions)}]

    groups: list[dict[str, Any]] = [
        [],
        [{"GroupId": group, "Topics": asked(0)}, {"GroupId": group, "Topics": asked(1)}],
        [{"GroupId": group, "Topics": None}, {"GroupId": s.name(), "Topics": None}],
        [{"GroupId": group, "Topics": []}],
        [{"GroupId": group, "Topics": asked(0, 0)}],
        [{"GroupId": "", "Topics": asked(0)}],
        [{"GroupId": group, "Topics": asked(-1)}],
        [{"GroupId": group, "Topics": asked(0) + asked(1)}],
    ][way]  # type: ignore[assignment]
    seen = []
    for version in (8, 9):
        answer = s.call("OffsetFetch", version, Groups=groups, RequireStable=way % 2 == 0)
        seen.append(offsets_of(answer["Groups"]))
    return seen


@case
def offset_fetch_by_a_topic_id_that_is_unknown(s: Session) -> Any:
    group, _ = committed(s)
    topics = [{"TopicId": uuid.UUID(int=77), "PartitionIndexes": [0]}]
    answer = s.call("OffsetFetch", 10, Groups=[{"GroupId": group, "Topics": topics}],
                    RequireStable=False)  # fmt: skip
    return offsets_of(answer["Groups"])


COMMITS: dict[str, dict[str, Any]] = {
    "a negative offset": {"CommittedOffset": -1},
    "a very negative offset": {"CommittedOffset": -(2**63)},
    "a negative partition": {"PartitionIndex": -1},
    "an epoch": {"CommittedLeaderEpoch": 7},
    "no metadata": {"CommittedMetadata": None},
    "much metadata": {"CommittedMetadata": "x" * 4_097},
    "as much metadata as may be": {"CommittedMetadata": "x" * 4_096},
}


@each(COMMITS)
def an_offset_is_committed_with(s: Session, changed: dict[str, Any]) -> Any:
    topic, group = s.topic(), s.name()
    part = {"PartitionIndex": 0, "CommittedOffset": 1, "CommittedMetadata": "m", **changed}
    answer = s.call("OffsetCommit", 8, GroupId=group, GenerationIdOrMemberEpoch=-1, MemberId="",
                    Topics=[{"Name": topic, "Partitions": [part]}])  # fmt: skip
    codes = [p["ErrorCode"] for one in answer["Topics"] for p in one["Partitions"]]
    fetched = s.call("OffsetFetch", 7, GroupId=group, Topics=None, RequireStable=False)
    return codes, [
        (p["CommittedOffset"], p["CommittedLeaderEpoch"], len(p["Metadata"] or ""))
        for one in fetched["Topics"]
        for p in one["Partitions"]
    ]


COORDINATORS: dict[str, tuple[int, list[str]]] = {
    "nobody": (0, []),
    "the same twice": (0, ["a", "a"]),
    "an empty id": (0, [""]),
    "an unknown kind": (9, ["a"]),
    "a negative kind": (-1, ["a"]),
}


@each(COORDINATORS)
def find_coordinator_of(s: Session, asked: tuple[int, list[str]]) -> Any:
    kind, keys = asked
    seen = []
    for version in (4, 5, 6):
        answer = s.call("FindCoordinator", version, KeyType=kind, CoordinatorKeys=keys)
        seen.append([(one["Key"], one["ErrorCode"]) for one in answer["Coordinators"]])
    return seen


@each({"nothing": [], "an unknown kind": ["bogus"], "classic": ["classic"],
       "classic in capitals": ["CLASSIC"], "the newer": ["consumer", "share"]})  # fmt: skip
def list_groups_of_a_type(s: Session, types: list[str]) -> Any:
    group, _ = committed(s)
    answer = s.call("ListGroups", 5, StatesFilter=[], TypesFilter=types)
    found = [one for one in answer["Groups"] if one["GroupId"] == group]
    return answer["ErrorCode"], [(one["GroupState"], one["GroupType"]) for one in found]


@case
def delete_groups_in_odd_ways(s: Session) -> Any:
    group, _ = committed(s)
    asked = [[group, group], [], [s.name(), s.name()]]
    seen = []
    for names in asked:
        answer = s.call("DeleteGroups", 2, GroupsNames=names)
        seen.append(sorted(one["ErrorCode"] for one in answer["Results"]))
    return seen


@case
def describe_groups_in_odd_ways(s: Session) -> Any:
    group, _ = committed(s)
    seen = []
    for names in ([group, group], [""], [], [s.name()]):
        for version in (5, 6):
            answer = s.call("DescribeGroups", version, Groups=names,
                            IncludeAuthorizedOperations=True)  # fmt: skip
            seen.append([
                (one["ErrorCode"], one["GroupState"], one["AuthorizedOperations"])
                for one in answer["Groups"]
            ])  # fmt: skip
    return seen


@case
def members_leave_in_odd_ways(s: Session) -> Any:
    group = s.name()
    member, _ = member_of(s, group, instance="i")
    asked: list[list[dict[str, Any]]] = [
        [],
        [{"MemberId": "nobody", "GroupInstanceId": None}],
        [{"MemberId": "nobody", "GroupInstanceId": "i"}],
        [{"MemberId": "", "GroupInstanceId": "j"}],
        [{"MemberId": member, "GroupInstanceId": "i"}, {"MemberId": member,
                                                        "GroupInstanceId": "i"}],
    ]  # fmt: skip
    seen = []
    for members in asked:
        answer = s.call("LeaveGroup", 4, GroupId=group, Members=members)
        seen.append((answer["ErrorCode"], [one["ErrorCode"] for one in answer["Members"]]))
    return seen


@each({"zero": 0, "negative": -1, "too short": 5_999, "too long": 1_800_001})
def a_member_joins_with_a_session_timeout(s: Session, timeout_ms: int) -> Any:
    return join(s, s.name(), timeout_ms=timeout_ms)["ErrorCode"]


@each([-1, -2, -3, -4, -5, -6, -7])
def list_offsets_of_committed_records_at(s: Session, timestamp: int) -> Any:
    topic = s.topic()
    s.fill(topic)
    asked = [{"PartitionIndex": 0, "Timestamp": timestamp}]
    answer = s.call("ListOffsets", 11, ReplicaId=-1, IsolationLevel=1, TimeoutMs=5_000,
                    Topics=[{"Name": topic, "Partitions": asked}])  # fmt: skip
    (part,) = answer["Topics"][0]["Partitions"]
    return part


@each({"a debugging consumer": -2, "a replica": 5, "a negative one": -9})
def list_offsets_as(s: Session, replica: int) -> Any:
    topic = s.topic()
    s.fill(topic, 1)
    asked = [{"PartitionIndex": 0, "Timestamp": -1}]
    answer = s.call("ListOffsets", 9, ReplicaId=replica,
                    Topics=[{"Name": topic, "Partitions": asked}])  # fmt: skip
    (part,) = answer["Topics"][0]["Partitions"]
    return part["ErrorCode"], part["Offset"]


@each({"a debugging consumer": -2, "a replica": 5, "nobody": -9})
def offset_for_leader_epoch_as(s: Session, replica: int) -> Any:
    topic = s.topic()
    s.fill(topic, 1)
    parts = [{"Partition": 0, "CurrentLeaderEpoch": -1, "LeaderEpoch": 0},
             {"Partition": 9, "CurrentLeaderEpoch": -1, "LeaderEpoch": 0}]  # fmt: skip
    answer = s.call("OffsetForLeaderEpoch", 4, ReplicaId=replica,
                    Topics=[{"Topic": topic, "Partitions": parts}])  # fmt: skip
    return answer["Topics"][0]["Partitions"]


PARTITIONS: dict[str, tuple[int, list[list[int]] | None]] = {
    "very many": (2_000_000, None),
    "assigned to one twice": (2, [[-7, -7]]),
    "assigned to no broker": (2, [[]]),
    "assigned to more than asked": (2, [[-7], [-7]]),
    "assigned, none more": (1, [[-7]]),
    "an empty assignment": (2, []),
}


@each(PARTITIONS)
def more_partitions(s: Session, asked: tuple[int, list[list[int]] | None]) -> Any:
    count, assigned = asked
    node, topic = s.broker_id(), s.topic()
    rows = assigned and [
        {"BrokerIds": [node if one == -7 else one for one in row]} for row in assigned
    ]
    body = {"Name": topic, "Count": count, "Assignments": rows}
    answer = s.call("CreatePartitions", 3, Topics=[body], TimeoutMs=5000, ValidateOnly=True)
    return answer["Results"][0]["ErrorCode"]


@case
def topics_are_deleted_by_name_and_id_at_once(s: Session) -> Any:
    topic = s.topic()
    topic_id = s.topic_id(topic)
    by_id, by_name = {"Name": None, "TopicId": topic_id}, {"Name": topic}
    seen = []
    for topics in ([by_id, by_id], [by_id, by_name], [{"Name": "", "TopicId": uuid.UUID(int=0)}]):
        answer = s.call("DeleteTopics", 6, Topics=topics, TimeoutMs=5000)
        seen.append(sorted(one["ErrorCode"] for one in answer["Responses"]))
    return seen


@each({"nothing": [], "an empty name": [("", [0])], "a partition twice": [("t", [0, 0])],
       "no partition": [("t", [])], "a negative partition": [("t", [-1])]})  # fmt: skip
def describe_producers_of(s: Session, asked: list[tuple[str, list[int]]]) -> Any:
    topic = s.topic()
    topics = [{"Name": topic if name == "t" else name, "PartitionIndexes": indexes}
              for name, indexes in asked]  # fmt: skip
    answer = s.call("DescribeProducers", 0, Topics=topics)
    return [sorted((p["PartitionIndex"], p["ErrorCode"]) for p in one["Partitions"])
            for one in answer["Topics"]]  # fmt: skip


@each([0, 1])
def list_config_resources_of_every_type(s: Session, version: int) -> Any:
    topic = s.topic()
    body: dict[str, Any] = {"ResourceTypes": []} if version else {}
    answer = s.call("ListConfigResources", version, **body)
    resources = answer["ConfigResources"]
    kinds = {one.get("ResourceType", 16) for one in resources}
    return answer["ErrorCode"], sorted(kinds), topic in {one["ResourceName"] for one in resources}
