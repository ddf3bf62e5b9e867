"""What tools set on a broker and ask of it: dynamic configs, directories, elections, security."""

from __future__ import annotations

from typing import Any

from tests.conformance.differential.registry import case, each
from tests.harness.patience import eventually
from tests.harness.requests import alter, described
from tests.harness.session import Session

#: Keys of Kafka's that are ours too, and whose values do not depend on the machine.
KEYS = [
    "auto.create.topics.enable", "broker.rack", "compression.gzip.level", "compression.lz4.level",
    "compression.type", "compression.zstd.level", "connections.max.idle.ms",
    "default.replication.factor", "delete.topic.enable", "fetch.max.bytes",
    "group.initial.rebalance.delay.ms", "group.max.session.timeout.ms", "group.max.size",
    "group.min.session.timeout.ms", "log.cleaner.backoff.ms", "log.cleaner.dedupe.buffer.size",
    "log.cleaner.delete.retention.ms", "log.cleaner.enable", "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio", "log.cleaner.min.compaction.lag.ms", "log.cleaner.threads",
    "log.cleanup.policy", "log.flush.interval.messages", "log.flush.interval.ms",
    "log.flush.offset.checkpoint.interval.ms", "log.flush.scheduler.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms", "log.index.interval.bytes",
    "log.index.size.max.bytes", "log.message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms", "log.message.timestamp.type", "log.preallocate",
    "log.retention.bytes", "log.retention.check.interval.ms", "log.retention.hours",
    "log.retention.minutes", "log.retention.ms", "log.roll.hours", "log.roll.jitter.hours",
    "log.roll.jitter.ms", "log.roll.ms", "log.segment.bytes", "log.segment.delete.delay.ms",
    "max.connections", "max.connections.per.ip", "max.incremental.fetch.session.cache.slots",
    "max.request.partition.size.limit", "message.max.bytes", "num.partitions",
    "num.recovery.threads.per.data.dir", "offset.metadata.max.bytes", "offsets.commit.timeout.ms",
    "offsets.load.buffer.size", "offsets.retention.check.interval.ms", "offsets.retention.minutes",
    "offsets.topic.compression.codec", "offsets.topic.num.partitions",
    "offsets.topic.segment.bytes", "producer.id.expiration.ms", "queued.max.requests",
    "replica.high.watermark.checkpoint.interval.ms", "socket.listen.backlog.size",
    "socket.request.max.bytes", "unclean.leader.election.enable",
]  # fmt: skip

#: Keys that are there on both, with values of each broker's own.
PLACES = ["broker.id", "node.id", "listeners", "advertised.listeners", "log.dirs", "log.dir",
          "num.io.threads", "num.network.threads", "socket.send.buffer.bytes",
          "queued.max.request.bytes", "listener.security.protocol.map"]  # fmt: skip


@case
def describe_configs_of_a_broker_key_by_key(s: Session) -> Any:
    return described(s, str(s.broker_id()), KEYS, kind=4, IncludeSynonyms=True)


@case
def describe_configs_of_a_broker_tells_who_and_where_it_is(s: Session) -> Any:
    code, told = described(s, str(s.broker_id()), PLACES, kind=4)
    for one in told.values():
        one["Value"] = one["Value"] is not None
    where = f"PLAINTEXT://{s.address}"
    keys = ["advertised.listeners", "broker.id", "node.id"]
    values = described(s, str(s.broker_id()), keys, kind=4)[1]
    ids = {values[key]["Value"] for key in ("broker.id", "node.id")} == {str(s.broker_id())}
    return code, told, values["advertised.listeners"]["Value"] == where, ids


