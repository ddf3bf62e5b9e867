"""Random requests of every API and version, from Kafka's own schemas.

A program is a list of requests that follows from its seed alone, so that two brokers are asked the
same. What a broker makes up (ids of members, topics, producers, sessions) stands in a program as
``Learned`` and is put in by the player. Values are those at which brokers decide: names that are
there, missing or wrong, offsets at the edges, versions from the first to the last.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.harness.wire import batches, schemas
from tests.harness.wire.schemas import Field

BASE_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Learned:
    """What a broker made up: the ``place``-th of its ``kind`` under ``name``, if there is one."""

    kind: str
    name: str = ""
    place: int = 0


@dataclass(frozen=True)
class Name:
    """A name that gets the prefix of the run, so that no two programs share anything."""

    text: str


@dataclass(frozen=True)
class Records:
    """A batch to produce; its producer's id is put in by the player."""

    batch: batches.Batch
    producer: int | None = None


@dataclass(frozen=True)
class Ask:
    """One request of a program."""

    api: str
    version: int
    body: dict[str, Any]


Chance = random.Random
Pick = Callable[[Chance], Any]

#: How often each API is asked; one that is not listed here is asked once in a while.
WEIGHTS = {
    "Produce": 8, "Fetch": 8, "ListOffsets": 5, "OffsetCommit": 4, "OffsetFetch": 4,
    "JoinGroup": 5, "SyncGroup": 4, "Heartbeat": 3, "LeaveGroup": 3, "DescribeGroups": 2,
    "CreateTopics": 3, "DeleteTopics": 1, "DeleteRecords": 3, "CreatePartitions": 2,
    "IncrementalAlterConfigs": 4, "AlterConfigs": 2, "DescribeConfigs": 3, "Metadata": 3,
    "OffsetForLeaderEpoch": 3, "OffsetDelete": 2, "DeleteGroups": 1, "ElectLeaders": 2,
    "DescribeProducers": 2, "InitProducerId": 2, "DescribeTopicPartitions": 2,
}  # fmt: skip


def _one(*values: Any) -> Pick:
    return lambda chance: chance.choice(values)


def _topic(chance: Chance) -> Any:
    odd = ("", "a b", ".", "..", "x" * 249, "x" * 250, "ä")
    if chance.random() < 0.12:
        return chance.choice(odd)
    return Name(chance.choice(("t0", "t0", "t0", "t1", "t1", "t2", "missing")))


def _topic_id(chance: Chance) -> Any:
    return Learned("topic", chance.choice(("t0", "t0", "t1", "t2", "foreign")))


def _group(chance: Chance) -> Any:
    return "" if chance.random() < 0.05 else Name(chance.choice(("g0", "g0", "g1", "gone")))


def _member(chance: Chance) -> Any:
    if chance.random() < 0.25:
        return chance.choice(("", "", "nobody"))
    return Learned("member", chance.choice(("g0", "g0", "g1")), chance.randrange(3))


def _resource(chance: Chance) -> Any:
    return Learned("broker") if chance.random() < 0.15 else _topic(chance)


CONFIGS = {
    "retention.ms": ("100000", "-1", "-2", "x", "", "9223372036854775807"),
    "cleanup.policy": (
        "compact",
        "delete",
        "compact,delete",
        " delete , delete",
        "",
        "none",
        "delete,",
    ),
    "max.message.bytes": ("100", "1048588", "-1", "2147483648", " +01000"),
    "segment.bytes": ("1048576", "100", "2147483647"),
    "compression.type": ("gzip", "producer", " uncompressed ", "lz4", "bz2"),
    "compression.gzip.level": ("1", "-1", "10", "0"),
    "message.timestamp.type": ("LogAppendTime", "CreateTime", "logappendtime"),
    "message.timestamp.before.max.ms": ("1000", "9223372036854775807", "-1"),
    "message.timestamp.after.max.ms": ("3600000", "0"),
    "min.insync.replicas": ("1", "2", "0"),
    "retention.bytes": ("-1", "0", "1000000", "-2"),
    "min.cleanable.dirty.ratio": ("0.50", "1.5", "0", "x", "0.0005"),
    "index.interval.bytes": ("4096", "-1"),
    "unclean.leader.election.enable": ("true", "false", "yes", " TRUE"),
    "preallocate": ("true", "false"),
    "flush.messages": ("1", "0", "10"),
    "segment.jitter.ms": ("0", "10", "-1"),
    "local.retention.ms": ("-2", "5", "-3"),
    "delete.retention.ms": ("0", "-1", "1"),
    "follower.replication.throttled.replicas": ("*", "0:1", "x", ""),
    "no.such.key": ("1",),
}
_KEYS = tuple(CONFIGS)


