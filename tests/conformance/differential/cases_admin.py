"""Topics, partitions, configs, cluster: the control plane."""

from __future__ import annotations

import uuid
from typing import Any

from tests.conformance.differential.registry import case, each
from tests.harness.patience import eventually
from tests.harness.requests import alter, create, described
from tests.harness.session import Session


@each(range(2, 8))
def create_topics_in_every_version(s: Session, version: int) -> Any:
    return create(s, {"Name": s.name(), "NumPartitions": 3}, version=version)


@each(
    {
        "empty": "",
        "dot": ".",
        "dots": "..",
        "space": "a b",
        "slash": "a/b",
        "umlaut": "ä",
        "250 characters": "x" * 250,
        "colon": "a:b",
        "cluster metadata": "__cluster_metadata",
    }
)
def create_a_topic_with_a_name_that_is_odd(s: Session, name: str) -> Any:
    return create(s, {"Name": name})


@case
def create_a_topic_with_a_name_of_249_characters(s: Session) -> Any:
    name = (s.name() + "x" * 249)[:249]
    return create(s, {"Name": name})


@case
def create_a_topic_that_exists(s: Session) -> Any:
    return create(s, {"Name": s.topic()})


@case
def create_a_topic_whose_name_collides_by_dot_and_underscore(s: Session) -> Any:
    name = s.name()
    return create(s, {"Name": name + "a.b"}), create(s, {"Name": name + "a_b"})


@case
def create_the_same_topic_twice_in_one_request(s: Session) -> Any:
    name = s.name()
    return create(s, {"Name": name}, {"Name": name, "NumPartitions": 2}, {"Name": s.name()})


@each({"zero": 0, "default": -1, "minus two": -2, "very negative": -(2**31)})
def create_a_topic_with_a_partition_count(s: Session, count: int) -> Any:
    return create(s, {"Name": s.name(), "NumPartitions": count})


@each({"zero": 0, "default": -1, "two": 2, "minus two": -2})
def create_a_topic_with_a_replication_factor(s: Session, factor: int) -> Any:
    return create(s, {"Name": s.name(), "ReplicationFactor": factor})


@each({"right": [0], "two partitions": [0, 1], "gap": [0, 2], "twice": [0, 0]})
def create_a_topic_with_assignments(s: Session, indexes: list[int]) -> Any:
    node = s.broker_id()
    given = [{"PartitionIndex": i, "BrokerIds": [node]} for i in indexes]
    unset = {"NumPartitions": -1, "ReplicationFactor": -1}
    return create(s, {"Name": s.name(), "Assignments": given, **unset})


@each({"unknown broker": ([99], -1), "no broker": ([], -1), "counts as well": ([], 1)})
def create_a_topic_with_wrong_assignments(s: Session, given: tuple[list[int], int]) -> Any:
    brokers, count = given
    body = [{"PartitionIndex": 0, "BrokerIds": brokers or [s.broker_id()]}]
    if count == -1 and not brokers:
        body = [{"PartitionIndex": 0, "BrokerIds": []}]
    counts = {"NumPartitions": count, "ReplicationFactor": count}
    return create(s, {"Name": s.name(), "Assignments": body, **counts})


CONFIGS: dict[str, tuple[str, str | None]] = {
    "good": ("retention.ms", "1000"),
    "unlimited": ("retention.ms", "-1"),
    "below minus one": ("retention.ms", "-2"),
    "not a number": ("retention.ms", "abc"),
    "null": ("retention.ms", None),
    "empty": ("retention.ms", ""),
    "unknown key": ("no.such.key", "1"),
    "unknown policy": ("cleanup.policy", "shred"),
    "both policies": ("cleanup.policy", "compact,delete"),
    "no policy": ("cleanup.policy", ""),
    "min isr of zero": ("min.insync.replicas", "0"),
    "segment of one byte": ("segment.bytes", "1"),
    "segment too large": ("segment.bytes", "99999999999"),
    "unknown codec": ("compression.type", "brotli"),
    "unknown timestamp type": ("message.timestamp.type", "Sometime"),
    "ratio above one": ("min.cleanable.dirty.ratio", "1.5"),
    "not a boolean": ("preallocate", "perhaps"),
    "boolean in capitals": ("preallocate", "TRUE"),
    "spaces around": ("retention.ms", " 1000 "),
    "max message bytes negative": ("max.message.bytes", "-1"),
    "removed key": ("message.format.version", "3.0"),
    "unclean election": ("unclean.leader.election.enable", "true"),
    "throttled replicas": ("leader.replication.throttled.replicas", "*"),
    "bad throttled replicas": ("leader.replication.throttled.replicas", "nonsense"),
    "gzip level out of range": ("compression.gzip.level", "99"),
}


@each(CONFIGS)
def create_a_topic_with_a_config(s: Session, config: tuple[str, str | None]) -> Any:
    given = [{"Name": config[0], "Value": config[1]}]
    return create(s, {"Name": s.name(), "Configs": given})


