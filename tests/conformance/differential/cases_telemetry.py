"""Client metrics (KIP-714): subscriptions, which are configs, and the two requests of clients.

Apache Kafka serves the requests with the plug-in of ``java/TelemetryReceiver.java``.
"""

from __future__ import annotations

import gzip
import struct
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.conformance.differential.registry import case, each
from tests.harness.requests import described
from tests.harness.session import Session

METRICS = 16
SET, DELETE, APPEND, SUBTRACT = range(4)
NOBODY = uuid.UUID(int=0)

Change = tuple[str, int, str | None]


def change(s: Session, name: str, changes: list[Change], **more: Any) -> tuple[int, str | None]:
    """The error of an IncrementalAlterConfigs of a subscription, and its words."""
    configs = [{"Name": key, "ConfigOperation": how, "Value": value} for key, how, value in changes]
    resource = {"ResourceType": METRICS, "ResourceName": name, "Configs": configs}
    body = {"Resources": [resource], "ValidateOnly": False, **more}
    (one,) = s.call("IncrementalAlterConfigs", 1, **body)["Responses"]
    return one["ErrorCode"], one["ErrorMessage"]


def replace(s: Session, name: str, configs: dict[str, str | None]) -> tuple[int, str | None]:
    """The same of an AlterConfigs."""
    listed = [{"Name": key, "Value": value} for key, value in configs.items()]
    resource = {"ResourceType": METRICS, "ResourceName": name, "Configs": listed}
    body = {"Resources": [resource], "ValidateOnly": False}
    (one,) = s.call("AlterConfigs", 2, **body)["Responses"]
    return one["ErrorCode"], one["ErrorMessage"]


@contextmanager
def subscription(s: Session, **configs: str) -> Iterator[str]:
    """A subscription that is in force; it is gone afterwards."""
    name = s.name()
    keys = {key.replace("_", "."): value for key, value in configs.items()}
    change(s, name, [(key, SET, value) for key, value in keys.items()])
    s.settle()
    yield name
    replace(s, name, {})
    s.settle()


CHANGES: dict[str, list[Change]] = {
    "metrics": [("metrics", SET, "org.apache.kafka.producer.,org.apache.kafka.consumer.")],
    "all metrics": [("metrics", SET, "*")],
    "no metrics": [("metrics", SET, "")],
    "a metric twice": [("metrics", SET, "a, b,a")],
    "an empty metric": [("metrics", SET, "a,,b")],
    "a comma": [("metrics", SET, ",")],
    "null": [("metrics", SET, None)],
    "the shortest interval": [("interval.ms", SET, "100")],
    "the longest interval": [("interval.ms", SET, "3600000")],
    "blanks": [("interval.ms", SET, " 100 ")],
    "too short": [("interval.ms", SET, "99")],
    "too long": [("interval.ms", SET, "3600001")],
    "negative": [("interval.ms", SET, "-1")],
    "no number": [("interval.ms", SET, "x")],
    "no interval": [("interval.ms", SET, "")],
    "overflow": [("interval.ms", SET, "99999999999")],
    "match": [("match", SET, "client_id=x.*")],
    "match nothing": [("match", SET, "")],
    "match without a sign": [("match", SET, "client_id")],
    "match an unknown attribute": [("match", SET, "x=y")],
    "match an empty pattern": [("match", SET, "client_id=")],
    "match no attribute": [("match", SET, "=a")],
    "two signs": [("match", SET, "client_id=a=b")],
    "signs at the end": [("match", SET, "client_id=a==")],
    "an attribute twice": [("match", SET, "client_id=a,client_id=b")],
    "blanks in match": [("match", SET, " client_id = a , client_software_name = b")],
    "a bad pattern": [("match", SET, "client_id=(")],
    "a pattern with a digit": [("match", SET, r"client_source_port=\d+")],
    "a comma at the end": [("match", SET, "client_id=a,")],
    "unknown key": [("no.such", SET, "x")],
    "unknown key and bad value": [("no.such", SET, "x"), ("interval.ms", SET, "5")],
    "delete": [("metrics", DELETE, None)],
    "delete an unknown key": [("no.such", DELETE, None)],
    "append to metrics": [("metrics", APPEND, "b")],
    "subtract from metrics": [("metrics", SUBTRACT, "b")],
    "append to match": [("match", APPEND, "client_id=x")],
    "append to interval": [("interval.ms", APPEND, "1000")],
    "a key twice": [("metrics", SET, "m"), ("metrics", SET, "n")],
    "nothing": [],
}


