"""What random requests found (``tests.conformance.chance``): orders of checks, and empty lists."""

from __future__ import annotations

import uuid
from typing import Any

from tests.conformance.differential.cases_groups import join
from tests.conformance.differential.session import Session, case, each
from tests.conformance.wire import batches


@each({"zero": 0, "negative": -1})
def changes_of_metadata_with_no_time_left(s: Session, timeout_ms: int) -> Any:
    topic, late = s.topic(), {"TimeoutMs": timeout_ms}
    new = {"Name": s.name(), "NumPartitions": 1, "ReplicationFactor": 1}
    one = [{"Topic": topic, "Partitions": [0]}]
    moved = [{"Name": topic, "Partitions": [{"PartitionIndex": 0, "Replicas": None}]}]
    return (
        s.call("CreateTopics", 7, Topics=[new], timeoutMs=timeout_ms),
        s.call("CreatePartitions", 3, Topics=[{"Name": topic, "Count": 2}], **late),
        s.call("ElectLeaders", 2, ElectionType=0, TopicPartitions=one, **late),
        s.call("ElectLeaders", 2, ElectionType=2, TopicPartitions=[], **late),
        s.call("ElectLeaders", 2, ElectionType=0, TopicPartitions=None, **late),
        s.call("AlterPartitionReassignments", 0, Topics=moved, **late),
        s.call("AlterPartitionReassignments", 1, Topics=[], AllowReplicationFactorChange=False,
               **late),
        s.call("DeleteTopics", 5, TopicNames=[topic, s.name()], **late),
        s.metadata(topic)["ErrorCode"],
    )  # fmt: skip


@each({"there": True, "not there": False})
def a_topic_is_named_without_partitions_that_is(s: Session, is_there: bool) -> Any:
    name, group = s.topic() if is_there else s.name(), s.name()
    s.call("OffsetCommit", 8, GroupId=group, GenerationIdOrMemberEpoch=-1, MemberId="",
           Topics=[{"Name": s.topic(), "Partitions": [{"PartitionIndex": 0}]}])  # fmt: skip
    empty = [{"Name": name, "Partitions": []}]
    commit: dict[str, Any] = {"GroupId": group, "GenerationIdOrMemberEpoch": -1, "MemberId": ""}
    return (
        s.call("Produce", 9, Acks=-1, TimeoutMs=5_000,
               TopicData=[{"Name": name, "PartitionData": []}])["Responses"],
        s.call("ListOffsets", 9, ReplicaId=-1, Topics=empty)["Topics"],
        s.call("DeleteRecords", 2, Topics=empty, TimeoutMs=5_000)["Topics"],
        s.call("AlterReplicaLogDirs", 2, Dirs=[{"Path": "/x", "Topics": empty}])["Results"],
        s.call("OffsetCommit", 8, Topics=empty, **commit)["Topics"],
        s.call("OffsetDelete", 0, GroupId=group, Topics=empty)["Topics"],
    )  # fmt: skip


@each({"there": 0, "not there": 9})
def offsets_of_an_unknown_group_are_deleted_for_a_partition_that_is(s: Session, index: int) -> Any:
    topics = [{"Name": s.topic(), "Partitions": [{"PartitionIndex": index}]}]
    return s.call("OffsetDelete", 0, GroupId=s.name(), Topics=topics)


@each([6, 7, 9])
def who_may_not_join_hears_of_no_protocol(s: Session, version: int) -> Any:
    return [join(s, s.name(), version=version, timeout_ms=1),
            join(s, s.name(), "nobody", version=version)]  # fmt: skip


SETTINGS = {
    "a good value": ("retention.ms", 0, "1"),
    "a bad value": ("retention.ms", 0, "x"),
    "a bad operation": ("retention.ms", 3, "1"),
    "an unknown key": ("no.such.key", 0, "1"),
}


@each(SETTINGS)
def a_topic_that_is_not_there_is_given(s: Session, setting: tuple[str, int, str]) -> Any:
    key, operation, value = setting
    change = {"Name": key, "ConfigOperation": operation, "Value": value}
    resources = [{"ResourceType": 2, "ResourceName": name, "Configs": [change]}
                 for name in (s.name(), ".", "a b")]  # fmt: skip
    answer = s.call("IncrementalAlterConfigs", 1, Resources=resources)
    return sorted((one["ResourceName"], one["ErrorCode"]) for one in answer["Responses"])


@case
def produce_with_odd_acks_to_what_is_not_there(s: Session) -> Any:
    topic, good = s.topic(), batches.simple(b"v")
    return [
        s.produce(s.name(), good, acks=2)["ErrorCode"],
        s.produce(topic, good, acks=2, partition=7)["ErrorCode"],
        s.produce(topic, good, acks=2, version=13, topic_id=uuid.UUID(int=9))["ErrorCode"],
        s.produce(topic, b"", acks=2)["ErrorCode"],
        s.produce(topic, good, acks=2)["ErrorCode"],
    ]


@case
def metadata_by_an_unknown_id_with_operations(s: Session) -> Any:
    topics = [{"TopicId": uuid.UUID(int=9), "Name": None}]
    return s.call("Metadata", 12, Topics=topics, IncludeTopicAuthorizedOperations=True)["Topics"]


FETCHES: dict[str, tuple[int, int, dict[str, Any]]] = {
    "what is there": (0, 0, {}),
    "an unknown partition": (7, 0, {}),
    "out of range": (0, 99, {}),
    "with an epoch to come": (0, 0, {"CurrentLeaderEpoch": 9}),
    "from another history": (0, 99, {"LastFetchedEpoch": 0}),
}


@each(FETCHES)
def the_list_of_aborted_transactions(s: Session, asked: tuple[int, int, dict[str, Any]]) -> Any:
    partition, offset, part = asked
    topic = s.topic()
    s.fill(topic, 1)
    answers = [s.fetch(topic, offset, version=12, partition=partition, part=part, IsolationLevel=i)
               for i in (0, 1)]  # fmt: skip
    return [one["Responses"][0]["Partitions"][0]["AbortedTransactions"] for one in answers]


@case
def a_session_goes_on_with_ids_and_a_wrong_epoch(s: Session) -> Any:
    topic = s.topic()
    session = s.fetch(topic, 0, version=12, SessionId=0, SessionEpoch=0)["SessionId"]
    return [s.fetch(topic, 0, version=13, SessionId=session, SessionEpoch=epoch)["ErrorCode"]
            for epoch in (5, 1)]  # fmt: skip


@case
def configs_of_a_topic_and_of_something_unknown(s: Session) -> Any:
    topic = s.topic()
    asked = [{"ResourceType": kind, "ResourceName": topic, "ConfigurationKeys": ["retention.ms"]}
             for kind in (2, 99)]  # fmt: skip
    answer = s.call("DescribeConfigs", 4, Resources=asked)
    return sorted((one["ResourceType"], one["ErrorCode"]) for one in answer["Results"])
