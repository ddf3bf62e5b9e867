"""One partition that a request names twice, in one topic of the request or in two."""

from __future__ import annotations

from typing import Any

from tests.conformance.differential.registry import case, each
from tests.harness.requests import join, member_of, sync
from tests.harness.session import Session
from tests.harness.wire.batches import simple

GOOD = simple(b"one", b"two")

IN_ONE_TOPIC = {"in one topic": True, "in two": False}


def named(key: str, name: Any, list_key: str, parts: list[Any], together: bool) -> list[Any]:
    """The topics of a request: all of ``parts`` below one entry, or each below its own."""
    if together:
        return [{key: name, list_key: parts}]
    return [{key: name, list_key: [part]} for part in parts]


def told(answer: list[dict[str, Any]], list_key: str) -> list[list[dict[str, Any]]]:
    """The partitions of each topic of an answer."""
    return [topic[list_key] for topic in answer]


@case
def a_produce_to_one_partition_in_two_topics_of_the_request(s: Session) -> Any:
    name = s.topic()
    parts = [{"Index": 0, "Records": GOOD}, {"Index": 0, "Records": simple(b"three")}]
    data = named("Name", name, "PartitionData", parts, together=False)
    answer = s.call("Produce", 9, Acks=-1, TimeoutMs=1000, TopicData=data)
    return told(answer["Responses"], "PartitionResponses"), s.list_offset(name, -1)


@each(IN_ONE_TOPIC)
def list_offsets_twice(s: Session, together: bool) -> Any:
    name = s.topic()
    s.fill(name)
    parts = [{"PartitionIndex": 0, "Timestamp": -1}, {"PartitionIndex": 0, "Timestamp": -2}]
    topics = named("Name", name, "Partitions", parts, together)
    return told(s.call("ListOffsets", 9, ReplicaId=-1, Topics=topics)["Topics"], "Partitions")


@each({f"{how}, {which}": (together, offsets)
       for how, together in IN_ONE_TOPIC.items()
       for which, offsets in {"the lower last": (6, 3), "the higher last": (3, 6),
                              "the last out of range": (3, 99),
                              "the first out of range": (99, 3)}.items()})  # fmt: skip
def delete_records_twice(s: Session, how: tuple[bool, tuple[int, int]]) -> Any:
    together, offsets = how
    name = s.topic()
    s.fill(name)
    parts = [{"PartitionIndex": 0, "Offset": offset} for offset in offsets]
    topics = named("Name", name, "Partitions", parts, together)
    answer = s.call("DeleteRecords", 2, Topics=topics, TimeoutMs=5000)
    return told(answer["Topics"], "Partitions"), s.list_offset(name, -2)


@each(IN_ONE_TOPIC)
def offset_for_leader_epoch_twice(s: Session, together: bool) -> Any:
    name = s.topic()
    s.fill(name)
    parts = [{"Partition": 0, "LeaderEpoch": epoch, "CurrentLeaderEpoch": -1} for epoch in (0, 9)]
    topics = named("Topic", name, "Partitions", parts, together)
    answer = s.call("OffsetForLeaderEpoch", 4, ReplicaId=-1, Topics=topics)
    return told(answer["Topics"], "Partitions")


@each({f"{how}, {which}": (together, parts)
       for how, together in IN_ONE_TOPIC.items()
       for which, parts in {
           "both right": ((0, 5, "a"), (0, 3, "b")),
           "the first refused": ((0, 5, "x" * 5_000), (0, 3, "b")),
           "the last refused": ((0, 5, "a"), (0, 3, "x" * 5_000)),
           "unknown": ((7, 5, "a"), (7, 3, "b")),
       }.items()})  # fmt: skip
def offset_commit_twice(s: Session, how: tuple[bool, tuple[tuple[int, int, str], ...]]) -> Any:
    together, rows = how
    name, group = s.topic(), s.name()
    parts = [
        {"PartitionIndex": index, "CommittedOffset": offset, "CommittedMetadata": text}
        for index, offset, text in rows
    ]
    topics = named("Name", name, "Partitions", parts, together)
    answer = s.call("OffsetCommit", 8, GroupId=group, GenerationIdOrMemberEpoch=-1, MemberId="",
                    Topics=topics)  # fmt: skip
    asked = [{"Name": name, "PartitionIndexes": [0]}]
    kept = s.call("OffsetFetch", 7, GroupId=group, Topics=asked, RequireStable=False)
    return told(answer["Topics"], "Partitions"), told(kept["Topics"], "Partitions")


@each(IN_ONE_TOPIC)
def offset_commit_by_id_twice(s: Session, together: bool) -> Any:
    name, group = s.topic(), s.name()
    parts = [{"PartitionIndex": 0, "CommittedOffset": offset} for offset in (5, 3)]
    topics = named("TopicId", s.topic_id(name), "Partitions", parts, together)
    answer = s.call("OffsetCommit", 10, GroupId=group, GenerationIdOrMemberEpoch=-1, MemberId="",
                    Topics=topics)  # fmt: skip
    return told(answer["Topics"], "Partitions")


@each({f"{how}, version {version}": (together, version)
       for how, together in IN_ONE_TOPIC.items() for version in (1, 7, 9)})  # fmt: skip