@each(CONFIGS)
def alter_a_topic_config_by_setting_it(s: Session, config: tuple[str, str | None]) -> Any:
    topic = s.topic()
    code = alter(s, topic, [(config[0], 0, config[1])])
    return code, described(s, topic, [config[0]])


@case
def create_topics_only_to_validate(s: Session) -> Any:
    name = s.name()
    good = create(s, {"Name": name}, validate=True)
    bad = create(s, {"Name": "", "NumPartitions": 0}, validate=True)
    return good, bad, s.metadata(name)["ErrorCode"]


@case
def a_created_topic_tells_all_its_configs(s: Session) -> Any:
    given = [{"Name": "retention.ms", "Value": "5"}]
    topic = {"Name": s.name(), "NumPartitions": 2, "ReplicationFactor": 1, "Configs": given}
    answer = s.call("CreateTopics", 7, Topics=[topic], timeoutMs=10_000)["Topics"][0]
    answer.pop("Name")
    configs = {one.pop("Name"): one for one in answer.pop("Configs") or ()}
    return answer, configs


@each(range(1, 7))
def delete_topics_in_every_version(s: Session, version: int) -> Any:
    topic, unknown = s.topic(), s.name()
    if version >= 6:
        topics = [{"Name": topic}, {"Name": unknown}]
        answer = s.call("DeleteTopics", version, Topics=topics, TimeoutMs=5000)
    else:
        names = [topic, unknown]
        answer = s.call("DeleteTopics", version, TopicNames=names, TimeoutMs=5000)
    codes = {one["Name"] == topic: one["ErrorCode"] for one in answer["Responses"]}
    eventually(lambda: s.metadata(topic)["ErrorCode"] == 3)
    return codes[True], codes[False]


@case
def delete_topics_by_id_and_in_odd_ways(s: Session) -> Any:
    topic, topic_id = s.topic(), None
    topic_id = s.topic_id(topic)
    asked = [
        [{"Name": None, "TopicId": uuid.UUID(int=99)}],
        [{"Name": topic, "TopicId": topic_id}],
        [{"Name": None, "TopicId": uuid.UUID(int=0)}],
        [{"Name": topic}, {"Name": topic}],
        [{"Name": None, "TopicId": topic_id}],
        [],
    ]
    seen = []
    for topics in asked:
        answer = s.call("DeleteTopics", 6, Topics=topics, TimeoutMs=5000)
        seen.append([one["ErrorCode"] for one in answer["Responses"]])
    return seen


@case
def a_topic_created_again_has_another_id_and_no_records(s: Session) -> Any:
    topic = s.topic()
    s.fill(topic)
    before = s.topic_id(topic)
    s.call("DeleteTopics", 5, TopicNames=[topic], TimeoutMs=5000)
    eventually(lambda: s.metadata(topic)["ErrorCode"] == 3)
    s.create(topic)
    eventually(lambda: s.leaders(topic) == 1)
    return s.topic_id(topic) != before, s.list_offset(topic, -1)


@each({"more": 3, "the same": 2, "fewer": 1, "zero": 0, "negative": -1})
def create_partitions_up_to(s: Session, count: int) -> Any:
    topic = s.topic(2)
    asked = [{"Name": topic, "Count": count, "Assignments": None}]
    answer = s.call("CreatePartitions", 3, Topics=asked, TimeoutMs=5000, ValidateOnly=False)
    if count == 3:
        eventually(lambda: s.leaders(topic) == 3)
    return answer["Results"][0]["ErrorCode"], len(s.metadata(topic)["Partitions"])


@case
def create_partitions_in_odd_ways(s: Session) -> Any:
    topic, node = s.topic(2), s.broker_id()

    def grow(*topics: dict[str, Any], validate: bool = False) -> Any:
        body = {"Topics": list(topics), "TimeoutMs": 5000, "ValidateOnly": validate}
        return [one["ErrorCode"] for one in s.call("CreatePartitions", 1, **body)["Results"]]

    one_more = [{"BrokerIds": [node]}]
    return {
        "unknown topic": grow({"Name": s.name(), "Count": 3}),
        "twice": grow({"Name": topic, "Count": 3}, {"Name": topic, "Count": 4}),
        "only to validate": grow({"Name": topic, "Count": 3}, validate=True),
        "too few assignments": grow({"Name": topic, "Count": 4, "Assignments": one_more}),
        "unknown broker": grow({"Name": topic, "Count": 3, "Assignments": [{"BrokerIds": [99]}]}),
        "assigned": grow({"Name": topic, "Count": 3, "Assignments": one_more}),
    }


# Configs


@case
def describe_configs_of_a_topic_lists_every_key(s: Session) -> Any:
    return described(s, s.topic(), None)


@case
def describe_configs_with_synonyms(s: Session) -> Any:
    topic = s.topic(retention_ms="1000")
    keys = ["retention.ms", "cleanup.policy", "max.message.bytes"]
    return described(s, topic, keys, IncludeSynonyms=True)


