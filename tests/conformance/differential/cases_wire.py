"""Versions, metadata, the cluster, frames that are no requests, and what tools ask of a node."""

from __future__ import annotations

import struct
import uuid
from typing import Any

from tests.conformance.differential.registry import case, each
from tests.harness.patience import eventually
from tests.harness.session import Session
from tests.harness.wire import codec, schemas
from tests.harness.wire.connection import Closed, request_frame

#: API keys whose version ranges this broker promises to serve as Kafka does.
SERVED = [0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 29, 30, 31, 32,
          33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 50, 55, 57, 60, 61, 71,
          72, 74, 75]  # fmt: skip


@each(SERVED)
def api_versions_names_the_range_of_key(s: Session, key: int) -> Any:
    answer = s.call("ApiVersions", 4, ClientSoftwareName="a", ClientSoftwareVersion="1")
    return [one for one in answer["ApiKeys"] if one["ApiKey"] == key]


@each({"plain": ("a", "1"), "empty": ("", ""), "space": ("a b", "1"), "dash": ("a-b.c", "1.0-x"),
       "dash first": ("-a", "1")})  # fmt: skip
def api_versions_with_a_client_software_name(s: Session, names: tuple[str, str]) -> Any:
    body = {"ClientSoftwareName": names[0], "ClientSoftwareVersion": names[1]}
    return s.call("ApiVersions", 3, **body)["ErrorCode"]


@each([5, 99])
def api_versions_of_a_version_that_does_not_exist(s: Session, version: int) -> Any:
    payload = struct.pack(">hhih", 18, version, 5, -1) + b"\x00\x02a\x021\x00"
    s.open.send_raw(struct.pack(">i", len(payload)) + payload)
    answer = s.open.receive("ApiVersions", 0)
    usable = s.call("ApiVersions", 0)["ErrorCode"]
    keys = [one["ApiKey"] for one in answer["ApiKeys"]]
    low = [(o["MinVersion"], o["MaxVersion"]) for o in answer["ApiKeys"] if o["ApiKey"] == 18]
    return answer["ErrorCode"], keys, low, usable


def frame(payload: bytes, size: int | None = None) -> bytes:
    """A payload with its size, or with a size that is a lie."""
    return struct.pack(">i", len(payload) if size is None else size) + payload


def header(key: int, version: int, flexible: bool = False) -> bytes:
    """A request header without a client id."""
    return struct.pack(">hhih", key, version, 7, -1) + (b"\x00" if flexible else b"")


FRAMES: dict[str, bytes] = {
    "negative size": frame(b"", -1),
    "size of 2^31-1": frame(b"x" * 20, 2**31 - 1),
    "size above the limit": frame(b"x" * 20, 104_857_601),
    "size zero": frame(b""),
    "four bytes": frame(b"\x00\x03\x00\x09"),
    "unknown key": frame(header(999, 0)),
    "negative key": frame(header(-1, 0)),
    "Metadata of a version too high": frame(header(3, 99, True) + b"\x00\x00\x00\x00"),
    "Produce of version 2": frame(header(0, 2) + b"\x00" * 10),
    "Fetch of version 3": frame(header(1, 3) + b"\x00" * 20),
    "negative version": frame(header(3, -1)),
    "Metadata cut short": frame(header(3, 9, True)),
    "Metadata of 2^31-1 topics": frame(header(3, 4) + struct.pack(">i", 2**31 - 1)),
    "Metadata with a name that is too long": frame(header(3, 4) + b"\x00\x00\x00\x01\x7f\xff"),
    "a client id that is too long": frame(struct.pack(">hhih", 3, 4, 7, 9_999)),
    "a name that is not UTF-8": frame(header(3, 4) + b"\x00\x00\x00\x01\x00\x02\xff\xfe\x01"),
    "LeaderAndIsr, long gone": frame(header(4, 0) + b"\x00" * 20),
    "a controller's key": frame(header(52, 0) + b"\x00" * 20),
}


@each(FRAMES)
def a_frame_that_is_no_request(s: Session, data: bytes) -> Any:
    """Whether the connection is closed, and that another one is served meanwhile."""
    s.open.send_raw(data)
    try:
        s.open.receive_frame()
        first = "answered"
    except Closed:
        first = "closed"
    other = s.another().call("ApiVersions", 0, {})
    return first, other["ErrorCode"]


