"""What random requests found (``tests.conformance.chance``): orders of checks, and empty lists."""

from __future__ import annotations

import uuid
from typing import Any

from tests.conformance.differential.registry import case, each
from tests.harness.requests import join
from tests.harness.session import Session
from tests.harness.wire import batches


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
def a_refused_member_gets_no_protocol(s: Session, version: int) -> Any:
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


@each({"topic without a name": (2, ""), "group without a name": (32, ""), "unknown": (2, "nobody")})
def a_list_is_asked_of_what_is_none_of_a(s: Session, owner: tuple[int, str]) -> Any:
    kind, name = owner
    seen = []
    for key, value in (("retention.ms", "1"), ("cleanup.policy", ""), ("cleanup.policy", "none")):
        change = {"Name": key, "ConfigOperation": 2, "Value": value}
        asked = [{"ResourceType": kind, "ResourceName": name, "Configs": [change]}]
        (told,) = s.call("IncrementalAlterConfigs", 1, Resources=asked)["Responses"]
        seen.append((told["ErrorCode"], told["ErrorMessage"]))
    return seen


def altered_list(s: Session, before: str | None, operation: int, value: str) -> Any:
    """Of a topic: what was said, and what its policy is then."""
    topic = s.topic(cleanup_policy=before) if before is not None else s.topic()
    change = {"Name": "cleanup.policy", "ConfigOperation": operation, "Value": value}
    asked = [{"ResourceType": 2, "ResourceName": topic, "Configs": [change]}]
    (told,) = s.call("IncrementalAlterConfigs", 1, Resources=asked)["Responses"]
    s.settle()
    return told["ErrorCode"], told["ErrorMessage"], described(s, 2, topic, "cleanup.policy")


LISTS: dict[str, tuple[str | None, int, str]] = {
    "set to one twice": (None, 0, "delete,delete"),
    "set with blanks": (None, 0, " compact , delete,compact"),
    "set with an empty part": (None, 0, "compact,"),
    "set to a good and a bad part": (None, 0, "delete,none"),
    "nothing appended": (None, 2, ""),
    "one appended twice": (None, 2, "compact,compact"),
    "appended to an empty one": ("", 2, "compact"),
    "appended with a last comma": (None, 2, "compact,"),
    "blanks appended": ("compact", 2, " delete"),
    "blanks subtracted": ("compact,delete", 3, " compact , delete"),
    "one subtracted": ("compact,delete", 3, "delete"),
}


@each(LISTS)
def a_list_is(s: Session, change: tuple[str | None, int, str]) -> Any:
    return altered_list(s, *change)


#: Each value is good, and is not how Java writes it.
ODDLY_WRITTEN = {
    "cleanup.policy": " compact , delete", "compression.type": " gzip ",
    "max.message.bytes": "+5000", "min.cleanable.dirty.ratio": "0.50", "preallocate": "False",
    "retention.bytes": "007", "unclean.leader.election.enable": " TRUE", "segment.jitter.ms": "-0",
}  # fmt: skip


def described(s: Session, kind: int, name: str, *keys: str) -> dict[str, Any]:
    """By key its value, and what was said about it first."""
    asked = [{"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": list(keys)}]
    (told,) = s.call("DescribeConfigs", 4, Resources=asked, IncludeSynonyms=True)["Results"]
    return {one["Name"]: [one["Value"], *[syn["Value"] for syn in one["Synonyms"][:1]]]
            for one in told["Configs"]}  # fmt: skip


@case
def configs_of_a_topic_as_written_and_as_understood(s: Session) -> Any:
    name = s.name()
    configs = [{"Name": key, "Value": value} for key, value in ODDLY_WRITTEN.items()]
    new = {"Name": name, "NumPartitions": 1, "ReplicationFactor": 1, "Configs": configs}
    made = s.call("CreateTopics", 7, Topics=[new], timeoutMs=15_000)["Topics"][0]
    s.settle()
    echoed = {one["Name"]: one["Value"] for one in made["Configs"] if one["Name"] in ODDLY_WRITTEN}
    return echoed, described(s, 2, name, *ODDLY_WRITTEN)


@each(["0", "1", "1e-9", "0.0012", ".5"])
def a_fraction_as_java_writes_it(s: Session, text: str) -> Any:
    topic = s.topic(min_cleanable_dirty_ratio=text)
    return described(s, 2, topic, "min.cleanable.dirty.ratio")


@each([False, True])
def configs_of_a_broker_as_written_and_as_understood(s: Session, for_all: bool) -> Any:
    name = "" if for_all else str(s.broker_id())
    values = {"log.cleaner.delete.retention.ms": " 86400000 ", "log.cleanup.policy": " delete ",
              "log.cleaner.min.cleanable.ratio": "0.50"}  # fmt: skip

    def alter(operation: int) -> int:
        changes = [{"Name": key, "ConfigOperation": operation, "Value": value}
                   for key, value in values.items()]  # fmt: skip
        asked = [{"ResourceType": 4, "ResourceName": name, "Configs": changes}]
        code = s.call("IncrementalAlterConfigs", 1, Resources=asked)["Responses"][0]["ErrorCode"]
        s.settle()
        return int(code)

    return alter(0), described(s, 4, name, *values), alter(1)