ALTERATIONS: dict[str, tuple[str, str]] = {
    "leader throttle": ("leader.replication.throttled.rate", "1000"),
    "follower throttle": ("follower.replication.throttled.rate", "1000"),
    "throttle between directories": ("replica.alter.log.dirs.io.max.bytes.per.second", "1000"),
    "throttle by word": ("leader.replication.throttled.rate", "fast"),
    "throttle below zero": ("follower.replication.throttled.rate", "-1"),
    "unknown key": ("no.such.key", "1"),
    "unknown password": ("my.own.password", "secret"),
    "cleaner threads": ("log.cleaner.threads", "2"),
    "too many cleaner threads": ("log.cleaner.threads", "50"),
    "cleaner threads by word": ("log.cleaner.threads", "many"),
    "cleaner backoff": ("log.cleaner.backoff.ms", "1000"),
    "cleaner buffer": ("log.cleaner.io.buffer.size", "100000"),
    "I/O threads": ("num.io.threads", "4"),
    "too many I/O threads": ("num.io.threads", "100"),
    "no network threads": ("num.network.threads", "0"),
    "replica fetchers": ("num.replica.fetchers", "2"),
    "recovery threads": ("num.recovery.threads.per.data.dir", "3"),
    "connections of an address": ("max.connections.per.ip.overrides", "127.0.0.1:50"),
    "local retention": ("log.local.retention.ms", "-2"),
    "transaction verification": ("transaction.partition.verification.enable", "false"),
    "a policy": ("log.cleanup.policy", "compact"),
    "an unknown codec": ("compression.type", "zip"),
    "a segment too small": ("log.segment.bytes", "2"),
    "a broker's id": ("broker.id", "3"),
    "advertised listeners": ("advertised.listeners", "PLAINTEXT://127.0.0.1:1"),
    "idle connections": ("connections.max.idle.ms", "1"),
    "retention by hours": ("log.retention.hours", "3"),
    "coordinator threads": ("group.coordinator.threads", "2"),
    "a keystore": ("ssl.keystore.location", "/no/such/file"),
    "an unknown class": ("principal.builder.class", "no.such.Class"),
    "a kerberos key": ("sasl.kerberos.min.time.before.relogin", "1000"),
    "a login": ("sasl.jaas.config", "x"),
    "client certificates": ("ssl.client.auth", "requested"),
    "client certificates by chance": ("ssl.client.auth", "perhaps"),
    "config providers": ("config.providers", ""),
    "min isr": ("min.insync.replicas", "1"),
    "no flushes": ("log.flush.interval.ms", "-1"),
    "no retention": ("log.retention.ms", "0"),
}


def altered(s: Session, name: str, change: tuple[str, str]) -> Any:
    """Set one key of a broker, look at it, take it back, look again."""
    key, value = change
    seen = [alter(s, name, [(key, 0, value)], kind=4), described(s, name, [key], kind=4)]
    seen += [alter(s, name, [(key, 1, None)], kind=4), described(s, name, [key], kind=4)]
    # Defaults that count threads are each broker's own.
    for _, told in (seen[1], seen[3]):
        for one in told.values():
            if one["ConfigSource"] == 5 or key in PLACES:
                one["Value"] = "its own"
    return seen


@each(ALTERATIONS)
def a_config_of_one_broker(s: Session, change: tuple[str, str]) -> Any:
    return altered(s, str(s.broker_id()), change)


@each(ALTERATIONS)
def a_config_of_all_brokers(s: Session, change: tuple[str, str]) -> Any:
    return altered(s, "", change)


#: The smallest lag and the largest, of all brokers.
LAGS = ["log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"]


def may_have(s: Session, key: str, value: str) -> bool:
    """Whether a topic could be created with this config."""
    topic = {"Name": s.name(), "NumPartitions": 1, "ReplicationFactor": 1, "Assignments": []}
    topic["Configs"] = [{"Name": key, "Value": value}]
    answer = s.call("CreateTopics", 7, Topics=[topic], timeoutMs=5000, validateOnly=True)
    return bool(answer["Topics"][0]["ErrorCode"] == 0)


def lags_taken_back(s: Session) -> int:
    """Take the lags of all brokers back, and wait until topics may have any."""
    code = alter(s, "", [(key, 1, None) for key in LAGS], kind=4)
    eventually(lambda: may_have(s, "min.compaction.lag.ms", "3600000"))
    eventually(lambda: may_have(s, "max.compaction.lag.ms", "1"))
    return code


@case
def a_brokers_lags_that_contradict_each_other(s: Session) -> Any:
    low, high = [(LAGS[0], 0, "2000"), (LAGS[1], 0, "1000")]
    seen = [alter(s, "", changes, kind=4) for changes in ([low, high], [low], [high])]
    return seen, lags_taken_back(s)


