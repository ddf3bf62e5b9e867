"""Every key that may be altered at run time, with extreme values: only asked, never done.

The pairs are keys that Kafka or we combine. The cases come first in the script, while no topic of
another case has overrides that a broker's value could contradict.
"""

from __future__ import annotations

import re
from typing import Any

from tests.conformance.differential.registry import case, each
from tests.harness.requests import alter
from tests.harness.session import Session

TOPIC, BROKER = 2, 4

#: Kafka's keys by their type, as DescribeConfigs of a broker tells those that are not read-only.
BROKER_KEYS: dict[str, str] = {
    "number": """
        background.threads compression.gzip.level compression.lz4.level compression.zstd.level
        group.consumer.assignment.interval.ms group.coordinator.cached.buffer.max.bytes
        group.share.assignment.interval.ms group.streams.assignment.interval.ms
        log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
        log.cleaner.io.buffer.size log.cleaner.max.compaction.lag.ms
        log.cleaner.min.compaction.lag.ms log.cleaner.threads log.flush.interval.messages
        log.flush.interval.ms log.index.interval.bytes log.index.size.max.bytes
        log.local.retention.bytes log.local.retention.ms log.message.timestamp.after.max.ms
        log.message.timestamp.before.max.ms log.retention.bytes log.retention.ms
        log.roll.jitter.ms log.roll.ms log.segment.bytes log.segment.delete.delay.ms
        max.connection.creation.rate max.connections max.connections.per.ip message.max.bytes
        min.insync.replicas num.io.threads num.network.threads num.recovery.threads.per.data.dir
        num.replica.fetchers producer.id.expiration.ms remote.fetch.max.wait.ms
        remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
        remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
        remote.log.manager.expiration.thread.pool.size
        remote.log.manager.fetch.max.bytes.per.second
        remote.log.manager.follower.thread.pool.size remote.log.reader.threads
        sasl.kerberos.min.time.before.relogin sasl.login.refresh.buffer.seconds
        sasl.login.refresh.min.period.seconds share.coordinator.cached.buffer.max.bytes
        leader.replication.throttled.rate follower.replication.throttled.rate
        replica.alter.log.dirs.io.max.bytes.per.second""",
    "double": """
        log.cleaner.io.buffer.load.factor log.cleaner.io.max.bytes.per.second
        log.cleaner.min.cleanable.ratio sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.window.factor
        sasl.login.refresh.window.jitter""",
    "boolean": """
        follower.fetch.last.tiered.offset.enable log.preallocate
        transaction.partition.verification.enable unclean.leader.election.enable""",
    "text": """
        compression.type cordoned.log.dirs log.cleanup.policy log.message.timestamp.type
        max.connections.per.ip.overrides no.such.key""",
    "plain": """
        config.providers listener.security.protocol.map listeners metric.reporters
        principal.builder.class sasl.enabled.mechanisms sasl.jaas.config
        sasl.kerberos.kinit.cmd sasl.kerberos.principal.to.local.rules
        sasl.kerberos.service.name sasl.mechanism.inter.broker.protocol ssl.cipher.suites
        ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm
        ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
        ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
        ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
        ssl.secure.random.implementation ssl.trustmanager.algorithm
        ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
        ssl.truststore.type""",
}  # fmt: skip

TOPIC_KEYS: dict[str, str] = {
    "number": """
        compression.gzip.level compression.lz4.level compression.zstd.level delete.retention.ms
        file.delete.delay.ms flush.messages flush.ms index.interval.bytes internal.segment.bytes
        local.retention.bytes local.retention.ms max.compaction.lag.ms max.message.bytes
        message.timestamp.after.max.ms message.timestamp.before.max.ms min.compaction.lag.ms
        min.insync.replicas retention.bytes retention.ms segment.bytes segment.index.bytes
        segment.jitter.ms segment.ms""",
    "double": "min.cleanable.dirty.ratio",
    "boolean": """
        preallocate remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable
        unclean.leader.election.enable""",
    "text": """
        cleanup.policy compression.type follower.replication.throttled.replicas
        leader.replication.throttled.replicas message.timestamp.type no.such.key""",
}  # fmt: skip

