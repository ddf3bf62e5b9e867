"""A connection and the everyday requests, for tests that speak the wire."""

from __future__ import annotations

import uuid
from typing import Any

from tests.harness.patience import eventually
from tests.harness.wire import batches
from tests.harness.wire.connection import Connection

#: Seconds after which a case says that no answer came: more than a busy machine stands still.
ANSWER_WITHIN = 20.0
#: The same where some hang Apache Kafka, and who has no answer asks again.
ANSWER_SOON = 5.0


class Session:
    """A raw connection, and shorthands that assert nothing."""

    def __init__(self, address: str, prefix: str, answer_within: float = ANSWER_WITHIN) -> None:
        self.address = address
        self.prefix = prefix
        self.made = 0
        self.open = Connection(address, answer_within)
        self.others: list[Connection] = []

    def close(self) -> None:
        """Close all connections of this session."""
        for one in (self.open, *self.others):
            one.close()

    def another(self) -> Connection:
        """A second connection; closed with the session."""
        self.others.append(Connection(self.address))
        return self.others[-1]

    def call(self, api: str, version: int, **body: Any) -> dict[str, Any]:
        """One request and its answer."""
        return self.open.call(api, version, body)

    def name(self) -> str:
        """A name of this session only."""
        self.made += 1
        return f"{self.prefix}-{self.made}"

    # Topics

    def create(self, name: str, partitions: int = 1, **config: str) -> dict[str, Any]:
        """Create a topic (underscores in config keys become dots); the answer for it."""
        configs = [{"Name": k.replace("_", "."), "Value": v} for k, v in config.items()]
        topic = {
            "Name": name,
            "NumPartitions": partitions,
            "ReplicationFactor": 1,
            "Configs": configs,
        }
        answer = self.call("CreateTopics", 7, Topics=[topic], timeoutMs=15_000)
        return answer["Topics"][0]

    def topic(self, partitions: int = 1, **config: str) -> str:
        """A new topic that is ready to be written."""
        name = self.name()
        created = self.create(name, partitions, **config)
        assert created["ErrorCode"] == 0, created
        eventually(lambda: self.leaders(name) == partitions)
        return name

    def settle(self) -> None:
        """Return once the broker has applied every change that was answered before.

        Kafka answers from the controller. Its broker applies the metadata log a little later,
        batch by batch, and in each batch the topics before the configs. So the first new topic may
        be there before what was altered; the second is of a later batch.
        """
        self.topic()
        self.topic()

    def leaders(self, name: str) -> int:
        """How many partitions of a topic are led, and answer, by now."""
        parts = self.metadata(name)["Partitions"]
        led = [p["PartitionIndex"] for p in parts if p["ErrorCode"] == 0 and p["LeaderId"] >= 0]
        if not led:
            return 0
        # Kafka shows a leader in its metadata before that leader has opened the log.
        asked = [{"PartitionIndex": index, "Timestamp": -1} for index in led]
        topics = [{"Name": name, "Partitions": asked}]
        answer = self.call("ListOffsets", 9, ReplicaId=-1, Topics=topics)
        return sum(1 for p in answer["Topics"][0]["Partitions"] if p["ErrorCode"] == 0)

    def metadata(self, name: str, version: int = 12) -> dict[str, Any]:
        """The metadata of one topic, never creating it."""
        asked = [{"Name": name}]
        answer = self.call("Metadata", version, Topics=asked, AllowAutoTopicCreation=False)
        return answer["Topics"][0]

    def topic_id(self, name: str) -> uuid.UUID:
        """The id of a topic."""
        return self.metadata(name)["TopicId"]

    def broker_id(self) -> int:
        """The id of the one broker."""
        return self.call("Metadata", 12, Topics=[])["Brokers"][0]["NodeId"]

    # Records

    def produce(
        self,
        topic: str,
        records: bytes | None,
        *,
        version: int = 9,
        acks: int = -1,
        partition: int = 0,
        topic_id: uuid.UUID | None = None,
    ) -> dict[str, Any]:
        """Produce these bytes to one partition; the answer for it."""
        part = {"Index": partition, "Records": records}
        data: dict[str, Any] = {"PartitionData": [part]}
        if version >= 13:
            data["TopicId"] = topic_id or self.topic_id(topic)
        else:
            data["Name"] = topic
        answer = self.call("Produce", version, Acks=acks, TimeoutMs=5_000, TopicData=[data])
        return answer["Responses"][0]["PartitionResponses"][0]

    def fill(self, topic: str, count: int = 3, size: int = 3, partition: int = 0) -> None:
        """Append ``count`` batches of ``size`` records; offsets are values, time steps by 1,000."""
        for number in range(count):
            first = number * size
            records = tuple(
                batches.Record(b"%d" % (first + i), key=b"k", timestamp_delta=i * 1_000)
                for i in range(size)
            )
            batch = batches.Batch(records, base_timestamp_ms=BASE_MS + first * 1_000)
            answer = self.produce(topic, batch.encode(), partition=partition)
            assert answer["ErrorCode"] == 0, answer

    def fetch(
        self,
        topic: str,
        offset: int,
        *,
        version: int = 11,
        partition: int = 0,
        part: dict[str, Any] | None = None,
        **body: Any,
    ) -> dict[str, Any]:
        """Fetch one partition without waiting; the whole answer."""
        wanted = {
            "Partition": partition,
            "FetchOffset": offset,
            "PartitionMaxBytes": 1 << 20,
            **(part or {}),
        }
        named: dict[str, Any] = {"Partitions": [wanted]}
        if version >= 13:
            named["TopicId"] = self.topic_id(topic)
        else:
            named["Topic"] = topic
        asked = {"MaxWaitMs": 0, "MinBytes": 0, "MaxBytes": 1 << 20, "Topics": [named], **body}
        return self.call("Fetch", version, **asked)

    def list_offset(
        self, topic: str, timestamp: int, *, version: int = 9, part: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """ListOffsets for partition 0; the answer for it."""
        wanted = {"PartitionIndex": 0, "Timestamp": timestamp, **(part or {})}
        topics = [{"Name": topic, "Partitions": [wanted]}]
        answer = self.call("ListOffsets", version, ReplicaId=-1, Topics=topics)
        return answer["Topics"][0]["Partitions"][0]


#: The time of offset 0 in ``Session.fill``, in milliseconds since the epoch.
BASE_MS = 1_700_000_000_000
