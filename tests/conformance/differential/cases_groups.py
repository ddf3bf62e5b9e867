"""The classic group protocol, committed offsets, and the admin APIs for groups."""

from __future__ import annotations

from typing import Any

from tests.conformance.differential.registry import case, each
from tests.harness.requests import beat, commit, committed, join, member_of, sync
from tests.harness.session import Session


@each(range(10))
def a_member_joins_syncs_and_leaves_in_every_version(s: Session, version: int) -> Any:
    group = s.name()
    first = join(s, group, version=version)
    member = first["MemberId"]
    if first["ErrorCode"] == 79:
        second = join(s, group, member, version=version)
    else:
        second = first
    synced = sync(
        s, group, member, second["GenerationId"], assign={member: b"share"},
        version=min(version, 5),
    )  # fmt: skip
    alive = beat(s, group, member, second["GenerationId"])
    left = s.call("LeaveGroup", 2, GroupId=group, MemberId=member)
    leader = second["Leader"] == member
    return first["ErrorCode"], leader, second, synced, alive, left


@each({"empty group": {"group": ""}, "unknown member": {"member": "nobody"},
       "timeout too short": {"timeout_ms": 1}, "timeout too long": {"timeout_ms": 10_000_000},
       "no protocols": {"protocols": ()}, "no protocol type": {"kind": ""},
       "foreign protocol type": {"kind": "connect"}})  # fmt: skip
def join_with_odd_arguments(s: Session, odd: dict[str, Any]) -> Any:
    odd = {"group": s.name(), **odd}
    return join(s, **odd)


@each({"another protocol": {"protocols": ("roundrobin",)}, "another type": {"kind": "connect"},
       "no protocols": {"protocols": ()}, "unknown member": {"member": "nobody"}})  # fmt: skip
def join_of_a_group_that_does_not_fit(s: Session, odd: dict[str, Any]) -> Any:
    group = s.name()
    member_of(s, group)
    answer = join(s, group, **odd)
    return answer["ErrorCode"], answer["GenerationId"], answer["ProtocolName"]


@each({"unknown group": ("no such group", "m", 1), "empty group": ("", "m", 1)})
def sync_heartbeat_and_leave_without_a_group(s: Session, who: tuple[str, str, int]) -> Any:
    group, member, generation = who
    left = s.call("LeaveGroup", 2, GroupId=group, MemberId=member)
    return (
        sync(s, group, member, generation)["ErrorCode"],
        beat(s, group, member, generation),
        left["ErrorCode"],
    )


@case
def sync_and_heartbeat_with_wrong_members_and_generations(s: Session) -> Any:
    group = s.name()
    member, generation = member_of(s, group)
    return {
        "right": (sync(s, group, member, generation), beat(s, group, member, generation)),
        "old generation": (
            sync(s, group, member, generation - 1)["ErrorCode"],
            beat(s, group, member, generation - 1),
        ),
        "future generation": (
            sync(s, group, member, generation + 1)["ErrorCode"],
            beat(s, group, member, generation + 1),
        ),
        "unknown member": (
            sync(s, group, "nobody", generation)["ErrorCode"],
            beat(s, group, "nobody", generation),
        ),
        "empty member": beat(s, group, "", generation),
    }


@each({"right": ("consumer", "range"), "wrong type": ("connect", "range"),
       "wrong protocol": ("consumer", "roundrobin"), "nulls": (None, None)})  # fmt: skip
def sync_says_which_protocol_it_means(s: Session, named: tuple[str | None, str | None]) -> Any:
    group = s.name()
    member, generation = member_of(s, group)
    more = {"ProtocolType": named[0], "ProtocolName": named[1]}
    return sync(s, group, member, generation, version=5, **more)


@case
def operations_on_a_group_that_all_members_left(s: Session) -> Any:
    group = s.name()
    member, generation = member_of(s, group)
    s.call("LeaveGroup", 2, GroupId=group, MemberId=member)
    again = s.call("LeaveGroup", 2, GroupId=group, MemberId=member)["ErrorCode"]
    return sync(s, group, member, generation), beat(s, group, member, generation), again