def offset_fetch_twice(s: Session, how: tuple[bool, int]) -> Any:
    together, version = how
    name, group = s.topic(), s.name()
    part = {"PartitionIndex": 0, "CommittedOffset": 1, "CommittedMetadata": "m"}
    s.call("OffsetCommit", 8, GroupId=group, GenerationIdOrMemberEpoch=-1, MemberId="",
           Topics=[{"Name": name, "Partitions": [part]}])  # fmt: skip
    topics = [{"Name": name, "PartitionIndexes": [0, 0]}]
    if not together:
        topics = [{"Name": name, "PartitionIndexes": [0]}] * 2
    if version < 8:
        body = {"GroupId": group, "Topics": topics}
        if version >= 7:
            body["RequireStable"] = False
        return told(s.call("OffsetFetch", version, **body)["Topics"], "Partitions")
    groups = [{"GroupId": group, "Topics": topics}]
    answer = s.call("OffsetFetch", version, Groups=groups, RequireStable=False)
    return told(answer["Groups"][0]["Topics"], "Partitions")


@each(IN_ONE_TOPIC)
def offset_delete_twice(s: Session, together: bool) -> Any:
    name, group = s.topic(), s.name()
    part = {"PartitionIndex": 0, "CommittedOffset": 1}
    s.call("OffsetCommit", 8, GroupId=group, GenerationIdOrMemberEpoch=-1, MemberId="",
           Topics=[{"Name": name, "Partitions": [part]}])  # fmt: skip
    topics = named("Name", name, "Partitions", [{"PartitionIndex": 0}] * 2, together)
    answer = s.call("OffsetDelete", 0, GroupId=group, Topics=topics)
    return answer["ErrorCode"], told(answer["Topics"], "Partitions")


@each({f"{how}, version {version}": (together, version)
       for how, together in IN_ONE_TOPIC.items() for version in (11, 13)})  # fmt: skip
def fetch_twice(s: Session, how: tuple[bool, int]) -> Any:
    together, version = how
    name = s.topic()
    s.fill(name)
    parts = [{"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
             for offset in (0, 6)]  # fmt: skip
    key, value = ("TopicId", s.topic_id(name)) if version >= 13 else ("Topic", name)
    topics = named(key, value, "Partitions", parts, together)
    answer = s.call("Fetch", version, MaxWaitMs=0, MinBytes=0, MaxBytes=1 << 20, Topics=topics)
    return [
        [(part["PartitionIndex"], part["ErrorCode"], part["HighWatermark"], len(part["Records"]))
         for part in parts]
        for parts in told(answer["Responses"], "Partitions")
    ]  # fmt: skip


@case
def a_member_leaves_twice_in_one_request(s: Session) -> Any:
    group = s.name()
    member, _ = member_of(s, group)
    members = [{"MemberId": member}, {"MemberId": member}]
    return s.call("LeaveGroup", 4, GroupId=group, Members=members)


@case
def a_leader_assigns_to_one_member_twice(s: Session) -> Any:
    group = s.name()
    first = join(s, group)
    if first["ErrorCode"] == 79:
        first = join(s, group, first["MemberId"])
    member = first["MemberId"]
    shares = [{"MemberId": member, "Assignment": text} for text in (b"one", b"two")]
    answer = s.call("SyncGroup", 3, GroupId=group, GenerationId=first["GenerationId"],
                    MemberId=member, Assignments=shares)  # fmt: skip
    again = sync(s, group, member, first["GenerationId"])
    return answer, again


@each(IN_ONE_TOPIC)
def describe_log_dirs_twice(s: Session, together: bool) -> Any:
    name = s.topic()
    topics = [{"Topic": name, "Partitions": [0, 0]}]
    if not together:
        topics = [{"Topic": name, "Partitions": [0]}] * 2
    answer = s.call("DescribeLogDirs", 4, Topics=topics)
    return [
        [[part["PartitionIndex"] for part in topic["Partitions"]] for topic in one["Topics"]]
        for one in answer["Results"]
    ]


@each(["DescribeConfigs", "IncrementalAlterConfigs"])
def a_resource_twice(s: Session, api: str) -> Any:
    name = s.topic()
    rows = [("retention.ms", "100000"), ("retention.ms", "200000")]
    if api == "DescribeConfigs":
        resources = [{"ResourceType": 2, "ResourceName": name, "ConfigurationKeys": [key]}
                     for key in ("retention.ms", "segment.bytes")]  # fmt: skip
        answer = s.call(api, 4, Resources=resources)
        return [(one["ErrorCode"], [config["Name"] for config in one["Configs"]])
                for one in answer["Results"]]  # fmt: skip
    operation = {"ConfigOperation": 0} if api.startswith("Incremental") else {}
    resources = [
        {"ResourceType": 2, "ResourceName": name,
         "Configs": [{"Name": key, "Value": value, **operation}]}
        for key, value in rows
    ]  # fmt: skip
    answer = s.call(api, 1 if operation else 2, Resources=resources, ValidateOnly=False)
    s.settle()
    asked = [{"ResourceType": 2, "ResourceName": name, "ConfigurationKeys": ["retention.ms"]}]
    now = s.call("DescribeConfigs", 4, Resources=asked)["Results"][0]["Configs"][0]["Value"]
    return [one["ErrorCode"] for one in answer["Responses"]], now