@each(range(1, 5))
def describe_configs_in_every_version(s: Session, version: int) -> Any:
    keys = ["cleanup.policy", "max.message.bytes"]
    asked = [{"ResourceType": 2, "ResourceName": s.topic(), "ConfigurationKeys": keys}]
    (one,) = s.call("DescribeConfigs", version, Resources=asked)["Results"]
    one.pop("ResourceName")
    one["Configs"].sort(key=lambda config: config["Name"])
    return one


@each(
    {
        "unknown topic": (2, "no-such-topic"),
        "invalid topic": (2, "a b"),
        "empty topic": (2, ""),
        "unknown broker": (4, "99"),
        "broker by word": (4, "one"),
        "unknown type": (5, "x"),
        "client metrics": (16, "none"),
        "group": (32, "no-such-group"),
    }
)
def describe_configs_of(s: Session, resource: tuple[int, str]) -> Any:
    kind, name = resource
    code, configs = described(s, name, [], kind=kind)
    return code, sorted(configs)


@case
def describe_configs_of_the_broker_names_what_clients_look_for(s: Session) -> Any:
    keys = ["num.partitions", "auto.create.topics.enable", "log.retention.ms", "message.max.bytes",
            "log.segment.bytes", "default.replication.factor", "min.insync.replicas",
            "log.cleanup.policy", "offsets.retention.minutes", "compression.type"]  # fmt: skip
    return described(s, str(s.broker_id()), keys, kind=4)


@case
def describe_configs_of_keys_that_do_not_exist(s: Session) -> Any:
    return described(s, s.topic(), ["no.such.key", "cleanup.policy"])


CHANGES: dict[str, list[tuple[str, int, str | None]]] = {
    "set": [("retention.ms", 0, "1000")],
    "set and delete": [("retention.ms", 1, None)],
    "delete an unset key": [("segment.ms", 1, None)],
    "delete an unknown key": [("no.such.key", 1, None)],
    "append to a list": [("cleanup.policy", 2, "compact")],
    "append what is there": [("cleanup.policy", 2, "delete")],
    "subtract from a list": [("cleanup.policy", 3, "delete")],
    "subtract what is not there": [("cleanup.policy", 3, "compact")],
    "append to a number": [("retention.ms", 2, "5")],
    "the same key twice": [("retention.ms", 0, "1"), ("retention.ms", 0, "2")],
    "set to null": [("retention.ms", 0, None)],
    "unknown operation": [("retention.ms", 9, "1")],
    "one good and one bad": [("retention.ms", 0, "77"), ("segment.bytes", 0, "1")],
    "nothing": [],
}


@each(CHANGES)
def alter_configs_one_by_one(s: Session, changes: list[tuple[str, int, str | None]]) -> Any:
    topic = s.topic()
    code = alter(s, topic, changes)
    return code, described(s, topic, ["retention.ms", "cleanup.policy", "segment.ms"])


@each({"unknown topic": (2, "no-such-topic"), "empty topic": (2, ""), "unknown broker": (4, "99"),
       "unknown type": (5, "x")})  # fmt: skip
def alter_configs_of(s: Session, resource: tuple[int, str]) -> Any:
    return alter(s, resource[1], [("retention.ms", 0, "1000")], kind=resource[0])


@case
def alter_configs_only_to_validate(s: Session) -> Any:
    topic = s.topic()
    good = alter(s, topic, [("retention.ms", 0, "1000")], ValidateOnly=True)
    bad = alter(s, topic, [("retention.ms", 0, "abc")], ValidateOnly=True)
    return good, bad, described(s, topic, ["retention.ms"])


@case
def alter_configs_of_the_broker(s: Session) -> Any:
    node = str(s.broker_id())
    return {
        "read only": alter(s, node, [("log.dirs", 0, "/tmp")], kind=4),
        "unknown": alter(s, node, [("no.such.key", 0, "1")], kind=4),
        "bad value": alter(s, node, [("log.retention.ms", 0, "abc")], kind=4),
        "dynamic": alter(s, node, [("log.retention.ms", 0, "123456789")], kind=4),
        "told": described(s, node, ["log.retention.ms"], kind=4),
        "taken back": alter(s, node, [("log.retention.ms", 1, None)], kind=4),
        "default of all brokers": alter(s, "", [("log.retention.ms", 0, "5000000")], kind=4),
        "default taken back": alter(s, "", [("log.retention.ms", 1, None)], kind=4),
    }


@case
def the_old_alter_configs_replaces_everything(s: Session) -> Any:
    topic = s.topic(retention_ms="1000")

    def replace(configs: list[dict[str, Any]], name: str = topic) -> int:
        asked = [{"ResourceType": 2, "ResourceName": name, "Configs": configs}]
        return s.call("AlterConfigs", 2, Resources=asked)["Responses"][0]["ErrorCode"]

    codes = [
        replace([{"Name": "segment.ms", "Value": "60000"}]),
        replace([{"Name": "segment.ms", "Value": "abc"}]),
        replace([{"Name": "no.such.key", "Value": "1"}]),
        replace([{"Name": "segment.ms", "Value": None}]),
        replace([], name=s.name()),
    ]
    return codes, described(s, topic, ["retention.ms", "segment.ms"])