@each(range(6))
def leave_in_every_version(s: Session, version: int) -> Any:
    group = s.name()
    member, _ = member_of(s, group)
    if version <= 2:
        return s.call("LeaveGroup", version, GroupId=group, MemberId=member)
    members = [{"MemberId": member}, {"MemberId": "nobody"}]
    members.append({"MemberId": "", "GroupInstanceId": "no such instance"})
    return s.call("LeaveGroup", version, GroupId=group, Members=members)


@case
def a_static_member_that_comes_back_keeps_its_place(s: Session) -> Any:
    group = s.name()
    member, generation = member_of(s, group, instance="one")
    back = join(s, group, instance="one")
    fenced = beat(s, group, member, generation, GroupInstanceId="one")
    alive = beat(s, group, back["MemberId"], back["GenerationId"], GroupInstanceId="one")
    wrong = beat(s, group, back["MemberId"], back["GenerationId"], GroupInstanceId="two")
    other = join(s, group, member, instance="one")["ErrorCode"]
    gone = s.call("LeaveGroup", 3, GroupId=group, Members=[{"GroupInstanceId": "one"}])
    return back["ErrorCode"], back["GenerationId"], fenced, alive, wrong, other, gone


# Committed offsets


@each(range(2, 10))
def offset_commit_outside_a_group_in_every_version(s: Session, version: int) -> Any:
    topic, group = s.topic(), s.name()
    code = commit(s, group, topic, 5, version=version)
    return code, committed(s, group, topic)


@case
def offset_commit_and_fetch_by_topic_id(s: Session) -> Any:
    topic, group = s.topic(), s.name()
    topic_id = s.topic_id(topic)
    part = {"PartitionIndex": 0, "CommittedOffset": 7, "CommittedMetadata": ""}
    asked = [{"TopicId": topic_id, "Partitions": [part]}]
    first = s.call("OffsetCommit", 10, GroupId=group, Topics=asked)
    named = [{"TopicId": topic_id, "PartitionIndexes": [0]}]
    second = s.call("OffsetFetch", 10, Groups=[{"GroupId": group, "Topics": named}])
    return first, second["Groups"][0]["Topics"]


@case
def offset_commits_that_are_refused(s: Session) -> Any:
    topic, group = s.topic(), s.name()
    member, generation = member_of(s, group)
    own = {"GenerationIdOrMemberEpoch": generation, "MemberId": member}
    return {
        "right": commit(s, group, topic, 3, **own),
        "old generation": commit(
            s, group, topic, 3, GenerationIdOrMemberEpoch=generation - 1, MemberId=member
        ),
        "unknown member": commit(
            s, group, topic, 3, GenerationIdOrMemberEpoch=generation, MemberId="nobody"
        ),
        "outside of a group with members": commit(s, group, topic, 3),
        "no such group": commit(
            s, s.name(), topic, 3, GenerationIdOrMemberEpoch=4, MemberId="nobody"
        ),
        "unknown topic": commit(s, group, s.name(), 3, **own),
        "unknown partition": commit(s, group, topic, 3, partition=9, **own),
        "metadata too large": commit(s, group, topic, 3, metadata="x" * 5000, **own),
        "null metadata": commit(s, group, topic, 4, metadata=None, **own),
        "negative offset": commit(s, group, topic, -1, **own),
        "empty group": commit(s, "", topic, 3),
    }


@each(range(1, 8))
def offset_fetch_in_every_single_group_version(s: Session, version: int) -> Any:
    topic, group = s.topic(), s.name()
    commit(s, group, topic, 5)
    return committed(s, group, topic, version), committed(s, s.name(), topic, version)


@case
def offset_fetch_of_all_topics_of_a_group(s: Session) -> Any:
    topic, group = s.topic(), s.name()
    commit(s, group, topic, 5)
    return committed(s, group, None), committed(s, s.name(), None)


@case
def offset_fetch_of_unknown_topics_and_partitions(s: Session) -> Any:
    topic, group = s.topic(), s.name()
    commit(s, group, topic, 5)
    asked = [{"Name": topic, "PartitionIndexes": [0, 1, 9]}]
    asked.append({"Name": s.name(), "PartitionIndexes": [0]})
    answer = s.call("OffsetFetch", 7, GroupId=group, Topics=asked, RequireStable=True)
    return [one["Partitions"] for one in answer["Topics"]], answer["ErrorCode"]


