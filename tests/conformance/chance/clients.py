"""Random programs of what a user of confluent-kafka does, from a seed alone.

A step is a method of ``User`` and its arguments; what it returns is what the user saw: offsets,
records, errors by name. Members of groups come, go and stay. Records are of every codec, some
large. Topics are cut from the front, grown, altered, deleted and created again.
"""

from __future__ import annotations

import random
import time
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.harness.load import wait_until_led

BASE_MS = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Step = tuple[str, tuple[Any, ...]]

_SETTINGS = [
    ("retention.ms", "-1"), ("max.message.bytes", "1500"), ("max.message.bytes", "2000000"),
    ("cleanup.policy", "compact"), ("cleanup.policy", "delete"), ("compression.type", "zstd"),
    ("compression.type", "producer"), ("compression.type", "uncompressed"),
    ("message.timestamp.type", "LogAppendTime"), ("message.timestamp.type", "CreateTime"),
    ("message.timestamp.before.max.ms", "1000"),
    ("message.timestamp.before.max.ms", "9223372036854775807"), ("segment.bytes", "1048576"),
    ("min.insync.replicas", "2"), ("min.insync.replicas", "1"), ("retention.ms", "x"),
]  # fmt: skip


def program(seed: int, length: int) -> list[Step]:
    """Two topics to begin with, then ``length`` random steps."""
    chance = random.Random(seed)
    steps: list[Step] = [("create", ("a", 2, [])), ("create", ("b", 1, [("retention.ms", "-1")]))]
    return steps + [_step(chance) for _ in range(length)]


def _step(c: random.Random) -> Step:
    topic = c.choice(("a", "a", "b", "c", "none"))
    partition = c.choice((0, 0, 0, 1, 1, 5))
    group = c.choice(("g", "g", "h"))
    offset = c.choice((0, 1, 5, 17, 40, 1000))
    kinds: list[tuple[int, Step]] = [
        (8, ("produce", (topic, partition, c.randint(1, 30), c.choice(CODECS),
                         c.choice(("all", "1", "0")), c.choice((10, 10, 300, 3_000, 200_000)),
                         c.choice((None, 0, 5_000, 60_000)), c.randrange(1_000)))),
        (6, ("read", (topic, partition, c.choice((offset, -2, -1)),
                      c.choice(("read_committed", "read_uncommitted")),
                      c.choice(("earliest", "latest", "error")), c.choice((1, 2_000, 1 << 20))))),
        (2, ("times", (topic, partition, c.choice((0, BASE_MS, BASE_MS + 7, BASE_MS + 10**9))))),
        (2, ("bounds", (topic, partition))),
        (2, ("listed", (topic, partition, c.choice(("earliest", "latest", "max", "time"))))),
        (2, ("cut", (topic, partition, c.choice((offset, -1))))),
        (3, ("alter", (topic, *c.choice(_SETTINGS), c.choice(("SET", "SET", "DELETE"))))),
        (1, ("described", (topic,))),
        (1, ("create", (topic if topic != "none" else "c", c.choice((1, 2, 3)), []))),
        (1, ("delete", (topic,))),
        (1, ("grow", (topic, c.choice((1, 2, 3, 4))))),
        (3, ("join", (group, c.choice((0, 1)), c.choice((("a",), ("a", "b"), ("b",))),
                      c.choice((None, None, "one")),
                      "cooperative-sticky" if group == "g" else "range"))),
        (4, ("take", (group, c.choice((0, 1)), c.randint(1, 20), c.choice((True, False))))),
        (1, ("pause", (group, c.choice((0, 1))))),
        (1, ("seek", (group, c.choice((0, 1)), offset))),
        (2, ("leave", (group, c.choice((0, 1))))),
        (2, ("committed", (group,))),
        (1, ("move", (group, topic, partition, offset))),
        (1, ("group", (group,))),
        (1, ("bury", (group,))),
    ]  # fmt: skip
    return c.choices([step for _, step in kinds], [weight for weight, _ in kinds])[0]


def _name(error: KafkaError | Exception | None) -> Any:
    """What went wrong, as librdkafka names it."""
    if isinstance(error, KafkaException):
        error = error.args[0]
    return error.name() if isinstance(error, KafkaError) else error and type(error).__name__