#: Values at the ends of every range, just outside of it, and those that are none.
VALUES: dict[str, list[str]] = {
    "number": ["-9223372036854775808", "-2147483649", "-131073", "-131072", "-2", "-1", "0", "1",
               "2", "3", "4", "5", "9", "10", "13", "14", "17", "18", "20", "21", "22", "23",
               "15000", "15001", "524287", "524288", "1048575", "1048576", "2097152", "2097153",
               "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", " 5 ",
               "+5", "5.0", "0x5", "", "x"],
    "double": ["-1", "-0.1", "0", "-0", "0.5", "1", "1.0000001", "1e308", "1e309", "NaN",
               "Infinity", ".5", "5f", "0x1p1", " 0.5 ", "", "x"],
    "boolean": ["true", "false", " FALSE ", "True", "yes", "1", "0", "", "null"],
    "text": ["", " ", ",", "x", "X,x", "x,", "*", "0:1", "0:1,", "1:0,1:0", "-1:1", "0:x",
             "127.0.0.1:-1", "[::1]:5", "compact", "compact,delete", " delete , compact ",
             "delete,delete", "compact,", "none", "gzip", "GZIP", " lz4 ", "producer",
             "CreateTime", "LogAppendTime", "createtime"],
    "plain": ["", " ", ",", "x", "x,", "X,x,x", "*", "none", "requested", "NONE",
              "PLAINTEXT://127.0.0.1:1", "no.such.Class"],
}  # fmt: skip

#: Each broker starts with as many as its machine suggests, and what may follow depends on that.
OF_THE_MACHINE = {"num.io.threads", "num.network.threads"}

BROKER_ROWS = {key: kind for kind, keys in BROKER_KEYS.items() for key in keys.split()}
TOPIC_ROWS = {key: kind for kind, keys in TOPIC_KEYS.items() for key in keys.split()}


def values_of(key: str, kind: str) -> list[str]:
    """What a key is asked with; of a number that the machine decides only what no machine has."""
    if key not in OF_THE_MACHINE:
        return VALUES[kind]
    return [one for one in VALUES[kind] if not re.fullmatch(r"[ +]?[1-9]\d{0,4} ?", one)]


def asked(s: Session, kind: int, names: list[str], configs: dict[str, str]) -> str:
    """The code for each of these resources, if it were given these configs."""
    listed = [{"Name": key, "ConfigOperation": 0, "Value": one} for key, one in configs.items()]
    resources = [{"ResourceType": kind, "ResourceName": name, "Configs": listed} for name in names]
    answer = s.call("IncrementalAlterConfigs", 1, Resources=resources, ValidateOnly=True)
    by_name = {one["ResourceName"]: one["ErrorCode"] for one in answer["Responses"]}
    return " ".join(str(by_name[name]) for name in names)


@each({key: (key, kind) for key, kind in BROKER_ROWS.items()})
def a_key_of_one_broker_and_of_all_at_the_extremes(s: Session, row: tuple[str, str]) -> Any:
    key, kind = row
    names = [str(s.broker_id()), ""]
    return {value: asked(s, BROKER, names, {key: value}) for value in values_of(key, kind)}


@each({key: (key, kind) for key, kind in TOPIC_ROWS.items()})
def a_key_of_a_topic_at_the_extremes(s: Session, row: tuple[str, str]) -> Any:
    (key, kind), topic = row, s.topic()
    return {value: asked(s, TOPIC, [topic], {key: value}) for value in values_of(key, kind)}


LAGS = ["0", "1", "60000", "3600000", "9223372036854775807"]
ROOM = ["1048576", "2097152", "2097153", "2097154", "9223372036854775807"]

#: Keys of one resource and values at which they meet.
BROKER_PAIRS: dict[tuple[str, str], tuple[list[str], list[str]]] = {
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"): (LAGS, LAGS),
    ("log.cleaner.threads", "log.cleaner.dedupe.buffer.size"): (["1", "2"], ROOM),
    ("log.cleaner.io.buffer.size", "log.cleaner.dedupe.buffer.size"): (["0", "2147483647"], ROOM),
    ("log.roll.ms", "log.roll.jitter.ms"): (["1", "10"], ["0", "9", "11"]),
    ("log.retention.ms", "log.local.retention.ms"): (["-1", "1", "9"], ["-2", "-1", "1", "10"]),
    ("log.retention.bytes", "log.local.retention.bytes"): (["-1", "9"], ["-2", "-1", "0", "10"]),
    ("log.segment.bytes", "message.max.bytes"): (["1048576"], ["1", "2147483647"]),
    ("log.flush.interval.ms", "log.flush.interval.messages"): (["0", "-1"], ["1"]),
    ("max.connections", "max.connections.per.ip"): (["0", "1"], ["0", "1", "2"]),
    ("max.connections.per.ip", "max.connections.per.ip.overrides"): (["0"], ["", "127.0.0.1:5"]),
    ("num.io.threads", "num.network.threads"): (["0", "2147483647"], ["0", "2147483647"]),
    ("num.io.threads", "no.such.key"): (["0"], ["x"]),
}  # fmt: skip