def _records(chance: Chance) -> Any:
    if chance.random() < 0.02:
        return b""
    values = [None, b"", b"v", b"value" * 10, b"w" * 200]
    keys = [None, b"", b"k", b"key"]
    headers: list[tuple[tuple[str, bytes | None], ...]] = [(), (), (("h", None),), (("", b""),)]
    records = tuple(
        batches.Record(
            chance.choice(values), chance.choice(keys), chance.choice(headers), place * 7
        )
        for place in range(chance.randint(1, 4))
    )
    times = (BASE_MS, BASE_MS + 5_000, BASE_MS + 1_000, -1, 0)
    batch: dict[str, Any] = {
        "base_timestamp_ms": chance.choice(times),
        "attributes": chance.choice((0, 0, 0, batches.GZIP)),
        "base_offset": chance.choice((0, 0, 7)),
        "leader_epoch": chance.choice((-1, 0, 5)),
    }
    if chance.random() < 0.03:
        batch["crc"] = 1
    if chance.random() < 0.3:
        producer = chance.randrange(2)
        batch |= {
            "producer_epoch": chance.choice((0, 0, 0, 1)),
            "base_sequence": chance.choice((0, 0, 1, 2, 3, 4, 8)),
        }
        return Records(batches.Batch(records, **batch), producer)
    return Records(batches.Batch(records, **batch))


_NUMBERS: dict[str, Pick] = {
    "int8": _one(0, 1, 2, 3, 4, 5, -1, 127),
    "int16": _one(0, 1, -1, 2, 32767),
    "int32": _one(0, 1, -1, 2, 100, 2147483647, -2147483648),
    "int64": _one(0, 1, -1, 2, 100, 9223372036854775807),
    "bool": _one(False, True),
    "string": _one("", "x", "ä", "x" * 300),
    "bytes": _one(b"", b"x", b"\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"),
}

_OFFSET = _one(0, 0, 1, 2, 3, 5, 8, 12, 100, -1, -2, 9223372036854775807)
_PARTITION = _one(0, 0, 0, 0, 1, 1, 2, 7, -1)
_EPOCH = _one(-1, -1, -1, 0, 0, 1, 5, -2)