@each([8, 9])
def offset_fetch_of_several_groups(s: Session, version: int) -> Any:
    topic, group = s.topic(), s.name()
    commit(s, group, topic, 5)
    named = [{"Name": topic, "PartitionIndexes": [0]}]
    groups = [{"GroupId": group, "Topics": named}, {"GroupId": group, "Topics": None}]
    groups += [{"GroupId": s.name(), "Topics": None}]
    answer = s.call("OffsetFetch", version, Groups=groups)
    return [(one["ErrorCode"], one["Topics"]) for one in answer["Groups"]]


@case
def offset_delete_in_all_its_ways(s: Session) -> Any:
    topic, group = s.topic(), s.name()
    commit(s, group, topic, 5)

    def drop(which: str, name: str, part: int = 0) -> Any:
        topics = [{"Name": name, "Partitions": [{"PartitionIndex": part}]}]
        answer = s.call("OffsetDelete", 0, GroupId=which, Topics=topics)
        return answer["ErrorCode"], [one["Partitions"] for one in answer["Topics"]]

    return {
        "unknown group": drop(s.name(), topic),
        "unknown topic": drop(group, s.name()),
        "unknown partition": drop(group, topic, 4),
        "right": drop(group, topic),
        "gone": committed(s, group, topic),
    }


# Admin


@each(range(7))
def describe_groups_in_every_version(s: Session, version: int) -> Any:
    group = s.name()
    member_of(s, group)
    answer = s.call("DescribeGroups", version, Groups=[group, s.name()])
    return sorted(answer["Groups"], key=lambda one: one["GroupId"])


@case
def describe_groups_of_an_empty_group(s: Session) -> Any:
    group, topic = s.name(), s.topic()
    commit(s, group, topic, 5)
    answer = s.call("DescribeGroups", 5, Groups=[group])
    return answer["Groups"]


@each({"all": {}, "stable": {"StatesFilter": ["Stable"]}, "lower case": {
       "StatesFilter": ["stable"]}, "empty": {"StatesFilter": ["Empty"]}, "unknown state": {
       "StatesFilter": ["Nonsense"]}, "classic": {"TypesFilter": ["classic"]}, "consumer": {
       "TypesFilter": ["consumer"]}, "unknown type": {"TypesFilter": ["nonsense"]}})  # fmt: skip
def list_groups_with_a_filter(s: Session, body: dict[str, Any]) -> Any:
    group = s.name()
    member_of(s, group)
    answer = s.call("ListGroups", 5, **body)
    return answer["ErrorCode"], [one for one in answer["Groups"] if one["GroupId"] == group]


@each(range(6))
def list_groups_in_every_version(s: Session, version: int) -> Any:
    group = s.name()
    member_of(s, group)
    answer = s.call("ListGroups", version)
    return [one for one in answer["Groups"] if one["GroupId"] == group]


@each(range(3))
def delete_groups_in_every_version(s: Session, version: int) -> Any:
    busy, idle = s.name(), s.name()
    member_of(s, busy)
    commit(s, idle, s.topic(), 5)
    answer = s.call("DeleteGroups", version, GroupsNames=[busy, idle, s.name(), ""])
    codes = {one["GroupId"]: one["ErrorCode"] for one in answer["Results"]}
    return codes.pop(busy), codes.pop(idle), sorted(codes.values())


@each(range(4))
def find_coordinator_of_a_group_by_its_key(s: Session, version: int) -> Any:
    return s.call("FindCoordinator", version, Key=s.name())


@each(range(4, 7))
def find_coordinator_of_several_keys(s: Session, version: int) -> Any:
    answer = s.call("FindCoordinator", version, KeyType=0, CoordinatorKeys=["a", "b", ""])
    return [(one["ErrorCode"], one["NodeId"]) for one in answer["Coordinators"]]


@each({"unknown type": (9, ["a"]), "negative type": (-1, ["a"]), "no keys": (0, [])})
def find_coordinator_with_odd_arguments(s: Session, ask: tuple[int, list[str]]) -> Any:
    answer = s.call("FindCoordinator", 4, KeyType=ask[0], CoordinatorKeys=ask[1])
    return answer["Coordinators"]