@case
def bytes_after_the_body_of_a_request(s: Session) -> Any:
    whole = request_frame("Metadata", 4, {"Topics": [], "AllowAutoTopicCreation": False}, 1)[4:]
    s.open.send_raw(frame(whole + b"more"))
    return sorted(s.open.receive("Metadata", 4))


@case
def unknown_tagged_fields_are_skipped(s: Session) -> Any:
    body = {"Topics": [], "_tags": {77: b"from the future"}}
    return s.call("Metadata", 9, **body)["Topics"]


@case
def answers_come_in_the_order_of_the_requests(s: Session) -> Any:
    topic = s.topic()
    part = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 100}
    waiting = {"MaxWaitMs": 300, "MinBytes": 1, "Topics": [{"Topic": topic, "Partitions": [part]}]}
    sent = [
        ("Fetch", 11, waiting),
        ("ApiVersions", 0, {}),
        ("Metadata", 9, {"Topics": []}),
        ("ListOffsets", 9, {"ReplicaId": -1, "Topics": []}),
    ]
    asked = [s.open.send(api, version, body) for api, version, body in sent]
    got = [s.open.receive(api, version)["_correlation_id"] for api, version, _ in sent]
    return got == asked


# Metadata


def shown(topic: dict[str, Any]) -> Any:
    """A topic of a metadata answer without its name."""
    return {key: value for key, value in topic.items() if key != "Name"}


@each(range(14))
def metadata_of_a_topic_in_every_version(s: Session, version: int) -> Any:
    topic = s.topic(2)
    answer = s.call("Metadata", version, Topics=[{"Name": topic}])
    for one in answer["Topics"]:
        one["Partitions"].sort(key=lambda part: part["PartitionIndex"])
    return [shown(one) for one in answer["Topics"]], len(answer["Brokers"])


@each({"unknown": "no-such-topic", "invalid": "a b", "empty": "", "too long": "x" * 250})
def metadata_of_a_name_without_creating_it(s: Session, name: str) -> Any:
    return shown(s.metadata(name, 9))


@each({"unknown": uuid.UUID(int=99), "zero": uuid.UUID(int=0)})
def metadata_of_a_topic_id(s: Session, topic_id: uuid.UUID) -> Any:
    asked = [{"Name": None, "TopicId": topic_id}]
    answer = s.call("Metadata", 12, Topics=asked, AllowAutoTopicCreation=False)
    return answer["Topics"]


@case
def metadata_by_the_id_of_a_topic(s: Session) -> Any:
    topic = s.topic()
    asked = [{"Name": None, "TopicId": s.topic_id(topic)}]
    (one,) = s.call("Metadata", 12, Topics=asked, AllowAutoTopicCreation=False)["Topics"]
    return one["Name"] == topic, shown(one)


@case
def metadata_creates_a_topic_when_it_may(s: Session) -> Any:
    name = s.name()
    first = s.call("Metadata", 9, Topics=[{"Name": name}], AllowAutoTopicCreation=True)
    eventually(lambda: s.leaders(name) == 4)
    return first["Topics"][0]["ErrorCode"], len(s.metadata(name)["Partitions"])


@each({"invalid": "a b", "internal": "__cluster_metadata"})
def metadata_does_not_create_a_name_that_is_wrong(s: Session, name: str) -> Any:
    answer = s.call("Metadata", 9, Topics=[{"Name": name}], AllowAutoTopicCreation=True)
    return answer["Topics"][0]["ErrorCode"]


@each([0, 1, 9])
def metadata_of_all_topics_and_of_none(s: Session, version: int) -> Any:
    topic = s.topic()
    everything = s.call("Metadata", version, Topics=[] if version == 0 else None)
    names = {one["Name"] for one in everything["Topics"]}
    none = len(s.call("Metadata", version, Topics=[])["Topics"]) if version else 0
    return topic in names, none


@case
def metadata_with_authorized_operations(s: Session) -> Any:
    topic = s.topic()
    answer = s.call(
        "Metadata", 10, Topics=[{"Name": topic}], IncludeTopicAuthorizedOperations=True,
        IncludeClusterAuthorizedOperations=True,
    )  # fmt: skip
    return answer["Topics"][0]["TopicAuthorizedOperations"], answer["ClusterAuthorizedOperations"]


# The cluster and what tools ask


