"""The admin API over HTTP: every answer is what the OpenAPI file says, and tells what is so."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.harness.openapi import flaws
from tests.harness.process import PATIENCE_S, Process, Processes
from tests.unit.test_command_line import told

ROOT = Path(__file__).parents[2]
FILE: dict[str, Any] = json.loads((ROOT / "rust/broker/src/admin_api/openapi.json").read_text())
#: The library that the tests talk to the broker with.
SOFTWARE = "confluent-kafka-python"

#: What no reader may stumble over.
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; DROP TABLE topics; --",
    "../../etc/passwd",
    "%2e%2e%2f%00",
    "a/b?c=d&e#f",
    "\u202eright to left",
    "\U0001f600 \u0000 \u001b[31m",
    "{{7*7}}${7*7}",
    "x" * 5_000,
)


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, body: dict[str, str]) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class Api:
    """The API of one broker. Each answer is checked against the file."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = f"{url}/api/v1"
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def get(self, path: str, /, **asked: Any) -> Any:
        """The answer of ``path``, whose parts are filled in from ``asked``; the rest is query."""
        parts = {name: asked.pop(name) for name in list(asked) if f"{{{name}}}" in path}
        quoted = {name: urllib.parse.quote(str(part), safe="") for name, part in parts.items()}
        query = urllib.parse.urlencode(asked)
        url = self.url + path.format(**quoted) + (f"?{query}" if query else "")
        responses = FILE["paths"][path]["get"]["responses"]
        request = urllib.request.Request(url, headers=self.headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                assert answer.headers["Content-Type"] == "application/json"
                body = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            body = json.loads(error.read())
            check(body, responses["default"])
            raise Refused(error.code, body) from None
        check(body, responses["200"])
        return body


def check(body: Any, response: dict[str, Any]) -> None:
    """Assert that a body is what a response of the file says."""
    assert flaws(body, response["content"]["application/json"]["schema"], FILE) == []


@pytest.fixture
def api(broker: Process) -> Api:
    return Api(broker.admin)


@pytest.fixture
def topic(broker: Process) -> str:
    """A topic of two partitions with three records in the second, each a batch of its own."""
    name = f"api-{uuid.uuid4().hex[:8]}"
    at = ("-b", broker.ready)
    assert told("topics", "create", name, "--partitions", "2", *at).returncode == 0
    producer = Producer({"bootstrap.servers": broker.ready})
    for number in range(3):
        producer.produce(
            name,
            json.dumps({"n": number}).encode(),
            key=f"key {number}".encode(),
            partition=1,
            timestamp=1_000 + number,
            headers=[("trace", b"\x00\xff"), ("none", None)],
        )
        assert producer.flush(PATIENCE_S) == 0
    return name


@pytest.fixture
def group(broker: Process, topic: str) -> Any:
    """A group of one member that committed the first of three records."""
    keys = {
        "bootstrap.servers": broker.ready,
        "group.id": topic,
        "client.id": f"reader of {topic}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(keys)
    consumer.subscribe([topic])
    assert len(consumer.consume(3, timeout=PATIENCE_S)) == 3
    consumer.commit(offsets=[TopicPartition(topic, 1, 1)], asynchronous=False)
    yield topic
    consumer.close()


OTHER = (
    "/live",
    # `test_client_metrics.py` has a client that reports.
    "/client-metrics/{id}",
    "/faults",
    "/faults/{id}",
    "/clock",
    "/clock/advance",
    "/snapshots",
    "/snapshots/{id}",
    "/forks",
    "/forks/{id}",
    "/explain",
    "/leaders/move",
    "/leaders/shuffle",
    "/coordinators/move",
    "/recordings",
    "/recordings/{id}",
    "/recordings/{id}/stop",
)


READ = [path for path, methods in FILE["paths"].items() if "get" in methods and path not in OTHER]


@pytest.mark.parametrize("path", READ)
def test_every_path_answers_as_the_file_says(path: str, api: Api, group: str) -> None:
    parts = {"name": group, "id": group, "partition": 1}
    parts = {name: part for name, part in parts.items() if f"{{{name}}}" in path}
    more: dict[str, dict[str, Any]] = {
        "/topics/{name}/messages": {"partition": 1},
        "/cluster/partitions": {"state": "moving"},
    }
    assert api.get(path, **parts, **more.get(path, {}))


def events(broker: Process, count: int) -> Iterator[Any]:
    """The first events of a stream, each checked against the file."""
    url = f"{broker.admin}/api/v1/live"
    schema = FILE["paths"]["/live"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        for number in range(count):
            name, identity, data, end = (answer.readline().decode() for _ in range(4))
            assert (name, identity, end) == ("event: live\n", f"id: {number}\n", "\n")
            event = json.loads(data.removeprefix("data: "))
            assert flaws(event, schema["schema"], FILE) == []
            yield event


def test_the_stream_shows_a_request_on_its_way(broker: Process, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.ready, "client.id": f"writer {topic}"})
    seen, appends = [], 0.0
    for event in events(broker, 100):
        producer.produce(topic, b"v")
        assert producer.flush(PATIENCE_S) == 0
        stages = {stage["name"]: stage for stage in event["stages"]}
        appends += stages["commit_log"]["per_second"]
        seen += [row for row in event["requests"] if row["client_id"] == f"writer {topic}"]
        if seen and appends:
            break
    assert appends > 0
    (row, *_) = [row for row in seen if row["api"] == "Produce"] or seen
    parts = ("queue_ms", "handler_ms", "waited_ms", "response_queue_ms", "send_ms")
    assert row["total_ms"] == pytest.approx(sum(row[part] for part in parts), abs=0.001)


def status_of_a_stream(broker: Process) -> int:
    """What a new reader is answered, who goes away at once."""
    try:
        with urllib.request.urlopen(f"{broker.admin}/api/v1/live", timeout=PATIENCE_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_stream_has_a_bounded_number_of_readers(broker: Process) -> None:
    address = urllib.parse.urlsplit(broker.admin)
    with contextlib.ExitStack() as stack:
        for reader in range(9):
            connection = http.client.HTTPConnection(address.netloc, timeout=PATIENCE_S)
            stack.callback(connection.close)
            connection.request("GET", "/api/v1/live")
            answer = connection.getresponse()
            assert answer.status == (200 if reader < 8 else 503)
        check(json.loads(answer.read()), FILE["paths"]["/live"]["get"]["responses"]["default"])
    # A reader that has gone is noticed when its next event cannot be sent.
    deadline = time.monotonic() + PATIENCE_S
    while status_of_a_stream(broker) == 503:
        assert time.monotonic() < deadline


def test_requests_are_shown_with_the_time_of_each_stage(api: Api, group: str) -> None:
    waiting = api.get("/requests", kind="waiting", limit=1_000)["requests"]
    mine = [row for row in waiting if row["client_id"] == f"reader of {group}"]
    assert {row["api"] for row in mine} <= {"Fetch", "JoinGroup", "SyncGroup", "Heartbeat"}
    deadline = time.monotonic() + PATIENCE_S
    while not (recent := api.get("/requests")["requests"]):
        assert time.monotonic() < deadline
    assert all(row["total_ms"] >= row["waited_ms"] for row in recent)
    assert api.get("/requests", kind="slow")["slow_ms"] == 100


def test_the_log_is_shown_line_by_line(api: Api) -> None:
    log = api.get("/log", search="serving")
    assert log["kept"]
    assert log["lines"][0]["level"] == "INFO"
    assert "node_id" in log["lines"][0]["message"]
    assert api.get("/log", search="serving", after=log["next"])["lines"] == []
    assert all(line["level"] == "ERROR" for line in api.get("/log", level="error")["lines"])


@pytest.mark.parametrize("query", [{"kind": "odd"}, {"level": "odd"}])
def test_a_word_that_is_none_of_the_known_is_refused(api: Api, query: dict[str, str]) -> None:
    with pytest.raises(Refused) as refused:
        api.get("/requests" if "kind" in query else "/log", **query)
    assert refused.value.status == 400


def test_the_file_is_served_as_it_is_checked_in(api: Api) -> None:
    assert api.get("/openapi.json") == FILE


def test_the_overview_counts_what_is_there(api: Api, topic: str, group: str) -> None:
    assert topic == group
    overview = api.get("/overview")
    assert overview["alerts"] == []
    assert overview["controller_id"] == overview["broker_id"]
    assert overview["topics"] >= 2
    assert overview["here"]["replicas"] == overview["here"]["leaders"] == overview["partitions"]
    assert overview["here"]["groups"] >= 1
    assert overview["here"]["connections"] >= 1
    assert overview["here"]["records_in"] >= 3


def test_topics_come_in_pages_and_are_searched_for(broker: Process, api: Api, topic: str) -> None:
    for number in range(4):
        name = f"{topic}-more-{number}"
        assert told("topics", "create", name, "-b", broker.ready).returncode == 0
    names, after = [], None
    while True:
        more: dict[str, Any] = {} if after is None else {"after": after}
        page = api.get("/topics", limit=2, search=topic.upper(), **more)
        assert page["matched"] == 5
        assert len(page["topics"]) <= 2
        names += [row["name"] for row in page["topics"]]
        after = page["next"]
        if after is None:
            break
    assert names == [topic, *(f"{topic}-more-{number}" for number in range(4))]
    (row,) = api.get("/topics", limit=1, search=topic)["topics"]
    assert (row["partitions"], row["replication_factor"], row["internal"]) == (2, 1, False)
    assert (row["here"]["replicas"], row["here"]["records_in"]) == (2, 3)
    assert row["here"]["bytes"] == row["here"]["bytes_in"] > 0
    assert api.get("/topics", search="no topic has this")["topics"] == []


def test_a_topic_tells_its_partitions(api: Api, topic: str) -> None:
    described = api.get("/topics/{name}", name=topic)
    first, second = described["partitions"]
    assert (first["here"]["log_end_offset"], second["here"]["log_end_offset"]) == (0, 3)
    assert second["here"]["high_watermark"] == 3
    assert second["leader"] == described["broker_id"]
    assert second["replicas"] == second["isr"] == [described["broker_id"]]
    page = api.get("/topics/{name}", name=topic, limit=1)
    assert [row["partition"] for row in page["partitions"]] == [0]
    assert page["next"] == 0
    page = api.get("/topics/{name}", name=topic, limit=1, after=0)
    assert [row["partition"] for row in page["partitions"]] == [1]
    assert page["next"] is None


def test_a_log_tells_its_segments(broker: Process, api: Api) -> None:
    name = f"api-{uuid.uuid4().hex[:8]}"
    words = ("-b", broker.ready, "--config", "segment.bytes=1048576")
    assert told("topics", "create", name, *words).returncode == 0
    producer = Producer({"bootstrap.servers": broker.ready, "compression.type": "none"})
    for _ in range(30):
        producer.produce(name, b"v" * 100_000, timestamp=5_000)
        assert producer.flush(PATIENCE_S) == 0
    path = "/topics/{name}/partitions/{partition}/segments"
    whole = api.get(path, name=name, partition=0)
    assert whole["total"] == len(whole["segments"]) == 3
    assert [row["active"] for row in whole["segments"]] == [False, False, True]
    assert whole["segments"][-1]["end_offset"] == 30
    assert {row["newest_timestamp_ms"] for row in whole["segments"]} == {5_000}
    assert whole["segments"][0]["offset_index_entries"] > 0
    paged, after = [], None
    for _ in range(3):
        more: dict[str, Any] = {} if after is None else {"after": after}
        page = api.get(path, name=name, partition=0, limit=1, **more)
        paged += page["segments"]
        after = page["next"]
    assert (paged, after) == (whole["segments"], None)


def read(api: Api, topic: str, **asked: Any) -> Any:
    return api.get("/topics/{name}/messages", name=topic, partition=1, **asked)


def test_messages_come_by_offset_by_time_and_from_the_end(api: Api, topic: str) -> None:
    def offsets(**asked: Any) -> list[int]:
        return [message["offset"] for message in read(api, topic, **asked)["messages"]]

    assert offsets() == offsets(offset=0) == offsets(tail=500) == [0, 1, 2]
    assert offsets(offset=1) == offsets(tail=2) == offsets(time=1_001) == [1, 2]
    assert offsets(time=2_000) == offsets(offset=3) == []
    page = read(api, topic, offset=0, limit=2)
    assert len(page["messages"]) == 2
    assert page["next_offset"] == 2
    assert read(api, topic, offset=2, limit=2)["next_offset"] is None
    assert (page["log_start_offset"], page["high_watermark"]) == (0, 3)


def test_a_message_is_shown_with_its_headers(api: Api, topic: str) -> None:
    (message,) = read(api, topic, offset=2)["messages"]
    assert (message["timestamp_ms"], message["timestamp_type"]) == (1_002, "create_time")
    whole = {"truncated": False}
    assert message["key"] == {"bytes": 5, "encoding": "text", "data": "key 2", **whole}
    assert message["value"] == {"bytes": 8, "encoding": "json", "data": '{"n": 2}', **whole}
    trace, none = message["headers"]
    assert trace == {
        "name": "trace",
        "value": {"bytes": 2, "encoding": "hex", "data": "00ff", **whole},
    }
    assert none == {"name": "none", "value": None}
    (message,) = read(api, topic, offset=2, format="hex", key_format="text")["messages"]
    assert (message["key"]["data"], message["value"]["encoding"]) == ("key 2", "hex")
    (message,) = read(api, topic, offset=2, field_bytes=3)["messages"]
    assert message["value"] == {"bytes": 8, "encoding": "text", "data": '{"n', "truncated": True}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_of_every_codec_are_read_from_their_middle(
    broker: Process, api: Api, topic: str, codec: str
) -> None:
    keys = {"bootstrap.servers": broker.ready, "compression.type": codec, "linger.ms": 1_000}
    producer = Producer(keys)
    for number in range(100):
        producer.produce(topic, f"{codec} {number}".encode(), partition=1)
    assert producer.flush(PATIENCE_S) == 0
    page = read(api, topic, offset=53, limit=10)
    values = [message["value"]["data"] for message in page["messages"]]
    assert values == [f"{codec} {number}" for number in range(50, 60)]
    assert page["next_offset"] == 63


def test_hostile_keys_and_values_come_back_as_they_are(
    broker: Process, api: Api, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": broker.ready})
    for text in HOSTILE:
        producer.produce(topic, text.encode(), text.encode(), partition=1, headers={"h": text})
    producer.produce(topic, None, None, partition=1)
    assert producer.flush(PATIENCE_S) == 0
    page = read(api, topic, offset=3, format="text", field_bytes=10_000)
    *hostile, tombstone = page["messages"]
    assert [message["value"]["data"] for message in hostile] == list(HOSTILE)
    assert [message["key"]["data"] for message in hostile] == list(HOSTILE)
    assert (tombstone["key"], tombstone["value"]) == (None, None)


def test_an_answer_ends_before_it_is_too_long(broker: Process, api: Api, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.ready, "compression.type": "zstd"})
    for _ in range(60):
        producer.produce(topic, b"v" * 900_000, partition=1)
    assert producer.flush(PATIENCE_S) == 0
    seen, at = 0, 3
    while at is not None:
        page = read(api, topic, offset=at, limit=500, field_bytes=65_536)
        assert 1 <= len(page["messages"]) < 60
        seen += len(page["messages"])
        at = page["next_offset"]
    assert seen == 60


def test_a_group_tells_its_lag_in_records_and_seconds(api: Api, group: str) -> None:
    (row,) = api.get("/groups", search=group)["groups"]
    assert (row["state"], row["members"], row["lag_records"]) == ("Stable", 1, 2)
    described = api.get("/groups/{id}", id=group)
    (member,) = described["members"]
    assert member["client_id"] == f"reader of {group}"
    assert member["assigned"] == [{"topic": group, "partition": p} for p in (0, 1)]
    (offset,) = described["offsets"]
    assert (offset["partition"], offset["committed_offset"]) == (1, 1)
    assert (offset["high_watermark"], offset["lag_records"]) == (3, 2)
    # The records are of 1970.
    assert offset["lag_seconds"] == pytest.approx(time.time() - 1.001, abs=PATIENCE_S)
    assert described["lag_records"] == 2
    assert described["partitions_elsewhere"] == 0


@pytest.mark.parametrize("name", HOSTILE[:6])
def test_groups_of_any_name_are_found(broker: Process, api: Api, topic: str, name: str) -> None:
    consumer = Consumer({"bootstrap.servers": broker.ready, "group.id": name})
    consumer.commit(offsets=[TopicPartition(topic, 1, 3)], asynchronous=False)
    consumer.close()
    assert [row["id"] for row in api.get("/groups", search=name)["groups"]] == [name]
    described = api.get("/groups/{id}", id=name)
    (offset,) = [row for row in described["offsets"] if row["topic"] == topic]
    assert (offset["lag_records"], offset["lag_seconds"]) == (0, 0)


def test_a_connection_tells_its_client(api: Api, group: str) -> None:
    found = api.get("/clients", search=f"reader of {group}")
    assert found["connections"]
    for connection in found["connections"]:
        assert connection["client_id"] == f"reader of {group}"
        assert connection["software"] == SOFTWARE
        assert connection["requests"] > 0
        assert connection["last_request_ms_ago"] is not None
    page = api.get("/clients", limit=1)
    assert len(page["connections"]) == 1
    assert page["total"] >= len(found["connections"])
    later = api.get("/clients", limit=1, after=page["next"])
    assert later["connections"][0]["id"] > page["connections"][0]["id"]


def test_a_connection_that_closes_is_not_listed(broker: Process, api: Api) -> None:
    name = f"gone-{uuid.uuid4().hex}"
    consumer = Consumer({"bootstrap.servers": broker.ready, "group.id": "x", "client.id": name})
    deadline = time.monotonic() + PATIENCE_S
    # The connection that answered may end, once the client knows the broker's id.
    while True:
        consumer.list_topics(timeout=PATIENCE_S)
        if api.get("/clients", search=name)["connections"]:
            break
        assert time.monotonic() < deadline
    consumer.close()
    while api.get("/clients", search=name)["connections"]:
        assert time.monotonic() < deadline


def test_keys_tell_where_their_values_come_from(api: Api, broker: Process, topic: str) -> None:
    keys = {row["name"]: row for row in api.get("/config")["keys"]}
    assert keys["kafkalite.recent.requests"]["value"] == "256"
    assert keys["kafkalite.recent.requests"]["source"] == "static_broker"
    assert "dev" in keys["kafkalite.recent.requests"]["origin"]
    assert keys["queued.max.requests"]["source"] == "default"
    (found,) = api.get("/config", search="recent.REQ")["keys"]
    assert found == keys["kafkalite.recent.requests"]
    words = ("config", "alter", "--topic", topic, "retention.ms=5000", "-b", broker.ready)
    assert told(*words).returncode == 0
    found = api.get("/topics/{name}/config", name=topic, search="retention.ms")["keys"]
    said = {row["name"]: (row["value"], row["source"]) for row in found}
    assert said["retention.ms"] == ("5000", "dynamic_topic")
    assert said["delete.retention.ms"][1] == "default"


def test_the_cluster_tells_brokers_and_quorum(api: Api, broker: Process) -> None:
    cluster = api.get("/cluster")
    (member,) = cluster["brokers"]
    assert f"{member['host']}:{member['port']}" == broker.ready
    assert member["leaders"] == member["replicas"] == member["in_sync"]
    assert cluster["quorum"]["leader_id"] == cluster["broker_id"] == member["id"]
    assert [voter["broker_id"] for voter in cluster["quorum"]["voters"]] == [member["id"]]


@pytest.mark.parametrize(
    ("path", "asked", "status"),
    [
        ("/topics/{name}", {"name": "no-such-topic"}, 404),
        ("/topics/{name}/config", {"name": "<script>"}, 404),
        ("/topics/{name}/messages", {"name": "T"}, 400),
        ("/topics/{name}/messages", {"name": "T", "partition": 9}, 404),
        ("/topics/{name}/messages", {"name": "T", "partition": -1}, 400),
        ("/topics/{name}/messages", {"name": "T", "partition": 1, "offset": 4}, 416),
        ("/topics/{name}/messages", {"name": "T", "partition": 1, "offset": 1, "tail": 1}, 400),
        ("/topics/{name}/messages", {"name": "T", "partition": 1, "limit": 501}, 400),
        ("/topics/{name}/messages", {"name": "T", "partition": 1, "format": "xml"}, 400),
        (
            "/topics/{name}/partitions/{partition}/segments",
            {"name": "T", "partition": "x"},
            404,
        ),
        ("/topics", {"limit": 0}, 400),
        ("/topics", {"limit": 1_001}, 400),
        ("/topics", {"serach": "x"}, 400),
        ("/overview", {"limit": 1}, 400),
    ],
)
def test_what_cannot_be_answered_says_why(
    api: Api, topic: str, path: str, asked: dict[str, Any], status: int
) -> None:
    named = {name: topic if value == "T" else value for name, value in asked.items()}
    with pytest.raises(Refused) as refused:
        api.get(path, **named)
    assert refused.value.status == status
    assert all(refused.value.body[part] for part in ("what", "why", "hint"))


def test_a_group_that_is_not_there_is_not_found(api: Api, group: str) -> None:
    with pytest.raises(Refused) as refused:
        api.get("/groups/{id}", id=f"not {group}")
    assert refused.value.status == 404
    assert all(refused.value.body[part] for part in ("what", "why", "hint"))


def plain(broker: Process, method: str, path: str, **headers: str) -> tuple[int, dict[str, Any]]:
    """An answer to a request that no client of ours would send."""
    address = urllib.parse.urlsplit(broker.admin).netloc
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
    connection.putrequest(method, path)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    return answer.status, body


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/api/v1/nothing", {}, 404),
        ("GET", "/api/v1/", {}, 404),
        ("GET", "/api/v1/topics/%ff", {}, 400),
        ("GET", "/api/v1/topics?search=%ff", {}, 400),
        ("GET", "/api/v1/topics?limit=1&limit=2", {}, 400),
        ("POST", "/api/v1/overview", {"Content-Length": "0"}, 405),
        ("DELETE", "/api/v1/clients", {}, 405),
        ("GET", "/api/v1/overview", {"Origin": "http://evil.example"}, 403),
        ("GET", "/api/v1/overview", {"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_other_requests_are_refused_in_words(
    broker: Process, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    got, body = plain(broker, method, path, **headers)
    assert got == status
    assert sorted(body) == ["hint", "what", "why"]
    assert all(body.values())


def test_a_token_is_asked_for_and_never_shown(processes: Processes) -> None:
    secret = uuid.uuid4().hex
    broker = processes.serve("--set", f"kafkalite.admin.token={secret}")
    with pytest.raises(Refused) as refused:
        Api(broker.admin).get("/overview")
    assert refused.value.status == 401
    (key,) = Api(broker.admin, secret).get("/config", search="admin.token")["keys"]
    assert (key["value"], key["sensitive"]) == (None, True)
    assert secret not in json.dumps(Api(broker.admin, secret).get("/config"))