TOPIC_PAIRS: dict[tuple[str, str], tuple[list[str], list[str]]] = {
    ("min.compaction.lag.ms", "max.compaction.lag.ms"): (LAGS, LAGS),
    ("segment.ms", "segment.jitter.ms"): (["1", "10"], ["0", "9", "11"]),
    ("retention.ms", "local.retention.ms"): (["-1", "1", "9"], ["-2", "-1", "1", "10"]),
    ("retention.bytes", "local.retention.bytes"): (["-1", "9"], ["-2", "-1", "0", "10"]),
    ("segment.bytes", "max.message.bytes"): (["1048576"], ["1", "2147483647"]),
    ("segment.bytes", "internal.segment.bytes"): (["1048576"], ["14", "1048575"]),
    ("flush.ms", "flush.messages"): (["0"], ["1"]),
    ("cleanup.policy", "remote.storage.enable"): (["compact", "delete"], ["true", "false"]),
    ("remote.log.copy.disable", "local.retention.ms"): (["true"], ["-2", "-1", "1"]),
}  # fmt: skip


def together(
    s: Session, kind: int, names: list[str], pair: tuple[str, str],
    values: tuple[list[str], list[str]],
) -> Any:  # fmt: skip
    """The codes for every value of one key beside every value of the other."""
    return {
        f"{one} {other}": asked(s, kind, names, dict(zip(pair, (one, other), strict=True)))
        for one in values[0] for other in values[1]
    }  # fmt: skip


@each({" and ".join(pair): (pair, values) for pair, values in BROKER_PAIRS.items()})
def keys_of_one_broker_and_of_all_together(s: Session, row: Any) -> Any:
    return together(s, BROKER, [str(s.broker_id()), ""], *row)


@each({" and ".join(pair): (pair, values) for pair, values in TOPIC_PAIRS.items()})
def keys_of_a_topic_together(s: Session, row: Any) -> Any:
    return together(s, TOPIC, [s.topic()], *row)


#: What a topic sets, and a key of brokers with values beside it.
INHERITED: dict[str, tuple[str, str, str, list[str]]] = {
    "smallest lag": (
        "min.compaction.lag.ms", "3600000", "log.cleaner.max.compaction.lag.ms",
        ["1", "3599999", "3600000"],
    ),
    "largest lag": (
        "max.compaction.lag.ms", "3600000", "log.cleaner.min.compaction.lag.ms",
        ["0", "3600000", "3600001"],
    ),
    "policy": (
        "cleanup.policy", "compact", "log.cleanup.policy", ["", "compact", "delete"],
    ),
    "retention": ("retention.ms", "10", "log.local.retention.ms", ["-2", "9", "11"]),
    "rolling": ("segment.ms", "10", "log.roll.jitter.ms", ["9", "11"]),
}  # fmt: skip


@each(INHERITED)
def a_key_of_one_broker_and_of_all_beside_a_topics(s: Session, row: Any) -> Any:
    key, own, of_brokers, values = row
    topic, names = s.topic(), [str(s.broker_id()), ""]
    seen = [alter(s, topic, [(key, 0, own)])]
    s.settle()
    seen.append({value: asked(s, BROKER, names, {of_brokers: value}) for value in values})
    s.call("DeleteTopics", 6, Topics=[{"Name": topic, "TopicId": None}], TimeoutMs=5_000)
    return seen


@case
def the_keys_of_a_broker_that_may_be_altered(s: Session) -> Any:
    resource = {"ResourceType": BROKER, "ResourceName": str(s.broker_id())}
    answer = s.call("DescribeConfigs", 4, Resources=[{**resource, "ConfigurationKeys": None}])
    told = answer["Results"][0]["Configs"]
    dynamic = {one["Name"] for one in told if not one["ReadOnly"]}
    # A key that is in no table here would be asked by no case above. Our own keys are ours alone.
    return sorted(key for key in dynamic - set(BROKER_ROWS) if not key.startswith("kafkalite."))