@case
def a_lag_of_all_brokers_that_contradicts_a_topics(s: Session) -> Any:
    topic = s.topic(cleanup_policy="compact", min_compaction_lag_ms="3600000")
    seen = [alter(s, "", [(LAGS[1], 0, "60000")], kind=4)]
    keys = ["cleanup.policy", "min.compaction.lag.ms"]
    return [*seen, described(s, topic, keys), lags_taken_back(s)]


@case
def a_topics_lag_that_contradicts_that_of_all_brokers(s: Session) -> Any:
    topic = s.topic()
    seen = [alter(s, "", [(LAGS[0], 0, "2000")], kind=4)]
    eventually(lambda: not may_have(s, "max.compaction.lag.ms", "1999"))
    seen += [alter(s, topic, [("max.compaction.lag.ms", 0, value)]) for value in ("1000", "2000")]
    return [*seen, lags_taken_back(s)]


@case
def min_isr_is_never_taken_from_the_cluster(s: Session) -> Any:
    key = "min.insync.replicas"
    told = described(s, "", [key], kind=4, IncludeSynonyms=True)
    return told, alter(s, "", [(key, 1, None)], kind=4), alter(s, "", [(key, 0, "1")], kind=4)


@case
def several_configs_of_a_broker_are_altered_together_or_not_at_all(s: Session) -> Any:
    node = str(s.broker_id())
    mixed = [("log.cleaner.threads", 0, "2"), ("node.id", 0, "2"), ("no.such.key", 0, "2")]
    good = [("log.cleaner.threads", 0, "2"), ("no.such.key", 0, "2")]
    keys = ["log.cleaner.threads", "no.such.key"]
    seen = [alter(s, node, mixed, kind=4), described(s, node, keys, kind=4),
            alter(s, node, good, kind=4, ValidateOnly=True), described(s, node, keys, kind=4),
            alter(s, node, good, kind=4), described(s, node, keys, kind=4)]  # fmt: skip
    back = [(key, 1, None) for key in keys]
    return seen, alter(s, node, back, kind=4), described(s, node, keys, kind=4)


@case
def the_old_alter_configs_replaces_everything_of_a_broker(s: Session) -> Any:
    node = str(s.broker_id())
    keys = ["log.cleaner.threads", "no.such.key", "num.partitions"]

    def replace(**configs: str) -> Any:
        listed = [{"Name": k.replace("_", "."), "Value": v} for k, v in configs.items()]
        asked = [{"ResourceType": 4, "ResourceName": node, "Configs": listed}]
        code = s.call("AlterConfigs", 2, Resources=asked)["Responses"][0]["ErrorCode"]
        return code, described(s, node, keys, kind=4)

    return [replace(log_cleaner_threads="2"), replace(no_such_key="1"),
            replace(num_partitions="9"), replace()]  # fmt: skip


# Delegation tokens: no client logs in over PLAINTEXT


@each(range(1, 4))
def a_delegation_token_is_not_created(s: Session, version: int) -> Any:
    owner = {"OwnerPrincipalType": "User", "OwnerPrincipalName": "bob"} if version == 3 else {}
    renewers = [{"PrincipalType": "User", "PrincipalName": "x"}]
    body = {**owner, "Renewers": renewers, "MaxLifetimeMs": -1}
    return s.call("CreateDelegationToken", version, **body)


@each([1, 2])
def a_delegation_token_is_neither_renewed_nor_expired(s: Session, version: int) -> Any:
    renewed = s.call("RenewDelegationToken", version, Hmac=b"x", RenewPeriodMs=1)
    return renewed, s.call("ExpireDelegationToken", version, Hmac=b"x", ExpiryTimePeriodMs=1)


@each([1, 2, 3])
def delegation_tokens_are_not_described(s: Session, version: int) -> Any:
    return s.call("DescribeDelegationToken", version, Owners=None)


# ACLs, quotas, SCRAM: none


@case
def acls_are_neither_created_nor_deleted(s: Session) -> Any:
    acl = {"ResourceType": 2, "ResourceName": "t", "ResourcePatternType": 3,
           "Principal": "User:u", "Host": "*", "Operation": 3, "PermissionType": 3}  # fmt: skip
    made = s.call("CreateAcls", 3, Creations=[acl, {**acl, "ResourceType": 99}])["Results"]
    filters = [{"ResourceTypeFilter": 1, "PatternTypeFilter": 1, "Operation": 1,
                "PermissionType": 1}]  # fmt: skip
    gone = s.call("DeleteAcls", 3, Filters=filters)["FilterResults"]
    return [one["ErrorCode"] for one in made], [one["ErrorCode"] for one in gone]