#: By key: the values that a running broker takes, and those that it refuses with a reason.
ALTERED = {
    "max.connections": ("0", "1"), "max.connections.per.ip": ("0", "1"),
    "log.retention.ms": ("0", "1", "-1"),
    "log.cleaner.dedupe.buffer.size": ("1048576", "1048577", "-1"),
    "log.cleaner.min.cleanable.ratio": ("2", "-1", "1"),
    "log.cleanup.policy": ("compact,", "a,", "none", ""),
}  # fmt: skip


@each(list(ALTERED))
def may_a_running_broker_be_given(s: Session, key: str) -> Any:
    codes = []
    for value in ALTERED[key]:
        change = {"Name": key, "ConfigOperation": 0, "Value": value}
        asked = [{"ResourceType": 4, "ResourceName": "", "Configs": [change]}]
        told = s.call("IncrementalAlterConfigs", 1, Resources=asked, ValidateOnly=True)
        codes.append(told["Responses"][0]["ErrorCode"])
    return codes


REFUSED = (("cleanup.policy", "a,"), ("compression.type", " 1 "), ("segment.bytes", " +01 "),
           ("min.cleanable.dirty.ratio", "2"), ("max.message.bytes", " 1 x"),
           ("follower.replication.throttled.replicas", "x,y"))  # fmt: skip


@case
def a_refused_value_is_named_as_it_is_understood(s: Session) -> Any:
    topic, said = s.topic(), []
    for key, value in REFUSED:
        change = {"Name": key, "ConfigOperation": 0, "Value": value}
        asked = [{"ResourceType": 2, "ResourceName": topic, "Configs": [change]}]
        (told,) = s.call("IncrementalAlterConfigs", 1, Resources=asked)["Responses"]
        said.append((told["ErrorCode"], told["ErrorMessage"]))
    return said


@each(["log.retention.ms", "log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms"])
def synonyms_of_a_brokers_key_without_and_with_a_value(s: Session, key: str) -> Any:
    broker, seen = str(s.broker_id()), []
    for operation in (0, 1):
        change = {"Name": key, "ConfigOperation": operation, "Value": "3600000"}
        asked = [{"ResourceType": 4, "ResourceName": broker, "Configs": [change]}]
        s.call("IncrementalAlterConfigs", 1, Resources=asked)
        s.settle()
        described = [{"ResourceType": 4, "ResourceName": broker, "ConfigurationKeys": [key]}]
        answer = s.call("DescribeConfigs", 4, Resources=described, IncludeSynonyms=True)
        (told,) = answer["Results"][0]["Configs"]
        seen.append([(one["Name"], one["Source"], one["Value"]) for one in told["Synonyms"]])
    return seen


PAGES: dict[str, tuple[str, int, tuple[str, int] | None]] = {
    "all fit": ("abc", 9, None),
    "none fits after": ("abc", 2, None),
    "one fits in part": ("abc", 1, None),
    "the next page": ("abc", 1, ("b", 1)),
    "the last page": ("abc", 1, ("c", 0)),
    "only missing ones": ("ac", 1, None),
    "a bad name after": ("b~", 2, None),
}


@each(PAGES)
def a_page_of_topics_of_which_b_is_there(
    s: Session, asked: tuple[str, int, tuple[str, int] | None]
) -> Any:
    letters, limit, cursor = asked
    prefix = s.name()
    s.create(f"{prefix}-b", 2)
    s.settle()
    names = [{"Name": f"{prefix}-{letter}"} for letter in letters]
    where = cursor and {"TopicName": f"{prefix}-{cursor[0]}", "PartitionIndex": cursor[1]}
    answer = s.call("DescribeTopicPartitions", 0, Topics=names, ResponsePartitionLimit=limit,
                    Cursor=where)  # fmt: skip
    told = [(one["Name"][-1], one["ErrorCode"], len(one["Partitions"])) for one in answer["Topics"]]
    following = answer["NextCursor"]
    return told, following and (following["TopicName"][-1], following["PartitionIndex"])


@case
def an_id_given_to_a_dynamic_member_comes_back_with_an_instance(s: Session) -> Any:
    group = s.name()
    given = join(s, group)["MemberId"]
    told = join(s, group, given, instance="one")
    return told["ErrorCode"], told["MemberId"] == given


@each({"nothing else": ("x" * 4_097,), "what is kept": ("x" * 4_097, "kept")})
def a_group_after_a_commit_of_too_much_metadata_and(s: Session, texts: tuple[str, ...]) -> Any:
    group, topic = s.name(), s.topic(2)
    parts = [{"PartitionIndex": place, "CommittedOffset": 1, "CommittedMetadata": text}
             for place, text in enumerate(texts)]  # fmt: skip
    commit = s.call("OffsetCommit", 8, GroupId=group, GenerationIdOrMemberEpoch=-1, MemberId="",
                    Topics=[{"Name": topic, "Partitions": parts}])  # fmt: skip
    (told,) = s.call("DescribeGroups", 6, Groups=[group])["Groups"]
    return commit["Topics"][0]["Partitions"], told["ErrorCode"], told["GroupState"]