@each(CHANGES)
def a_subscription_is_changed(s: Session, changes: list[Change]) -> Any:
    name = s.name()
    change(s, name, [("metrics", SET, "before")])
    code, words = change(s, name, changes)
    s.settle()
    told = described(s, name, [], kind=METRICS, IncludeSynonyms=True)
    replace(s, name, {})
    return code, words, told


@case
def a_subscription_is_replaced(s: Session) -> Any:
    name = s.name()
    seen: list[Any] = []
    for configs in (
        {"metrics": "a", "interval.ms": "5000"},
        {"match": "client_id=x"},
        {"interval.ms": "5"},
        {"metrics": None},
        {"zzz": "1", "interval.ms": "5"},
        {},
    ):
        seen.append(replace(s, name, configs))
        s.settle()
        seen.append(described(s, name, [], kind=METRICS))
    return seen


@case
def a_subscription_needs_a_name(s: Session) -> Any:
    asked = [{"ResourceType": METRICS, "ResourceName": "", "ConfigurationKeys": None}]
    (told,) = s.call("DescribeConfigs", 4, Resources=asked)["Results"]
    changed = change(s, "", [("metrics", SET, "a")]), replace(s, "", {"metrics": "a"})
    return changed, told["ErrorCode"], [told["ErrorMessage"]]


@each({"blank": " ", "dots": "../..", "letters": "äöü", "long": "n" * 300})
def a_subscription_may_have_any_name(s: Session, name: str) -> Any:
    changed = change(s, name, [("metrics", SET, "a")])
    s.settle()
    told = described(s, name, ["metrics"], kind=METRICS)
    return changed, told, replace(s, name, {})


@case
def subscriptions_are_listed(s: Session) -> Any:
    def listed() -> list[bool]:
        found = [s.call("ListConfigResources", 0)["ConfigResources"]]
        for kinds in ([], [METRICS], [2]):
            answer = s.call("ListConfigResources", 1, ResourceTypes=kinds)
            found.append([one for one in answer["ConfigResources"] if one["ResourceType"] == 16])
        return [name in {one["ResourceName"] for one in each} for each in found]

    with subscription(s, metrics="a") as name:
        there = listed()
    return there, listed()


@case
def a_subscription_is_only_validated(s: Session) -> Any:
    name = s.name()
    good = change(s, name, [("metrics", SET, "a")], ValidateOnly=True)
    bad = change(s, name, [("interval.ms", SET, "1")], ValidateOnly=True)
    s.settle()
    return good, bad, described(s, name, ["metrics"], kind=METRICS)


# The requests of clients


def client(label: str) -> uuid.UUID:
    """An id of a client of this case only, the same in each run: subscription ids depend on it."""
    return uuid.uuid5(uuid.NAMESPACE_OID, label)


def ask(s: Session, instance: uuid.UUID) -> dict[str, Any]:
    """One GetTelemetrySubscriptions, its list sorted: Kafka's is of a hash set."""
    answer = s.call("GetTelemetrySubscriptions", 0, ClientInstanceId=instance)
    answer["RequestedMetrics"] = sorted(answer["RequestedMetrics"])
    return answer


def push(s: Session, instance: uuid.UUID, number: int, **more: Any) -> int:
    """The error of one PushTelemetry."""
    body: dict[str, Any] = {
        "ClientInstanceId": instance,
        "SubscriptionId": number,
        "Terminating": False,
        "CompressionType": 0,
        "Metrics": b"",
    }
    return s.call("PushTelemetry", 0, **(body | more))["ErrorCode"]


def field(number: int, inner: bytes) -> bytes:
    """A message within a message, shorter than 16,384 bytes."""
    length = len(inner)
    size = [length] if length < 0x80 else [length & 0x7F | 0x80, length >> 7]
    return bytes([number << 3 | 2, *size]) + inner