#: By ``API.field`` or by field: what it holds.
FIELDS: dict[str, Pick] = {
    "Topic": _topic, "TopicName": _topic, "TopicNames": _topic, "TopicId": _topic_id,
    "Name": _topic, "GroupId": _group, "Groups": _group, "GroupsNames": _group,
    "FindCoordinator.Key": _group, "CoordinatorKeys": _group,
    "KeyType": _one(0, 0, 0, 0, 2, 3, -1),
    "MemberId": _member, "GroupInstanceId": _one(None, None, None, None, "i0", "i1", ""),
    "GenerationId": _one(1, 1, 2, 3, 0, -1), "MemberEpoch": _one(-1, -1, 0, 1),
    "GenerationIdOrMemberEpoch": _one(-1, -1, 1, 2, 3, 0),
    "ProtocolType": _one("consumer", "consumer", "consumer", "connect", ""),
    "ProtocolName": _one("range", "range", "roundrobin", None),
    "JoinGroup.Name": _one("range", "range", "roundrobin"),
    "SessionTimeoutMs": _one(10_000, 10_000, 10_000, 10_000, 1, 10_000_000),
    "RebalanceTimeoutMs": _one(200, 200, 300), "Reason": _one(None, "why", ""),
    "Assignment": _one(b"", b"share"), "Metadata": _one(b"", b"meta"),
    "Partition": _PARTITION, "PartitionIndex": _PARTITION, "PartitionIndexes": _PARTITION,
    "Index": _PARTITION, "Partitions": _PARTITION,
    "FetchOffset": _OFFSET, "Offset": _OFFSET, "CommittedOffset": _OFFSET,
    "Timestamp": _one(-1, -2, -3, -4, -5, -6, -7, 0, BASE_MS, BASE_MS + 1, BASE_MS + 5_010,
                      BASE_MS + 10**9, 9223372036854775807),
    "CurrentLeaderEpoch": _EPOCH, "LeaderEpoch": _one(-1, 0, 0, 1, 5),
    "LastFetchedEpoch": _EPOCH, "CommittedLeaderEpoch": _EPOCH,
    "CommittedMetadata": _one("", "note", None, "x" * 4096, "x" * 4097),
    "RetentionTimeMs": _one(-1, -1, 1000), "ReplicaId": _one(-1, -1, -1, -2),
    "ReplicaState": _one({}), "LogStartOffset": _one(-1), "HighWatermark": _one(-1),
    "MaxWaitMs": _one(0, 0, 10, 30), "MinBytes": _one(0, 1, 1, 1_000, -1),
    "MaxBytes": _one(1 << 20, 1 << 20, 100, 0), "PartitionMaxBytes": _one(1 << 20, 1 << 20, 80, 0),
    "IsolationLevel": _one(0, 0, 1), "SessionId": lambda c: _session(c),
    "SessionEpoch": _one(-1, 0, 0, 1, 2, 3), "RackId": _one("", "rack"),
    "ClusterId": _one(None), "ReplicaEpoch": _one(-1),
    "Acks": _one(-1, -1, 1, 1, -1, 2), "TransactionalId": _one(None),
    "Records": _records, "ProducerId": lambda c: _producer(c),
    "ProducerEpoch": _one(-1, -1, 0, 1, 5), "TransactionTimeoutMs": _one(60_000, 0, 1),
    "Enable2Pc": _one(False), "KeepPreparedTxn": _one(False),
    "TimeoutMs": _one(*[30_000] * 9, 0), "timeoutMs": _one(*[30_000] * 9, -1),
    "NumPartitions": _one(1, 1, 3, -1, 0, -2), "Count": _one(1, 2, 3, 4, 0, -1),
    "ReplicationFactor": _one(1, 1, 1, -1, 0, 2, -2), "BrokerIds": lambda c: _node(c),
    "Replicas": lambda c: _node(c),
    "ResourceName": _resource,
    "ResourceType": _one(2, 2, 2, 2, 2, 0, 99), "ConfigurationKeys": _one(*_KEYS),
    "ResourceTypes": _one(0, 2, 4, 16, 32, 8, 99),
    "ConfigOperation": _one(0, 0, 0, 1, 2, 3), "ElectionType": _one(0, 1, 0, 1, 2),
    "Produce.TimeoutMs": _one(30_000),
    "EndpointType": _one(1, 1, 2, 3), "Path": _one("/nowhere", ""),
    "AlterReplicaLogDirs.Name": lambda c: Name("t0"),
    "Mechanism": _one("PLAIN", "SCRAM-SHA-256", ""), "AuthBytes": _one(b"", b"x"),
    "StatesFilter": _one("Stable", "empty", "Dead", "x", ""),
    "TypesFilter": _one("classic", "Consumer", "x", ""),
    "Match": _one(None, "u"), "EntityType": _one("user", "client-id", "ip", "x"),
    "MatchType": _one(0, 1, 2, 3), "ResponsePartitionLimit": _one(2000, 1, 2),
    "ClientSoftwareName": _one("name", "", "a b"), "ClientSoftwareVersion": _one("1.0", "-"),
    "AllowAutoTopicCreation": _one(False), "DescribeUserScramCredentials.Name": _one("u", ""),
    "IncludeDocumentation": _one(False),
}  # fmt: skip

#: Fields called ``Name`` that hold no topic.
_CONFIG_NAMES = {"Configs"}


def _session(chance: Chance) -> Any:
    return Learned("session", "", chance.randrange(2)) if chance.random() < 0.4 else 0


def _producer(chance: Chance) -> Any:
    return Learned("producer", "", chance.randrange(2)) if chance.random() < 0.4 else -1


def _node(chance: Chance) -> Any:
    return Learned("broker") if chance.random() < 0.8 else 77


def _named(item: Any) -> Any:
    """Of an entry of a list, what it is about."""
    if isinstance(item, dict):
        named = [item[name] for name in ("ResourceType", "ResourceName") if name in item]
        return named or next(iter(item.values()), None)
    return item