QUOTAS: dict[str, list[dict[str, Any]]] = {
    "everything": [],
    "a user": [{"EntityType": "user", "MatchType": 0, "Match": "u"}],
    "the default client": [{"EntityType": "client-id", "MatchType": 1, "Match": None}],
    "any address": [{"EntityType": "ip", "MatchType": 2, "Match": None}],
    "an unknown kind": [{"EntityType": "bogus", "MatchType": 0, "Match": "u"}],
    "an empty kind": [{"EntityType": "", "MatchType": 0, "Match": "u"}],
    "the same kind twice": [{"EntityType": "user", "MatchType": 0, "Match": "u"}] * 2,
    "an unknown match": [{"EntityType": "user", "MatchType": 9, "Match": "u"}],
    "exactly no user": [{"EntityType": "user", "MatchType": 0, "Match": None}],
    "an address and a user": [{"EntityType": "ip", "MatchType": 2, "Match": None},
                              {"EntityType": "user", "MatchType": 2, "Match": None}],
}  # fmt: skip


@each(QUOTAS)
def describe_client_quotas_of(s: Session, components: list[dict[str, Any]]) -> Any:
    return s.call("DescribeClientQuotas", 1, Components=components, Strict=False)


@each({"all": None, "none": [], "one": ["u"], "twice": ["u", "u"], "empty": [""]})
def describe_scram_credentials_of(s: Session, users: list[str] | None) -> Any:
    asked = None if users is None else [{"Name": name} for name in users]
    return s.call("DescribeUserScramCredentials", 0, Users=asked)


# Directories, elections, reassignments


def log_dir(s: Session) -> str:
    """The one log directory."""
    return str(s.call("DescribeLogDirs", 4, Topics=[])["Results"][0]["LogDir"])


MOVES: dict[str, tuple[str, list[int]]] = {
    "here": ("", [0, 1]),
    "here, an unknown partition": ("", [0, 7]),
    "here, twice": ("", [0, 0]),
    "here by a slash more": ("/", [0]),
    "to an unknown place": ("elsewhere", [0]),
}


@each(MOVES)
def a_replica_goes_to_a_directory(s: Session, move: tuple[str, list[int]]) -> Any:
    suffix, partitions = move
    topics = [{"Name": s.topic(2), "Partitions": partitions},
              {"Name": s.name(), "Partitions": [0]}]  # fmt: skip
    answer = s.call("AlterReplicaLogDirs", 2, Dirs=[{"Path": log_dir(s) + suffix,
                                                     "Topics": topics}])  # fmt: skip
    seen = [sorted((p["PartitionIndex"], p["ErrorCode"]) for p in one["Partitions"])
            for one in sorted(answer["Results"], key=lambda one: one["TopicName"])]  # fmt: skip
    return sorted(seen)


@each(range(1, 6))
def describe_log_dirs_in_every_version(s: Session, version: int) -> Any:
    topic = s.topic(2)
    asked = [{"Topic": topic, "Partitions": [0, 7]}, {"Topic": s.name(), "Partitions": [0]}]
    (place,) = s.call("DescribeLogDirs", version, Topics=asked)["Results"]
    parts = [one["Partitions"] for one in place["Topics"]]
    return sorted(place), place["ErrorCode"], parts


ELECTIONS: dict[str, tuple[int, int, list[int]]] = {
    "version 0": (0, 0, [0]),
    "preferred": (1, 0, [0]),
    "unclean": (2, 1, [0]),
    "of an unknown kind": (2, 5, [0]),
    "of an unknown partition": (2, 0, [0, 7]),
    "of one partition twice": (2, 0, [0, 0]),
    "of no partition": (2, 0, []),
}


