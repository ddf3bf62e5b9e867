"""Changes over HTTP: the admin API does what it was asked, and a stranger's client sees it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

import kafkalite
from tests.harness.openapi import flaws
from tests.harness.patience import eventually
from tests.harness.process import PATIENCE_S, Process, Processes, port_of
from tests.unit.test_admin_api import FILE, Refused, check


class Changes:
    """The API of one broker. Each request and each answer is checked against the file."""

    def __init__(self, url: str) -> None:
        self.url = f"{url}/api/v1"

    def send(self, method: str, path: str, body: Any = None, /, **asked: Any) -> Any:
        """What ``method`` of ``path`` answers; its parts are filled in from ``asked``."""
        described = FILE["paths"][path][method.lower()]
        parts = {name: asked.pop(name) for name in list(asked) if f"{{{name}}}" in path}
        quoted = {name: urllib.parse.quote(str(part), safe="") for name, part in parts.items()}
        query = urllib.parse.urlencode(asked)
        url = self.url + path.format(**quoted) + (f"?{query}" if query else "")
        data = None
        if body is not None:
            wanted = described["requestBody"]["content"]["application/json"]["schema"]
            assert flaws(body, wanted, FILE) == []
            data = json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method)
        responses = described["responses"]
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                told = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            told = json.loads(error.read())
            check(told, responses["default"])
            raise Refused(error.code, told) from None
        check(told, responses["201" if method == "POST" else "200"])
        return told


@pytest.fixture(scope="module")
def writable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A broker without the dev profile, so that the word alone allows changes."""
    started = Processes(tmp_path_factory.mktemp("writable"))
    yield started.serve("--console-write", "--set", "group.initial.rebalance.delay.ms=0")
    started.close()


@pytest.fixture
def changes(writable: Process) -> Changes:
    return Changes(writable.admin)


@pytest.fixture
def admin(writable: Process) -> AdminClient:
    return AdminClient({"bootstrap.servers": writable.ready})


@pytest.fixture
def topic(changes: Changes) -> str:
    name = f"changed-{uuid.uuid4().hex[:8]}"
    changes.send("POST", "/topics", {"name": name, "partitions": 2})
    return name


def partitions_of(admin: AdminClient, topic: str) -> int:
    return len(admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)


def key_of(admin: AdminClient, resource: ConfigResource, key: str) -> Any:
    return admin.describe_configs([resource])[resource].result(PATIENCE_S)[key].value


def only_record(process: Process, topic: str, partition: int) -> Message:
    keys = {"bootstrap.servers": process.ready, "group.id": uuid.uuid4().hex}
    consumer = Consumer(keys)
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        return message
    finally:
        consumer.close()


def fill(process: Process, topic: str, count: int) -> None:
    """Write records of the times 1000, 1001, ... to partition 0, each a batch of its own."""
    producer = Producer({"bootstrap.servers": process.ready})
    for number in range(count):
        producer.produce(topic, b"x", partition=0, timestamp=1_000 + number)
        assert producer.flush(PATIENCE_S) == 0