class User:
    """One user of one broker, with the members of groups that he keeps."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.common = {"bootstrap.servers": bootstrap, "log_level": 0}
        self.prefix = prefix
        self.admin = AdminClient(self.common)
        self.members: dict[tuple[str, int], Consumer] = {}

    def close(self) -> None:
        """Leave all groups."""
        for member in self.members.values():
            member.close()

    def play(self, step: Step) -> Any:
        """Do it; what was seen, or the error."""
        try:
            return getattr(self, step[0])(*step[1])
        except (KafkaException, TimeoutError) as error:
            return _name(error)

    def _at(self, topic: str, partition: int, offset: int = -1001) -> TopicPartition:
        return TopicPartition(self.prefix + topic, partition, offset)

    def _done(self, futures: dict[Any, Any]) -> Any:
        (future,) = futures.values()
        return future.result(20)

    def create(self, topic: str, partitions: int, config: list[tuple[str, str]]) -> Any:
        new = NewTopic(self.prefix + topic, partitions, 1, config=dict(config))
        self._done(self.admin.create_topics([new]))
        wait_until_led(self.common["bootstrap.servers"], self.prefix + topic, partitions)
        return "made"

    def delete(self, topic: str) -> Any:
        self._done(self.admin.delete_topics([self.prefix + topic]))
        self._settle()
        return "deleted"

    def grow(self, topic: str, partitions: int) -> Any:
        self._done(self.admin.create_partitions([NewPartitions(self.prefix + topic, partitions)]))
        wait_until_led(self.common["bootstrap.servers"], self.prefix + topic, partitions)
        return "grown"

    def alter(self, topic: str, key: str, value: str, operation: str) -> Any:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType[operation])
        resource = ConfigResource(ResourceType.TOPIC, self.prefix + topic,
                                  incremental_configs=[entry])  # fmt: skip
        self._done(self.admin.incremental_alter_configs([resource]))
        self._settle()
        return "altered"

    def _settle(self) -> None:
        """Kafka's broker follows its controller; a change that is waited for comes after."""
        time.sleep(0.15)

    def described(self, topic: str) -> Any:
        resource = ConfigResource(ResourceType.TOPIC, self.prefix + topic)
        found = self._done(self.admin.describe_configs([resource]))
        keys = sorted({key for key, _ in _SETTINGS} - {"min.insync.replicas"})
        return [(found[key].value, found[key].source, found[key].is_default) for key in keys]

    def produce(
        self, topic: str, partition: int, count: int, codec: str, acks: str, size: int,
        time_ms: int | None, salt: int,
    ) -> Any:  # fmt: skip
        producer = Producer({
            **self.common, "compression.type": codec, "acks": acks, "linger.ms": 20,
            "enable.idempotence": acks == "all" and salt % 2 == 0, "message.max.bytes": 3_000_000,
            "message.timeout.ms": 4_000, "topic.metadata.propagation.max.ms": 100,
            "retries": 0 if acks != "all" else 2, "batch.num.messages": 7,
        })  # fmt: skip
        chance, seen = random.Random(salt), []
        for place in range(count):
            value = None if chance.random() < 0.1 else chance.randbytes(4) * (size // 4 + 1)
            key = chance.choice((None, b"", b"k%d" % chance.randrange(5)))
            headers = [[], [("h", b"v")], [("h", None), ("h", b"")]][chance.randrange(3)]
            more = {} if time_ms is None else {"timestamp": BASE_MS + time_ms + place}
            try:
                producer.produce(
                    self.prefix + topic,
                    value,
                    key,
                    partition,
                    headers=headers,
                    on_delivery=lambda e, m: seen.append((_name(e), m.offset())),
                    **more,
                )
            except KafkaException as error:
                # What the client knows by then it says here, and else in the callback.
                seen.append((_name(error), None))
        left = producer.flush(10)
        if acks == "0":
            # An error of acks=0 is a closed connection, and when that is seen is chance.
            self._settle()
            return "sent"
        return left, sorted(seen, key=str)

    def read(
        self, topic: str, partition: int, offset: int, isolation: str, reset: str, size: int
    ) -> Any:
        consumer = Consumer({
            **self.common, "group.id": "reader", "enable.partition.eof": True,
            "isolation.level": isolation, "auto.offset.reset": reset, "check.crcs": True,
            "max.partition.fetch.bytes": size, "enable.auto.commit": False,
            "topic.metadata.propagation.max.ms": 100, "fetch.wait.max.ms": 50,
        })  # fmt: skip
        consumer.assign([self._at(topic, partition, offset)])
        seen: list[Any] = []
        try:
            while (message := consumer.poll(2.5)) is not None:
                if message.error() is not None:
                    seen.append(_name(message.error()))
                    break
                seen.append(self._shown(message))
        finally:
            consumer.close()
        return seen

    def _shown(self, message: Any) -> Any:
        """A record, without a time that a broker or a producer took from the clock."""
        kind, stamp = message.timestamp()
        value = message.value()
        return [
            message.offset(), None if message.key() is None else message.key().hex(),
            None if value is None else (len(value), value[:8].hex()), kind,
            stamp if stamp < BASE_MS + 10**8 else "now",
            [(name, None if data is None else data.hex()) for name, data in
             message.headers() or []],
        ]  # fmt: skip

    def times(self, topic: str, partition: int, stamp: int) -> Any:
        with_time = self._at(topic, partition, stamp)
        consumer = Consumer({**self.common, "group.id": "times"})
        try:
            (found,) = consumer.offsets_for_times([with_time], 10)
            return found.offset, _name(found.error)
        finally:
            consumer.close()

    def bounds(self, topic: str, partition: int) -> Any:
        consumer = Consumer({**self.common, "group.id": "bounds"})
        try:
            return consumer.get_watermark_offsets(self._at(topic, partition), 10)
        finally:
            consumer.close()

    def listed(self, topic: str, partition: int, kind: str) -> Any:
        spec = {"earliest": OffsetSpec.earliest, "latest": OffsetSpec.latest,
                "max": OffsetSpec.max_timestamp,
                "time": lambda: OffsetSpec.for_timestamp(BASE_MS + 5_003)}[kind]()  # fmt: skip
        found = self._done(self.admin.list_offsets(
            {TopicPartition(self.prefix + topic, partition): spec},
            isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=10,
        ))  # fmt: skip
        stamp = found.timestamp
        return found.offset, stamp if stamp < BASE_MS + 10**8 else "now", found.leader_epoch

    def cut(self, topic: str, partition: int, offset: int) -> Any:
        asked = self._at(topic, partition, offset)
        return self._done(self.admin.delete_records([asked], request_timeout=10)).low_watermark

    def join(
        self, group: str, place: int, topics: tuple[str, ...], instance: str | None, assignor: str
    ) -> Any:
        self.leave(group, place)
        config = {
            **self.common, "group.id": self.prefix + group, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "partition.assignment.strategy": assignor,
            "session.timeout.ms": 30_000, "heartbeat.interval.ms": 100,
            "topic.metadata.refresh.interval.ms": 1_000, "fetch.wait.max.ms": 50,
        }  # fmt: skip
        if instance is not None:
            config["group.instance.id"] = f"{instance}-{place}"
        member = self.members[group, place] = Consumer(config)
        member.subscribe([self.prefix + topic for topic in topics])
        return self._balanced(group)

    def _balanced(self, group: str) -> Any:
        """Poll all members until nothing moves for a while; how many partitions each has."""
        mine = [one for (its, _), one in sorted(self.members.items()) if its == group]
        seen, since, until = None, time.monotonic(), time.monotonic() + 15
        while time.monotonic() < until:
            for one in mine:
                one.pause(one.assignment())
                one.poll(0.02)
            now = [len(one.assignment()) for one in mine]
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > 0.8 and (not mine or max(now) > 0):
                break
        for one in mine:
            one.resume(one.assignment())
        return sorted(seen or [])

    def take(self, group: str, place: int, count: int, commit: bool) -> Any:
        """What comes may be of any partition first; how far it goes in each is the same."""
        member = self.members.get((group, place))
        if member is None:
            return "nobody"
        taken: dict[str, list[int]] = {}
        errors = set()
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            message = member.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                errors.add(_name(message.error()))
                continue
            where = f"{message.topic().removeprefix(self.prefix)}-{message.partition()}"
            taken.setdefault(where, []).append(message.offset())
        if commit and taken:
            member.commit(asynchronous=False)
        # All that there was: each partition from its first to its last offset.
        return {where: (got[0], got[-1], len(got)) for where, got in sorted(taken.items())}, sorted(
            errors
        )

    def pause(self, group: str, place: int) -> Any:
        member = self.members.get((group, place))
        if member is None:
            return "nobody"
        member.pause(member.assignment())
        none = member.poll(0.3) is None
        member.resume(member.assignment())
        return none

    def seek(self, group: str, place: int, offset: int) -> Any:
        member = self.members.get((group, place))
        if member is None or not member.assignment():
            return "nobody"
        first = sorted(member.assignment(), key=lambda part: (part.topic, part.partition))[0]
        member.seek(TopicPartition(first.topic, first.partition, offset))
        return first.topic.removeprefix(self.prefix), first.partition

    def leave(self, group: str, place: int) -> Any:
        member = self.members.pop((group, place), None)
        if member is None:
            return "nobody"
        member.close()
        return self._balanced(group)

    def _offsets_of(self, group: str) -> Any:
        asked = ConsumerGroupTopicPartitions(self.prefix + group)
        found = self._done(self.admin.list_consumer_group_offsets([asked], request_timeout=10))
        return sorted(
            (one.topic.removeprefix(self.prefix), one.partition, one.offset, _name(one.error))
            for one in found.topic_partitions
        )

    def committed(self, group: str) -> Any:
        return self._offsets_of(group)

    def move(self, group: str, topic: str, partition: int, offset: int) -> Any:
        to = ConsumerGroupTopicPartitions(self.prefix + group, [self._at(topic, partition, offset)])
        found = self._done(self.admin.alter_consumer_group_offsets([to], request_timeout=10))
        return [_name(one.error) for one in found.topic_partitions]

    def group(self, group: str) -> Any:
        found = self._done(self.admin.describe_consumer_groups([self.prefix + group]))
        members = sorted(
            (one.group_instance_id or "", one.host, len(one.assignment.topic_partitions))
            for one in found.members
        )
        return found.state.name, found.partition_assignor, found.is_simple_consumer_group, members

    def bury(self, group: str) -> Any:
        self._done(self.admin.delete_consumer_groups([self.prefix + group], request_timeout=10))
        return "gone"