#: A gauge of 7, in OpenTelemetry's MetricsData.
POINT = bytes([6 << 3 | 1]) + struct.pack("<q", 7)
REPORT = field(1, field(2, field(2, field(1, b"m") + field(5, field(1, POINT)))))


@case
def a_new_client_gets_an_id_and_is_asked_for_nothing(s: Session) -> Any:
    answer = ask(s, NOBODY)
    instance, number = answer.pop("ClientInstanceId"), answer.pop("SubscriptionId")
    return instance != NOBODY, push(s, instance, number), answer


@each(
    {
        "one metric": {"metrics": "org.apache.kafka.consumer."},
        "all metrics": {"metrics": "a,*", "interval_ms": "1000"},
        "an interval": {"interval_ms": "400000"},
        "no metrics": {"metrics": "", "interval_ms": "200000"},
    }
)
def a_client_is_asked_for(s: Session, configs: dict[str, str]) -> Any:
    instance = client(f"asked for {sorted(configs.items())}")
    match = f"client_instance_id={kafka_id(instance)}"
    with subscription(s, match=match, **configs):
        answer = ask(s, instance)
    return answer, ask(s, client("asked for nothing"))["RequestedMetrics"]


def kafka_id(instance: uuid.UUID) -> str:
    """The id as Kafka writes it."""
    return urlsafe_b64encode(instance.bytes).decode().rstrip("=")


@each(
    {
        "client id": ("client_id=confor.*", "client_id=confor"),
        "software": ("client_software_name=unknown", "client_software_name=librdkafka"),
        "address": (r"client_source_address=127\.0\.0\.1", r"client_source_address=::1"),
        "port": (r"client_source_port=\d+", "client_source_port=1"),
    }
)
def a_subscription_looks_at(s: Session, patterns: tuple[str, str]) -> Any:
    seen = []
    for pattern in patterns:
        with subscription(s, match=pattern, metrics="m"):
            seen.append(ask(s, client(pattern))["RequestedMetrics"])
    return seen


PUSHES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a report": {"Metrics": REPORT},
    "gzip": {"Metrics": gzip.compress(REPORT, mtime=0), "CompressionType": 1},
    "no id": {"ClientInstanceId": NOBODY},
    "a reserved id": {"ClientInstanceId": uuid.UUID(int=1)},
    "another subscription": {"SubscriptionId": 1},
    "an unknown codec": {"CompressionType": 5},
    "a negative codec": {"CompressionType": -1},
    "too large": {"Metrics": bytes(1_048_577)},
    "damaged": {"Metrics": b"\xff\xff\xff"},
    "damaged gzip": {"Metrics": REPORT, "CompressionType": 1},
    "damaged zstd": {"Metrics": REPORT, "CompressionType": 4},
    "another subscription, an unknown codec": {"SubscriptionId": 1, "CompressionType": 5},
    "an unknown codec, too large": {"CompressionType": 5, "Metrics": bytes(1_048_577)},
}


@each(PUSHES)
def a_client_pushes(s: Session, mistake: dict[str, Any]) -> Any:
    """Then it asks, which some errors let it, and does both again."""
    instance = client(f"pushes {sorted(mistake.items())}")
    number = ask(s, instance)["SubscriptionId"]
    seen = [push(s, instance, number, **mistake), ask(s, instance)["ErrorCode"]]
    return [*seen, push(s, instance, number), ask(s, instance)["ErrorCode"]]


@case
def a_client_asks_twice(s: Session) -> Any:
    instance = client("asks twice")
    return ask(s, instance), ask(s, instance)


@case
def a_client_ends(s: Session) -> Any:
    instance = client("ends")
    number = ask(s, instance)["SubscriptionId"]
    pushes = [push(s, instance, number)]
    pushes += [push(s, instance, number, Terminating=last) for last in (True, True, False, False)]
    return pushes


@case
def a_changed_subscription_counts_at_once(s: Session) -> Any:
    instance = client("told at once")
    before = ask(s, instance)["SubscriptionId"]
    with subscription(s, match=f"client_instance_id={kafka_id(instance)}", metrics="m"):
        late = push(s, instance, before)
        answer = ask(s, instance)
        pushed = push(s, instance, answer["SubscriptionId"])
    return late, answer, pushed, ask(s, instance)["SubscriptionId"] == before
