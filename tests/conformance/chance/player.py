"""Plays a program on a broker, and makes two brokers' answers comparable."""

from __future__ import annotations

import dataclasses
import json
import re
import uuid
from typing import Any

from tests.conformance.chance.programs import Ask, Learned, Name, Records
from tests.conformance.differential.script import MASKED, NODES, TEXTS
from tests.harness.session import Session
from tests.harness.wire import batches
from tests.harness.wire.codec import Unreadable
from tests.harness.wire.connection import Closed

#: After these a broker is asked to settle: Kafka answers them before it has applied them.
_CHANGES = {
    "CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs",
    "ElectLeaders", "AlterPartitionReassignments",
}  # fmt: skip

#: Sizes on disk, clocks, and the state of the metadata log.
_OWN = MASKED - {"TopicId", "MemberId", "ResourceName", "GroupId", "ProducerId", "Leader"} | {
    "TotalBytes", "UsableBytes", "LogDir", "LogEndOffset", "LastFetchTimestamp",
    "LastCaughtUpTimestamp", "NextCursor",
}  # fmt: skip

#: Configs that differ on purpose; a topic whose leader epoch counts the starts of its broker.
_DIFFERENT = {
    "min.insync.replicas", "local.retention.ms", "local.retention.bytes", "__consumer_offsets",
}  # fmt: skip

_OTHERS = re.compile(r"^(c[0-9a-f]{6}-|d[0-9a-f]{6}-)")


_FIRST = ("TopicId", "Topic", "Name", "TopicName", "GroupId", "ResourceType", "ResourceName",
          "PartitionIndex", "Partition", "Index", "PartitionId")  # fmt: skip


def _session(address: str) -> Session:
    """A connection that waits longer than others: a machine may stand still for a while."""
    return Session(address, "d" + uuid.uuid4().hex[:6], 30.0)


def _order(item: Any) -> str:
    """Where an entry stands among others, in whatever order a broker lists them."""
    named = [item.get(name) for name in _FIRST] if isinstance(item, dict) else []
    return json.dumps([named, item], sort_keys=True)


def _merged(topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The topics of a fetch or a produce, each once, as one may be named twice.

    Kafka answers a fetch's errors and records in turn. If a produce request names a topic twice,
    this broker answers in the request's order, and Kafka by topic.
    """
    merged: dict[str, dict[str, Any]] = {}
    for topic in topics:
        held = next((name for name in ("Partitions", "PartitionResponses") if name in topic), None)
        if held is None:
            return topics
        named = topic.get("TopicId") or topic.get("Topic") or topic.get("Name")
        known = merged.setdefault(str(named), topic)
        if known is not topic:
            known[held] = known[held] + topic[held]
    return list(merged.values())


class Player:
    """One broker under a program: what it made up, and a connection that comes back."""

    def __init__(self, address: str, prefix: str) -> None:
        self.address, self.prefix = address, prefix
        self.session = _session(address)
        self.learned: dict[tuple[str, str], list[Any]] = {
            ("topic", "zero"): [uuid.UUID(int=0)],
            ("topic", "foreign"): [uuid.UUID(int=5)],
            ("broker", ""): [self.session.broker_id()],
        }

    def close(self) -> None:
        """Close the connection."""
        self.session.close()

    def play(self, ask: Ask) -> Any:
        """One request; what came back, without what only this broker can know."""
        body = self.resolve(ask.body)
        try:
            answer = self.session.call(ask.api, ask.version, **body)
        except Closed:
            seen: Any = "connection closed"
        except TimeoutError:
            seen = "no answer"
        except Unreadable as error:
            seen = f"unreadable: {error}"
        else:
            self.learn(ask, answer)
            seen = self.normalise(answer)
            if ask.api in _CHANGES:
                self.session.settle()
            return json.loads(json.dumps(seen))
        self.session.close()
        self.session = _session(self.address)
        return seen

    def resolve(self, value: Any) -> Any:
        """A program's value in the names of this broker."""
        if isinstance(value, dict):
            return {key: self.resolve(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.resolve(inner) for inner in value]
        if isinstance(value, Name):
            return self.prefix + value.text
        if isinstance(value, Learned):
            known = self.learned.get((value.kind, value.name), [])
            nothing = {"topic": uuid.UUID(int=6), "member": "", "session": 0, "producer": -1}
            return known[value.place % len(known)] if known else nothing[value.kind]
        if isinstance(value, Records):
            batch = value.batch
            if value.producer is not None:
                number = self.resolve(Learned("producer", "", value.producer))
                batch = dataclasses.replace(batch, producer_id=number)
            return batch.encode()
        return value

    def learn(self, ask: Ask, answer: dict[str, Any]) -> None:
        """Keep what this broker made up."""
        if ask.api in ("CreateTopics", "Metadata"):
            for topic in answer["Topics"]:
                name, topic_id = topic["Name"], topic.get("TopicId")
                if name and name.startswith(self.prefix) and topic_id and topic_id.int:
                    self.keep("topic", name.removeprefix(self.prefix), topic_id)
        elif ask.api == "JoinGroup" and answer["MemberId"]:
            group = ask.body["GroupId"]
            if isinstance(group, Name):
                self.keep("member", group.text, answer["MemberId"])
        elif ask.api == "InitProducerId" and answer["ProducerId"] >= 0:
            self.keep("producer", "", answer["ProducerId"])
        elif ask.api == "Fetch" and answer.get("SessionId"):
            self.keep("session", "", answer["SessionId"])

    def keep(self, kind: str, name: str, value: Any) -> None:
        """Add to what is known, once; of a topic the last id counts."""
        known = self.learned.setdefault((kind, name), [])
        if kind == "topic":
            known[:] = [value]
        elif value not in known:
            known.append(value)

    def symbol(self, kind: str, value: Any) -> str | None:
        """What a made-up value is called in every run."""
        for (its_kind, name), known in self.learned.items():
            if its_kind == kind and value in known:
                return f"{kind} {name} {known.index(value)}"
        return None

    def normalise(self, value: Any, name: str = "") -> Any:
        """What is compared."""
        if name in TEXTS:
            return "*"
        if name == "Responses":
            value = _merged(value)
        if name == "AbortedTransactions":
            # What a limit left no room for has none in Kafka; to clients both are the same.
            return value or []
        if name == "Records" and isinstance(value, bytes):
            return batches.comparable(value)
        if name in _OWN:
            return "null" if value is None else "*"
        if name in NODES and isinstance(value, int):
            return value if value < 0 else "node"
        if isinstance(value, dict):
            return {key: self.normalise(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            inner = [self.normalise(one, name) for one in value if not self.of_others(one)]
            return sorted(inner, key=_order)
        if isinstance(value, uuid.UUID):
            return self.symbol("topic", value) or "some id"
        if name == "SessionId" and value:
            return self.symbol("session", value) or "some session"
        if name == "ProducerId" and value >= 0:
            return self.symbol("producer", value) or "some producer"
        if name in ("MemberId", "Leader") and value:
            return self.symbol("member", value) or "some member"
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, str):
            return value.removeprefix(self.prefix)
        return value

    def of_others(self, value: Any) -> bool:
        """Whether an entry of a list names another program's things."""
        if not isinstance(value, dict):
            return False
        name = str(value.get("Name"))
        if name in _DIFFERENT or name.startswith("kafkalite."):
            return True
        names = (
            value.get(key) for key in ("Name", "GroupId", "TopicName", "Topic", "ResourceName")
        )
        named = [name for name in names if isinstance(name, str)]
        return any(_OTHERS.match(one) and not one.startswith(self.prefix) for one in named)