def committed(process: Process, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": process.ready, "group.id": group})
    try:
        [found] = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
        return int(found.offset)
    finally:
        consumer.close()


def test_a_topic_is_created_as_it_was_asked_for(changes: Changes, admin: AdminClient) -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"
    wanted = {"name": name, "partitions": 3, "configs": {"retention.ms": "60000"}}
    assert changes.send("POST", "/topics", {**wanted, "dry_run": True})["id"] is None
    made = changes.send("POST", "/topics", wanted)
    assert (made["partitions"], made["replication_factor"], made["dry_run"]) == (3, 1, False)
    assert partitions_of(admin, name) == 3
    of_topic = ConfigResource(ConfigResource.Type.TOPIC, name)
    assert key_of(admin, of_topic, "retention.ms") == "60000"


def test_a_dry_run_changes_nothing(changes: Changes, admin: AdminClient, topic: str) -> None:
    changes.send("POST", "/topics", {"name": f"{topic}-dry", "dry_run": True})
    grown = {"count": 5, "dry_run": True}
    changes.send("POST", "/topics/{name}/partitions", grown, name=topic)
    altered = {"set": {"retention.ms": "60000"}, "dry_run": True}
    changes.send("PATCH", "/topics/{name}/config", altered, name=topic)
    assert f"{topic}-dry" not in admin.list_topics(timeout=PATIENCE_S).topics
    assert partitions_of(admin, topic) == 2
    of_topic = ConfigResource(ConfigResource.Type.TOPIC, topic)
    assert key_of(admin, of_topic, "retention.ms") == "604800000"


def test_a_topic_gets_more_partitions(changes: Changes, admin: AdminClient, topic: str) -> None:
    changes.send("POST", "/topics/{name}/partitions", {"count": 4}, name=topic)
    assert partitions_of(admin, topic) == 4
    with pytest.raises(Refused) as refused:
        changes.send("POST", "/topics/{name}/partitions", {"count": 4}, name=topic)
    assert "INVALID_PARTITIONS" in refused.value.body["why"]


def test_a_topic_of_another_id_is_not_deleted(
    changes: Changes, admin: AdminClient, topic: str
) -> None:
    with pytest.raises(Refused) as refused:
        changes.send("DELETE", "/topics/{name}", name=topic, id="AAAAAAAAAAAAAAAAAAAAAQ")
    assert refused.value.status == 400
    deleted = changes.send("DELETE", "/topics/{name}", name=topic)
    assert topic not in admin.list_topics(timeout=PATIENCE_S).topics
    changes.send("POST", "/topics", {"name": topic})
    with pytest.raises(Refused):
        changes.send("DELETE", "/topics/{name}", name=topic, id=deleted["id"])
    assert topic in admin.list_topics(timeout=PATIENCE_S).topics


def test_keys_of_a_topic_are_set_and_given_back(
    changes: Changes, admin: AdminClient, topic: str
) -> None:
    of_topic = ConfigResource(ConfigResource.Type.TOPIC, topic)
    changes.send("PATCH", "/topics/{name}/config", {"set": {"retention.ms": "7"}}, name=topic)
    assert key_of(admin, of_topic, "retention.ms") == "7"
    changes.send("PATCH", "/topics/{name}/config", {"unset": ["retention.ms"]}, name=topic)
    assert key_of(admin, of_topic, "retention.ms") == "604800000"
    with pytest.raises(Refused) as refused:
        wrong = {"set": {"retention.ms": "a week"}}
        changes.send("PATCH", "/topics/{name}/config", wrong, name=topic)
    assert "INVALID_CONFIG" in refused.value.body["why"]


def test_keys_of_a_broker_and_of_all_are_set(changes: Changes, admin: AdminClient) -> None:
    [broker] = admin.list_topics(timeout=PATIENCE_S).brokers
    of_broker = ConfigResource(ConfigResource.Type.BROKER, str(broker))
    key = "log.retention.ms"
    changes.send("PATCH", "/config", {"broker": "all", "set": {key: "700000"}})
    assert key_of(admin, of_broker, key) == "700000"
    changes.send("PATCH", "/config", {"broker": broker, "set": {key: "800000"}})
    assert key_of(admin, of_broker, key) == "800000"
    changes.send("PATCH", "/config", {"broker": broker, "unset": [key]})
    changes.send("PATCH", "/config", {"broker": "all", "unset": [key]})


def test_a_record_is_appended_byte_for_byte(
    changes: Changes, writable: Process, topic: str
) -> None:
    record = {
        "partition": 1,
        "key": {"text": "schl\u00fcssel"},
        "value": {"hex": "00ff10"},
        "headers": [{"name": "trace", "value": {"text": "a"}}, {"name": "none", "value": None}],
        "timestamp_ms": 1_234,
    }
    told = changes.send("POST", "/topics/{name}/messages", record, name=topic)
    assert told == {"topic": topic, "partition": 1, "offset": 0, "timestamp_ms": 1_234}
    found = only_record(writable, topic, 1)
    assert (found.key(), found.value()) == ("schl\u00fcssel".encode(), b"\x00\xff\x10")
    assert found.headers() == [("trace", b"a"), ("none", None)]
    assert found.timestamp()[1] == 1_234


def test_a_tombstone_is_appended(changes: Changes, writable: Process, topic: str) -> None:
    record = {"partition": 0, "key": {"text": "gone"}, "value": None}
    changes.send("POST", "/topics/{name}/messages", record, name=topic)
    found = only_record(writable, topic, 0)
    assert (found.key(), found.value()) == (b"gone", None)


@pytest.mark.parametrize(
    ("to", "after", "clamped"),
    [
        ("earliest", 0, False),
        ("latest", 5, False),
        ({"offset": 3}, 3, False),
        ({"offset": 99}, 5, True),
        ({"offset": -7}, 0, True),
        ({"time_ms": 1_002}, 2, False),
        ({"time_ms": 9_999}, 5, False),
        ({"by": -1}, 1, False),
        ({"by": 100}, 5, True),
    ],
)
def test_offsets_of_a_group_move_as_its_preview_says(
    changes: Changes, writable: Process, topic: str, to: Any, after: int, clamped: bool
) -> None:
    fill(writable, topic, 5)
    group = f"group-of-{topic}"
    named = [{"name": topic, "partitions": [0, 0]}]
    first = {"topics": named, "to": {"offset": 2}}
    told = changes.send("POST", "/groups/{id}/offsets", first, id=group)
    assert [row["before"] for row in told["offsets"]] == [None]
    preview = {"to": to, "dry_run": True}
    rows = changes.send("POST", "/groups/{id}/offsets", preview, id=group)["offsets"]
    expected = {"topic": topic, "partition": 0, "before": 2, "after": after, "clamped": clamped}
    assert rows == [expected]
    assert committed(writable, group, topic) == 2
    told = changes.send("POST", "/groups/{id}/offsets", {"to": to}, id=group)
    assert told["offsets"] == rows
    assert committed(writable, group, topic) == after


def test_a_group_with_members_keeps_its_offsets_and_may_be_previewed(
    changes: Changes, writable: Process, topic: str
) -> None:
    fill(writable, topic, 3)
    keys = {
        "bootstrap.servers": writable.ready,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(keys)
    consumer.subscribe([topic])
    try:
        assert len(consumer.consume(3, timeout=PATIENCE_S)) == 3
        consumer.commit(asynchronous=False)
        preview = {"to": "earliest", "dry_run": True}
        told = changes.send("POST", "/groups/{id}/offsets", preview, id=topic)
        assert told["members"] == 1
        moved = {(row["partition"], row["before"], row["after"]) for row in told["offsets"]}
        assert (0, 3, 0) in moved
        for command in (
            ("POST", "/groups/{id}/offsets", {"to": "earliest"}),
            ("DELETE", "/groups/{id}"),
        ):
            with pytest.raises(Refused) as refused:
                changes.send(*command, id=topic)
            assert refused.value.status == 409
        assert committed(writable, topic, topic) == 3
    finally:
        consumer.close()
    changes.send("POST", "/groups/{id}/offsets", {"to": "earliest"}, id=topic)
    assert committed(writable, topic, topic) == 0
    changes.send("DELETE", "/groups/{id}", id=topic)
    with pytest.raises(Refused) as refused:
        changes.send("DELETE", "/groups/{id}", id=topic)
    assert refused.value.status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/topics", {"name": "a/b"}, 409),
        ("POST", "/topics", {"name": "__consumer_offsets"}, 409),
        ("POST", "/topics", {"name": "many", "partitions": 2_000_000_000}, 409),
        ("DELETE", "/topics/{name}", None, 404),
        ("POST", "/topics/{name}/partitions", {"count": 3}, 404),
        ("PATCH", "/topics/{name}/config", {"set": {"retention.ms": "1"}}, 404),
        ("PATCH", "/config", {"broker": "all"}, 400),
        ("PATCH", "/config", {"broker": "all", "set": {"no.such": "x", "node.id": "9"}}, 409),
        ("POST", "/topics/{name}/messages", {"partition": 0, "value": {"text": "x"}}, 404),
        ("POST", "/groups/{id}/offsets", {"to": "latest"}, 400),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_hint(
    changes: Changes, method: str, path: str, body: Any, status: int
) -> None:
    parts = {"name": "no-such-topic"} if "{name}" in path else {}
    parts |= {"id": "no-such-group"} if "{id}" in path else {}
    with pytest.raises(Refused) as refused:
        changes.send(method, path, body, **parts)
    assert refused.value.status == status
    assert refused.value.body["hint"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"x"', b'{"name": 7}', b'{"name": "x", "more": 1}', b"\xff", b"[" * 9_999],
)
def test_bodies_that_are_no_request_are_refused(changes: Changes, body: bytes) -> None:
    request = urllib.request.Request(f"{changes.url}/topics", data=body, method="POST")
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=PATIENCE_S)
    assert error.value.code == 400
    assert "body cannot be read" in json.loads(error.value.read())["what"]


@pytest.mark.parametrize(
    ("path", "head", "body", "status"),
    [
        ("/topics", f"Content-Length: {3 << 20}", b" " * (3 << 20), 413),
        ("/topics", "Transfer-Encoding: chunked", b"ZZ\r\n", 400),
        ("/faults", "Transfer-Encoding: chunked", b"ZZ\r\n", 400),
    ],
)
def test_a_body_that_does_not_come_whole_is_refused_as_the_file_says(
    path: str, head: str, body: bytes, status: int
) -> None:
    """The answer was plain text."""
    config = {"kafkalite.console.write": "true"}
    with kafkalite.Broker(admin_port=0, config=config) as broker:
        assert broker.admin_url is not None
        port = int(broker.admin_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as stream:
            words = (f"POST /api/v1{path} HTTP/1.1", "Host: localhost", head, "Connection: close")
            stream.sendall("".join(f"{word}\r\n" for word in words).encode() + b"\r\n")
            # It may refuse, and close, before it has read all.
            with contextlib.suppress(ConnectionError):
                stream.sendall(body)
            answer = http.client.HTTPResponse(stream)
            answer.begin()
            assert answer.status == status
            responses = FILE["paths"][path]["post"]["responses"]
            check(json.loads(answer.read()), responses["default"])


def test_a_group_of_a_broker_without_groups_is_not_there_and_can_be_made() -> None:
    """NOT_COORDINATOR: no group has one until a client asks for its coordinator."""
    config = {"kafkalite.console.write": "true"}
    with kafkalite.Broker(admin_port=0, topics=["t"], config=config) as broker:
        assert broker.admin_url is not None
        changes = Changes(broker.admin_url)
        for method in ("GET", "DELETE"):
            with pytest.raises(Refused) as refused:
                changes.send(method, "/groups/{id}", id="g")
            assert refused.value.status == 404
        reset = {"topics": [{"name": "t"}], "to": "earliest"}
        preview = changes.send("POST", "/groups/{id}/offsets", reset | {"dry_run": True}, id="g")
        assert (preview["state"], preview["members"]) == ("", 0)
        changes.send("POST", "/groups/{id}/offsets", reset, id="g")
        assert changes.send("GET", "/groups/{id}", id="g")["offsets"][0]["committed_offset"] == 0


@pytest.mark.parametrize("digits", ["0", "zz", "0x00", "+1", "\u0660\u0660"])
def test_what_is_not_hexadecimal_is_refused(changes: Changes, topic: str, digits: str) -> None:
    record = {"partition": 0, "value": {"hex": digits}}
    with pytest.raises(Refused) as refused:
        changes.send("POST", "/topics/{name}/messages", record, name=topic)
    assert refused.value.status == 400


def test_a_broker_without_the_key_changes_nothing(processes: Processes) -> None:
    changes = Changes(processes.serve().admin)
    commands = [
        (path, method.upper(), described)
        for path, methods in FILE["paths"].items()
        for method, described in methods.items()
        if "kafkalite.console.write" in described.get("summary", "")
    ]
    assert len(commands) == 8
    for path, method, _ in commands:
        parts = {part: "x" for part in ("name", "id") if f"{{{part}}}" in path}
        with pytest.raises(Refused) as refused:
            changes.send(method, path, **parts)
        assert refused.value.status == 403
        assert "--console-write" in refused.value.body["hint"]


@pytest.fixture
def stalled() -> Iterator[kafkalite.Broker]:
    """A broker under test, where appends of the console wait until the fault ends."""
    config = {"kafkalite.console.write": "true"}
    with kafkalite.Broker(admin_port=0, topics=["t"], config=config) as broker:
        broker.faults.stall("request_queue", api="Produce", client_id="kafkalite-console")
        yield broker


def test_changes_that_wait_hold_up_no_page_and_are_bounded(stalled: kafkalite.Broker) -> None:
    # Two of them held both threads of the API, so every page waited 15 s for them.
    assert stalled.admin_url is not None
    changes = Changes(stalled.admin_url)
    record = {"partition": 0, "value": {"text": "held"}}

    def append() -> int:
        return int(changes.send("POST", "/topics/{name}/messages", record, name="t")["offset"])

    [stall] = stalled.faults
    with ThreadPoolExecutor(16) as pool:
        held = [pool.submit(append) for _ in range(16)]
        try:
            eventually(lambda: stall.fired == 16, PATIENCE_S)
            assert changes.send("GET", "/overview")["topics"] == 1
            with pytest.raises(Refused) as refused:
                append()
            assert refused.value.status == 429
            assert "16 other changes wait" in refused.value.body["why"]
            assert "try again" in refused.value.body["hint"]
        finally:
            stall.remove()
        assert sorted(one.result(PATIENCE_S) for one in held) == list(range(16))
    assert append() == 16


def test_a_change_keeps_its_place_when_its_client_goes(stalled: kafkalite.Broker) -> None:
    # The broker still has its request: or a client that comes and goes had as many as it likes.
    assert stalled.admin_url is not None
    changes = Changes(stalled.admin_url)
    [stall] = stalled.faults
    port = port_of(stalled.admin_url)
    body = json.dumps({"partition": 0, "value": {"text": "left"}}).encode()
    head = "POST /api/v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"

    def has_fired(times: int) -> bool:
        return stall.fired == times

    for number in range(16):
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as leaving:
            leaving.sendall(head.encode() + body)
            eventually(partial(has_fired, number + 1), PATIENCE_S)
    with pytest.raises(Refused) as refused:
        changes.send("POST", "/topics", {"name": "one-more"})
    assert refused.value.status == 429
    stall.remove()

    def is_made() -> bool:
        with contextlib.suppress(Refused):
            changes.send("POST", "/topics", {"name": "one-more"})
            return True
        return False

    eventually(is_made, PATIENCE_S)


def test_a_reset_that_is_refused_in_part_says_what_is_changed() -> None:
    """It said that nothing is changed."""
    config = {"kafkalite.console.write": "true"}
    with kafkalite.Broker(admin_port=0, topics=["t", "u"], config=config) as broker:
        assert broker.admin_url is not None
        changes = Changes(broker.admin_url)
        body = {"topics": [{"name": "t"}, {"name": "u"}], "to": "latest"}
        # The first commit makes the topic of the offsets.
        with kafkalite.AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.alter_group_offsets("g", {("t", 0): 0})
        broker.faults.error("OffsetCommit", "UNKNOWN_TOPIC_OR_PARTITION", topic="u")
        with pytest.raises(Refused) as refused:
            changes.send("POST", "/groups/{id}/offsets", body, id="g")
    assert refused.value.status == 404
    told = refused.value.body
    assert told["what"] == 'the offsets of group "g" are changed in part'
    assert "changed: t-0; failed: u-0 (UNKNOWN_TOPIC_OR_PARTITION)" in told["why"]