class Author:
    """Writes programs: the same seed, the same program."""

    def __init__(self, seed: int, versions: dict[str, tuple[int, int]]) -> None:
        self.chance = random.Random(seed)
        self.versions = versions

    def program(self, length: int) -> list[Ask]:
        """A few topics, records and groups to begin with, then ``length`` random requests."""
        apis = sorted(self.versions)
        weights = [WEIGHTS.get(api, 1) for api in apis]
        chosen = self.chance.choices(apis, weights, k=length)
        return [*_BEGINNING, *(self.ask(api) for api in chosen)]

    def ask(self, api: str) -> Ask:
        """A random request of one API."""
        low, high = self.versions[api]
        version = self.chance.choice((high, self.chance.randint(low, high)))
        message = schemas.request(api)
        return Ask(api, version, self._struct(api, version, "", message.fields))

    def _struct(
        self, api: str, version: int, outer: str, fields: tuple[Field, ...]
    ) -> dict[str, Any]:
        made = {
            one.name: self._field(api, version, outer, one)
            for one in fields
            if version in one.versions and one.tag is None
        }
        if outer in _CONFIG_NAMES and "Value" in made:
            made["Name"] = self.chance.choice(_KEYS)
            made["Value"] = self.chance.choice((None, *CONFIGS[made["Name"]] * 3))
        return made

    def _field(self, api: str, version: int, outer: str, field: Field) -> Any:
        nullable = version in field.nullable
        if nullable and self.chance.random() < 0.04 and field.name != "Records":
            return None
        if not field.is_array:
            return self._single(api, version, outer, field, nullable)
        if field.name == "Assignments" and self.chance.random() < 0.8 and api != "SyncGroup":
            return None if nullable else []
        few = self.chance.choice((0, 1, 1, 1, 1, 2, 2))
        made = [self._single(api, version, outer, field, False) for _ in range(few)]
        # What a request names twice is answered once here (ADR 0092).
        return list({repr(_named(one)): one for one in made}.values())

    def _single(self, api: str, version: int, outer: str, field: Field, nullable: bool) -> Any:
        kind = field.type.removeprefix("[]")
        pick = FIELDS.get(f"{api}.{field.name}") or FIELDS.get(field.name)
        if field.fields:
            return self._struct(api, version, field.name, field.fields)
        value = (pick or _NUMBERS[kind])(self.chance)
        if value is None and not nullable:
            return "" if kind == "string" else b""
        return value


def _topic_of(name: str, partitions: int, **config: str) -> dict[str, Any]:
    configs = [{"Name": k.replace("_", "."), "Value": v} for k, v in config.items()]
    return {"Name": Name(name), "NumPartitions": partitions, "ReplicationFactor": 1,
            "Configs": configs}  # fmt: skip


def _fill(name: str, partition: int, first: int) -> Ask:
    records = tuple(
        batches.Record(b"%d" % (first + i), b"k%d" % i, timestamp_delta=i * 1_000) for i in range(3)
    )
    batch = batches.Batch(records, base_timestamp_ms=BASE_MS + first * 1_000)
    part = {"Index": partition, "Records": Records(batch)}
    topic = {"Name": Name(name), "PartitionData": [part]}
    return Ask("Produce", 9, {"Acks": -1, "TimeoutMs": 5_000, "TopicData": [topic]})


_BEGINNING = [
    Ask("CreateTopics", 7, {
        "Topics": [_topic_of("t0", 2), _topic_of("t1", 1, cleanup_policy="compact")],
        "timeoutMs": 5_000,
    }),
    *(_fill("t0", 0, first) for first in (0, 3, 6)),
    _fill("t0", 1, 0), _fill("t1", 0, 0),
    Ask("InitProducerId", 4, {"TransactionalId": None, "TransactionTimeoutMs": 1,
                              "ProducerId": -1, "ProducerEpoch": -1}),
    Ask("OffsetCommit", 7, {
        "GroupId": Name("g0"), "GenerationIdOrMemberEpoch": -1, "MemberId": "",
        "Topics": [{"Name": Name("t0"), "Partitions": [
            {"PartitionIndex": 0, "CommittedOffset": 4, "CommittedMetadata": "m"}]}],
    }),
]  # fmt: skip