@each(range(3))
def describe_cluster_in_every_version(s: Session, version: int) -> Any:
    return s.call("DescribeCluster", version, IncludeClusterAuthorizedOperations=True)


@each([2, 9])
def describe_cluster_of_another_kind_of_endpoint(s: Session, kind: int) -> Any:
    return s.call("DescribeCluster", 1, EndpointType=kind)["ErrorCode"]


@case
def describe_topic_partitions_pages(s: Session) -> Any:
    topic = s.topic(5)
    asked, limit = [{"Name": topic}], {"ResponsePartitionLimit": 2}
    first = s.call("DescribeTopicPartitions", 0, Topics=asked, **limit)
    cursor = {"TopicName": topic, "PartitionIndex": 2}
    second = s.call("DescribeTopicPartitions", 0, Topics=asked, Cursor=cursor, **limit)
    last = s.call("DescribeTopicPartitions", 0, Topics=asked)
    for one in (first, second, last):
        for found in one["Topics"]:
            found.pop("Name")
        if one["NextCursor"]:
            one["NextCursor"].pop("TopicName")
    return first, second, last


@case
def describe_topic_partitions_of_unknown_and_invalid_names(s: Session) -> Any:
    asked = [{"Name": "no-such-topic"}, {"Name": "a b"}, {"Name": ""}]
    answer = s.call("DescribeTopicPartitions", 0, Topics=asked)
    return [(one["Name"], one["ErrorCode"]) for one in answer["Topics"]]


@case
def describe_log_dirs_of_a_topic(s: Session) -> Any:
    topic = s.topic(2)
    s.fill(topic)
    asked = [{"Topic": topic, "Partitions": [0, 1, 7]}]
    answer = s.call("DescribeLogDirs", 4, Topics=asked)
    seen = []
    for place in answer["Results"]:
        for one in place["Topics"]:
            parts = sorted(one["Partitions"], key=lambda part: part["PartitionIndex"])
            seen.append((place["ErrorCode"], place["TotalBytes"] > 0, parts))
    return answer["ErrorCode"], seen


@case
def describe_acls_without_an_authorizer(s: Session) -> Any:
    body = {"ResourceTypeFilter": 1, "PatternTypeFilter": 1, "Operation": 1, "PermissionType": 1}
    answer = s.call("DescribeAcls", 3, **body)
    return answer["ErrorCode"], answer["Resources"]


@case
def no_partition_is_being_reassigned(s: Session) -> Any:
    answer = s.call("ListPartitionReassignments", 0, TimeoutMs=5000, Topics=None)
    return answer["ErrorCode"], answer["Topics"]


@case
def describe_quorum_names_a_leader_and_one_voter(s: Session) -> Any:
    parts = [{"PartitionIndex": 0}]
    asked = [{"TopicName": "__cluster_metadata", "Partitions": parts}]
    answer = s.call("DescribeQuorum", 1, Topics=asked)
    (part,) = answer["Topics"][0]["Partitions"]
    led = part["LeaderId"] == s.broker_id()
    return answer["ErrorCode"], part["ErrorCode"], led, len(part["CurrentVoters"])


@case
def describe_producers_of_odd_partitions(s: Session) -> Any:
    asked = [
        {"Name": s.topic(), "PartitionIndexes": [0, 5]},
        {"Name": s.name(), "PartitionIndexes": [0]},
    ]
    answer = s.call("DescribeProducers", 0, Topics=asked)
    return [
        (part["ErrorCode"], part["ActiveProducers"])
        for one in answer["Topics"]
        for part in one["Partitions"]
    ]


@each({"metrics": [16], "topics": [2], "brokers": [4], "odd": [99]})
def list_config_resources_of_a_type(s: Session, kinds: list[int]) -> Any:
    topic = s.topic()
    answer = s.call("ListConfigResources", 1, ResourceTypes=kinds)
    found = {one["ResourceName"] for one in answer["ConfigResources"]}
    return answer["ErrorCode"], topic in found


@each(["OffsetCommit", "Heartbeat", "DeleteRecords", "CreateTopics"])
def an_empty_request_is_answered_emptily(s: Session, api: str) -> Any:
    message = schemas.request(api)
    version = min(message.valid.high, 9)
    body = {one.name: codec.default_of(one, version) for one in message.fields
            if version in one.versions and one.tag is None}  # fmt: skip
    return s.call(api, version, **body)