@each(ELECTIONS)
def an_election(s: Session, asked: tuple[int, int, list[int]]) -> Any:
    version, kind, partitions = asked
    body: dict[str, Any] = {"TimeoutMs": 5_000}
    if version > 0:
        body["ElectionType"] = kind
    named = [{"Topic": s.topic(2), "Partitions": partitions}]
    answer = s.call("ElectLeaders", version, TopicPartitions=named, **body)
    results = [
        sorted((p["PartitionId"], p["ErrorCode"]) for p in one["PartitionResult"])
        for one in answer["ReplicaElectionResults"]
    ]
    return answer.get("ErrorCode"), results


@case
def an_election_of_an_unknown_topic(s: Session) -> Any:
    named = [{"Topic": s.name(), "Partitions": [0]}]
    answer = s.call("ElectLeaders", 2, ElectionType=0, TopicPartitions=named, TimeoutMs=5_000)
    return answer["ErrorCode"], [
        p["ErrorCode"] for one in answer["ReplicaElectionResults"] for p in one["PartitionResult"]
    ]


REASSIGNMENTS: dict[str, tuple[int, list[int] | None]] = {
    "to where it is": (0, []),
    "to an unknown broker": (0, [99]),
    "to a broker twice": (0, [-7, -7]),
    "to a negative broker": (0, [-1]),
    "cancelled": (0, None),
    "of an unknown partition": (7, []),
}


@each(REASSIGNMENTS)
def a_reassignment(s: Session, asked: tuple[int, list[int] | None]) -> Any:
    index, replicas = asked
    if replicas is not None:
        # An empty list stands for the one broker, -7 for it as well.
        node = s.broker_id()
        replicas = [node if one == -7 else one for one in replicas] or [node]
    part = {"PartitionIndex": index, "Replicas": replicas}
    topics = [{"Name": s.topic(), "Partitions": [part]}]
    answer = s.call("AlterPartitionReassignments", 0, TimeoutMs=5_000, Topics=topics)
    codes = [p["ErrorCode"] for one in answer["Responses"] for p in one["Partitions"]]
    return answer["ErrorCode"], codes


@case
def reassignments_of_named_partitions_are_listed(s: Session) -> Any:
    asked = [{"Name": s.topic(), "PartitionIndexes": [0, 7]},
             {"Name": s.name(), "PartitionIndexes": [0]}]  # fmt: skip
    answer = s.call("ListPartitionReassignments", 0, TimeoutMs=5000, Topics=asked)
    return answer["ErrorCode"], answer["Topics"]


@each([0, 1, 2])
def describe_quorum_in_every_version(s: Session, version: int) -> Any:
    asked = [{"TopicName": "__cluster_metadata", "Partitions": [{"PartitionIndex": 0}]}]
    answer = s.call("DescribeQuorum", version, Topics=asked)
    (part,) = answer["Topics"][0]["Partitions"]
    return sorted(answer), sorted(part), answer["ErrorCode"], sorted(part["CurrentVoters"][0])


@each({"topic": ("t", 0), "partition": ("__cluster_metadata", 3)})
def describe_quorum_of_another(s: Session, asked: tuple[str, int]) -> Any:
    parts = [{"PartitionIndex": asked[1]}]
    answer = s.call("DescribeQuorum", 1, Topics=[{"TopicName": asked[0], "Partitions": parts}])
    codes = [p["ErrorCode"] for one in answer["Topics"] for p in one["Partitions"]]
    return answer["ErrorCode"], codes


@each([False, True])
def describe_cluster_with_fenced_brokers(s: Session, fenced: bool) -> Any:
    answer = s.call("DescribeCluster", 2, EndpointType=1, IncludeFencedBrokers=fenced)
    return answer["ErrorCode"], [broker["IsFenced"] for broker in answer["Brokers"]]


CURSORS: dict[str, tuple[int, int, int]] = {
    "at the first": (0, 0, 10),
    "at the second": (0, 1, 10),
    "past the last partition": (0, 9, 10),
    "at a negative partition": (0, -5, 10),
    "at the second topic": (1, 0, 10),
    "one at a time": (0, 0, 1),
    "none at a time": (0, 0, 0),
    "less than none": (0, 0, -1),
}


@each(CURSORS)
def describe_topic_partitions_from_a_cursor(s: Session, asked: tuple[int, int, int]) -> Any:
    topics = [s.topic(3), s.topic(2)]
    at, index, limit = asked
    answer = s.call(
        "DescribeTopicPartitions", 0, Topics=[{"Name": name} for name in topics],
        ResponsePartitionLimit=limit, Cursor={"TopicName": topics[at], "PartitionIndex": index},
    )  # fmt: skip
    told = [
        (topics.index(one["Name"]), one["ErrorCode"],
         [p["PartitionIndex"] for p in one["Partitions"]])
        for one in answer["Topics"]
    ]  # fmt: skip
    after = answer["NextCursor"]
    return told, after and (topics.index(after["TopicName"]), after["PartitionIndex"])


@case
def describe_topic_partitions_from_a_topic_that_is_not_named(s: Session) -> Any:
    topic = s.topic(2)
    cursor = {"TopicName": "zzz", "PartitionIndex": 0}
    answer = s.call("DescribeTopicPartitions", 0, Topics=[{"Name": topic}],
                    ResponsePartitionLimit=5, Cursor=cursor)  # fmt: skip
    return [(one["ErrorCode"], len(one["Partitions"])) for one in answer["Topics"]]


# Features

#: Name, level and kind of an update that changes nothing on any broker.
UPDATES: dict[str, tuple[str, int, int]] = {
    "the level that it has": ("metadata.version", 30, 1),
    "the level that it has, down": ("metadata.version", 30, 2),
    "a lower one as an upgrade": ("metadata.version", 29, 1),
    "a lower one, safely": ("metadata.version", 29, 2),
    "a lower one, unsafely": ("metadata.version", 29, 3),
    "the lowest, safely": ("metadata.version", 7, 2),
    "below the lowest": ("metadata.version", 6, 2),
    "taken away": ("metadata.version", 0, 3),
    "below zero": ("metadata.version", -1, 1),
    "a greater one": ("metadata.version", 99, 1),
    "a greater one, down": ("metadata.version", 31, 2),
    "kind of no meaning": ("metadata.version", 30, 9),
    "kind zero": ("metadata.version", 30, 0),
    "an unknown feature": ("no.such.feature", 1, 1),
    "an unknown feature taken away": ("no.such.feature", 0, 2),
    "a feature without a name": ("", 1, 1),
}


def updated(s: Session, version: int, *updates: tuple[str, int, int], **more: Any) -> Any:
    """The answer to a change of features."""
    asked = [
        {"Feature": name, "MaxVersionLevel": level, "UpgradeType": kind}
        for name, level, kind in updates
    ]
    if version == 0:
        asked = [{**one, "AllowDowngrade": one.pop("UpgradeType") != 1} for one in asked]
    return s.call("UpdateFeatures", version, FeatureUpdates=asked, timeoutMs=5000, **more)


@each(UPDATES)
def a_feature_is_updated(s: Session, update: tuple[str, int, int]) -> Any:
    validated = updated(s, 2, update, ValidateOnly=True)
    return validated, [updated(s, version, update) for version in range(3)]


@case
def several_features_are_updated_together_or_not_at_all(s: Session) -> Any:
    good, bad = ("metadata.version", 30, 1), ("no.such.feature", 1, 1)
    orders = [(good, bad), (bad, good), (bad, bad), (good, good), ()]
    return [updated(s, version, *order) for order in orders for version in (1, 2)]


@case
def of_a_feature_that_is_named_twice_the_last_update_counts(s: Session) -> Any:
    good, bad = ("metadata.version", 30, 1), ("metadata.version", 99, 1)
    orders = [(good, bad), (bad, good)]
    return [updated(s, version, *order) for order in orders for version in (1, 2)]


@case
def a_feature_is_updated_without_time(s: Session) -> Any:
    asked = [{"Feature": "metadata.version", "MaxVersionLevel": 30, "UpgradeType": 1}]
    return [s.call("UpdateFeatures", 2, FeatureUpdates=asked, timeoutMs=ms) for ms in (0, -1)]


@each([3, 4])
def api_versions_has_the_metadata_version(s: Session, version: int) -> Any:
    answer = s.call("ApiVersions", version, ClientSoftwareName="a", ClientSoftwareVersion="1")
    told = [
        [one for one in answer[listed] if one["Name"] == "metadata.version"]
        for listed in ("SupportedFeatures", "FinalizedFeatures")
    ]
    return told, answer["FinalizedFeaturesEpoch"] >= 0, answer["ZkMigrationReady"]
