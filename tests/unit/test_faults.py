"""Faults on purpose: real clients meet them, and show their retries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import kafkalite
from kafkalite.errors import IllegalStateError, InvalidArgumentError, KafkaliteError
from kafkalite.faults import Fault
from tests.harness.openapi import asked
from tests.harness.process import PATIENCE_S

#: How long a delayed answer is late: well above what a busy machine takes for an answer.
LATE_MS = 1_500


@pytest.fixture(scope="module")
def broker() -> Iterator[kafkalite.Broker]:
    """One broker for all tests; each has a topic of its own."""
    with kafkalite.Broker(admin_port=0) as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_faults_stay(broker: kafkalite.Broker) -> Iterator[None]:
    """Faults end with their test."""
    yield
    broker.faults.clear()


@pytest.fixture
def topic(broker: kafkalite.Broker, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions."""
    name = str(request.node.name)[:100].replace("[", "-").replace("]", "")
    with kafkalite.AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(name, partitions=2)
    return name


def awaited(what: Callable[[], Any]) -> Any:
    """The first true answer of ``what``; fails after the patience."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return found


def values(broker: kafkalite.Broker, topic: str, partition: int = 0) -> list[bytes | None]:
    """Every value of a partition, as confluent-kafka reads it."""
    keys = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "r"}
    consumer = Consumer({**keys, "enable.auto.commit": False, "enable.partition.eof": False})
    try:
        where = TopicPartition(topic, partition, 0)
        _, end = consumer.get_watermark_offsets(where, timeout=PATIENCE_S)
        consumer.assign([where])
        found: list[bytes | None] = []
        while len(found) < end:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "records are missing"
            if message.error() is None:
                found.append(message.value())
        return found
    finally:
        consumer.close()


class Confluent:
    """A producer of confluent-kafka, idempotent or not."""

    def __init__(self, broker: kafkalite.Broker, **keys: Any) -> None:
        servers = {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0}
        self.producer = Producer(servers | keys)

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        """Send a record, and wait until it is acknowledged."""
        errors: list[object] = []
        self.producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error)
        )
        assert self.producer.flush(PATIENCE_S) == 0
        assert errors == [None]


def test_confluent_kafka_survives_a_leader_that_moved_at_the_third_produce(
    broker: kafkalite.Broker, topic: str
) -> None:
    fault = broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, on_call=3)
    producer = Confluent(broker)
    for value in (b"1", b"2", b"3", b"4"):
        producer.send(topic, value)
    assert fault.fired == 1
    assert fault.seen == 5
    assert values(broker, topic) == [b"1", b"2", b"3", b"4"]


def test_our_producer_survives_a_leader_that_moved(broker: kafkalite.Broker, topic: str) -> None:
    fault = broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, times=2)
    with kafkalite.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, b"x", partition=0).result(timeout=PATIENCE_S)
    assert fault.fired == 2
    assert values(broker, topic) == [b"x"]


def test_aiokafka_survives_a_leader_that_moved(broker: kafkalite.Broker, topic: str) -> None:
    fault = broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, times=1)

    async def send() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        await producer.start()
        try:
            await producer.send_and_wait(topic, b"x", partition=0)
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(send(), PATIENCE_S))
    assert fault.fired == 1
    assert values(broker, topic) == [b"x"]


def test_only_the_partition_of_a_fault_is_refused(broker: kafkalite.Broker, topic: str) -> None:
    fault = broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, partition=1)
    producer = Confluent(broker, **{"message.timeout.ms": 1_000})
    producer.send(topic, b"sound", partition=0)
    errors: list[Any] = []
    producer.producer.produce(
        topic, b"never", partition=1, on_delivery=lambda error, _: errors.append(error)
    )
    assert producer.producer.flush(PATIENCE_S) == 0
    assert errors[0] is not None
    assert fault.fired >= 1
    fault.remove()
    assert values(broker, topic, 1) == []


def test_an_error_that_stays_reaches_the_program(broker: kafkalite.Broker, topic: str) -> None:
    with (
        broker.faults.error("Produce", "TOPIC_AUTHORIZATION_FAILED", topic=topic),
        kafkalite.Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        pytest.raises(KafkaliteError, match="TOPIC_AUTHORIZATION_FAILED"),
    ):
        producer.send(topic, b"x", partition=0).result(timeout=PATIENCE_S)


def test_a_cut_after_the_append_leaves_one_record_of_an_idempotent_producer(
    broker: kafkalite.Broker, topic: str
) -> None:
    fault = broker.faults.disconnect(api="Produce", side="after", topic=topic, times=1)
    Confluent(broker, **{"enable.idempotence": True}).send(topic, b"once")
    assert fault.fired == 1
    assert values(broker, topic) == [b"once"]


def test_a_cut_after_the_append_leaves_two_records_without_idempotence(
    broker: kafkalite.Broker, topic: str
) -> None:
    fault = broker.faults.disconnect(api="Produce", side="after", topic=topic, times=1)
    Confluent(broker, **{"enable.idempotence": False}).send(topic, b"twice")
    assert fault.fired == 1
    assert values(broker, topic) == [b"twice", b"twice"]


def test_a_cut_before_the_append_leaves_one_record(broker: kafkalite.Broker, topic: str) -> None:
    fault = broker.faults.disconnect(api="Produce", topic=topic, times=1)
    Confluent(broker, **{"enable.idempotence": False}).send(topic, b"once")
    assert fault.fired == 1
    assert values(broker, topic) == [b"once"]


def test_an_answer_that_is_dropped_makes_the_client_ask_again(
    broker: kafkalite.Broker, topic: str
) -> None:
    fault = broker.faults.drop_response(api="Produce", topic=topic, times=1)
    keys = {"enable.idempotence": True, "request.timeout.ms": 1_000, "socket.timeout.ms": 1_500}
    Confluent(broker, **keys).send(topic, b"once")
    assert fault.fired == 1
    assert values(broker, topic) == [b"once"]


def test_a_delayed_answer_comes_late(broker: kafkalite.Broker, topic: str) -> None:
    producer = Confluent(broker)
    producer.send(topic, b"1")
    fault = broker.faults.delay(LATE_MS, api="Produce", topic=topic, times=1)
    began = time.monotonic()
    producer.send(topic, b"2")
    assert time.monotonic() - began >= LATE_MS / 1e3 - 0.01
    assert fault.fired == 1
    assert values(broker, topic) == [b"1", b"2"]


@pytest.mark.parametrize("order", [("error", "delay"), ("delay", "error")])
def test_an_error_comes_late(broker: kafkalite.Broker, topic: str, order: tuple[str, str]) -> None:
    """The error was answered at once, whichever of the two was added first."""
    producer = Confluent(broker)
    producer.send(topic, b"1")
    members: dict[str, dict[str, Any]] = {
        "error": {"error": "NOT_LEADER_OR_FOLLOWER"},
        "delay": {"ms": LATE_MS},
    }
    when: dict[str, Any] = {"api": "Produce", "topic": topic, "times": 1}
    faults = [broker.faults.add(kind, **(when | members[kind])) for kind in order]
    with broker.record(api="Produce") as recording:
        producer.send(topic, b"2")
    late, again = recording.requests
    assert [error.error for error in late.errors] == ["NOT_LEADER_OR_FOLLOWER"]
    assert late.total_ms is not None
    assert late.total_ms >= LATE_MS - 10
    assert again.errors == []
    assert [fault.fired for fault in faults] == [1, 1]


def test_faults_that_each_end_a_request_take_turns(broker: kafkalite.Broker, topic: str) -> None:
    broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, times=1)
    broker.faults.disconnect(api="Produce", topic=topic, times=1)
    with broker.record(api="Produce") as recording:
        Confluent(broker).send(topic, b"1")
    ends = [(one.outcome, len(one.errors)) for one in recording.requests]
    assert ends == [("answered", 1), ("closed", 0), ("answered", 0)]


def test_requests_behind_a_delayed_one_keep_their_order(
    broker: kafkalite.Broker, topic: str
) -> None:
    fault = broker.faults.delay(300, side="before", api="Produce", topic=topic, on_call=2)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "max.in.flight.requests.per.connection": 5,
        }
    )
    sent = [str(number).encode() for number in range(20)]
    for value in sent:
        producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    assert fault.fired == 1
    assert values(broker, topic) == sent


def test_a_client_in_a_black_hole_gets_no_answer_until_the_fault_is_removed(
    broker: kafkalite.Broker, topic: str
) -> None:
    fault = broker.faults.blackhole("lost")
    lost = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "lost"})
    found = Confluent(broker)
    found.send(topic, b"found")
    delivered: list[Any] = []
    lost.produce(topic, b"lost", partition=0, on_delivery=lambda error, _: delivered.append(error))
    awaited(lambda: lost.poll(0.01) is not None and fault.fired)
    assert delivered == []
    fault.remove()
    assert lost.flush(PATIENCE_S) == 0
    assert delivered == [None]
    assert sorted(value or b"" for value in values(broker, topic)) == [b"found", b"lost"]


def test_a_client_learns_its_throttle_time(broker: kafkalite.Broker, topic: str) -> None:
    told: list[int] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "linger.ms": 0,
            "throttle_cb": lambda event: told.append(round(event.throttle_time * 1e3)),
        }
    )
    fault = broker.faults.throttle(250, api="Produce", topic=topic, times=1)
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    awaited(lambda: producer.poll(0.01) is not None and 250 in told)
    assert fault.fired == 1


def test_a_corrupt_batch_is_found_and_fetched_again(broker: kafkalite.Broker, topic: str) -> None:
    Confluent(broker).send(topic, b"x")
    fault = broker.faults.corrupt(topic, times=1)
    keys = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "c", "check.crcs": True}
    consumer = Consumer({**keys, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []

    def seen() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append(message.value())
        return bool(found)

    awaited(seen)
    consumer.close()
    assert fault.fired == 1
    assert found == [b"x"]


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
        ("Fetch", "FETCH_SESSION_ID_NOT_FOUND"),
        ("Metadata", "LEADER_NOT_AVAILABLE"),
        ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("OffsetCommit", "NOT_COORDINATOR"),
    ],
)
@pytest.mark.parametrize("library", ["confluent", "ours"])
def test_a_consumer_survives_an_error(
    broker: kafkalite.Broker, topic: str, api: str, error: str, library: str
) -> None:
    Confluent(broker).send(topic, b"x")
    fault = broker.faults.error(api, error, times=1)
    servers, group = broker.bootstrap_servers, f"{library}-{api}-{error}"
    if library == "confluent":
        keys = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
        consumer = Consumer(keys)
        consumer.subscribe([topic])
        message: list[Any] = []

        def polled() -> bool:
            one = consumer.poll(0.1)
            if one is not None and one.error() is None:
                message.append(one)
            return bool(message)

        awaited(polled)
        awaited(lambda: committed(lambda: consumer.commit(message=message[0], asynchronous=False)))
        awaited(lambda: consumer.poll(0.01) is not None or fault.fired or api != "Fetch")
        consumer.close()
        assert message[0].value() == b"x"
    else:
        with kafkalite.Consumer(
            topic, group_id=group, bootstrap_servers=servers, auto_offset_reset="earliest"
        ) as ours:
            record = awaited(lambda: ours.poll(timeout=1))
            awaited(lambda: committed(ours.commit))
        assert record.value == b"x"
    if (api, error, library) != ("Fetch", "FETCH_SESSION_ID_NOT_FOUND", "confluent"):
        assert fault.fired == 1


def committed(commit: Callable[[], object]) -> bool:
    """Whether a commit succeeds; one that may be tried again does not fail the test."""
    try:
        commit()
    except (KafkaException, KafkaliteError):
        return False
    return True


def test_an_idempotent_producer_survives_a_coordinator_that_loads(
    broker: kafkalite.Broker, topic: str
) -> None:
    fault = broker.faults.error("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS", times=1)
    Confluent(broker, **{"enable.idempotence": True}).send(topic, b"x")
    assert fault.fired == 1


def test_a_refused_topic_is_not_created(broker: kafkalite.Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    fault = broker.faults.error("CreateTopics", "POLICY_VIOLATION", topic="refused")
    made = admin.create_topics([NewTopic("refused", 1), NewTopic("taken", 1)])
    made["taken"].result(PATIENCE_S)
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
        made["refused"].result(PATIENCE_S)
    assert fault.fired == 1
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    assert "taken" in topics
    assert "refused" not in topics


@pytest.mark.parametrize("stage", ["request_queue", "io_threads", "log", "response_queue"])
def test_a_stage_stands_still_until_the_fault_is_removed(
    broker: kafkalite.Broker, topic: str, stage: str
) -> None:
    producer = Confluent(broker)
    producer.send(topic, b"1")
    members = {} if stage == "io_threads" else {"topic": topic}
    fault = broker.faults.stall(stage, **members)
    delivered: list[Any] = []
    # Above what runs on a network thread: it takes the request queue.
    producer.producer.produce(
        topic, b"2" * 200_000, partition=0, on_delivery=lambda error, _: delivered.append(error)
    )
    producer.producer.poll(0.3)
    assert delivered == []
    fault.remove()
    assert producer.producer.flush(PATIENCE_S) == 0
    assert delivered == [None]


@pytest.mark.parametrize("disk", ["full", "error"])
def test_a_disk_that_fails_refuses_records_until_the_fault_is_removed(disk: str) -> None:
    with kafkalite.Broker(topics=["t"]) as broker:
        fault = broker.faults.disk(disk, topic="t", operation="write")
        keys = {"enable.idempotence": True, "message.timeout.ms": int(PATIENCE_S * 1_000)}
        producer = Confluent(broker, **keys)
        delivered: list[Any] = []
        producer.producer.produce(
            "t", b"x", partition=0, on_delivery=lambda error, _: delivered.append(error)
        )
        awaited(lambda: producer.producer.poll(0.01) is not None and fault.fired)
        assert delivered == []
        fault.remove()
        if disk == "error":
            # A log that failed is offline for a while, or until the broker starts again.
            broker.restart()
        assert producer.producer.flush(PATIENCE_S) == 0
        assert delivered == [None]
        assert values(broker, "t") == [b"x"]


def test_a_slow_disk_makes_appends_late(broker: kafkalite.Broker, topic: str) -> None:
    producer = Confluent(broker)
    producer.send(topic, b"1")
    fault = broker.faults.disk("slow", ms=LATE_MS, topic=topic, operation="write", times=1)
    began = time.monotonic()
    producer.send(topic, b"2")
    assert time.monotonic() - began >= LATE_MS / 1e3 - 0.01
    assert fault.fired == 1


def test_a_fault_is_for_one_client(broker: kafkalite.Broker, topic: str) -> None:
    fault = broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", client_id="one", times=1)
    Confluent(broker, **{"client.id": "other"}).send(topic, b"x")
    assert (fault.seen, fault.fired) == (0, 0)
    Confluent(broker, **{"client.id": "one"}).send(topic, b"y")
    assert fault.fired == 1


def test_the_same_seed_strikes_the_same_calls(broker: kafkalite.Broker, topic: str) -> None:
    def struck() -> int:
        with broker.faults.delay(1, api="Produce", topic=topic, probability=0.5, seed=11) as fault:
            producer = Confluent(broker)
            for _ in range(20):
                producer.send(topic, b"x")
            return fault.fired

    first = struck()
    assert struck() == first
    assert 0 < first < 20


def test_handles_list_and_remove_faults(broker: kafkalite.Broker) -> None:
    one = broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER")
    two = broker.faults.blackhole("c")
    assert [fault.id for fault in broker.faults] == [one.id, two.id]
    assert "NOT_LEADER_OR_FOLLOWER" in repr(one)
    one.remove()
    one.remove()
    assert len(broker.faults) == 1
    assert broker.faults.clear() == 1
    assert list(broker.faults) == []


def test_what_cannot_be_is_refused_with_a_suggestion(broker: kafkalite.Broker) -> None:
    with pytest.raises(InvalidArgumentError, match="there is no API") as refused:
        broker.faults.error("Prodcue", "NOT_LEADER_OR_FOLLOWER")
    assert refused.value.hint == "did you mean Produce?"
    with pytest.raises(InvalidArgumentError, match="name no topic"):
        broker.faults.error("Heartbeat", "NOT_COORDINATOR", topic="t")


def test_a_stopped_broker_has_no_faults_when_it_starts_again() -> None:
    with kafkalite.Broker() as broker:
        broker.faults.blackhole()
        broker.restart()
        assert list(broker.faults) == []
        broker.wait_ready(PATIENCE_S)


def test_a_broker_that_is_not_under_test_refuses_faults() -> None:
    with kafkalite.Broker(config={"kafkalite.test.control": False}) as broker:
        with pytest.raises(IllegalStateError, match="test control is off") as refused:
            broker.faults.blackhole()
        assert "--test-control" in (refused.value.hint or "")


def test_a_child_process_is_controlled_over_http() -> None:
    with kafkalite.Broker(in_process=False, admin_port=0, topics=["t"]) as broker:
        fault: Fault = broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", times=1)
        Confluent(broker).send("t", b"x")
        assert fault.fired == 1


def test_a_child_process_without_an_admin_port_says_what_to_do() -> None:
    with (
        kafkalite.Broker(in_process=False) as broker,
        pytest.raises(IllegalStateError) as refused,
    ):
        broker.faults.clear()
    assert refused.value.hint == "give it a port: Broker(admin_port=0)."


def http(broker: kafkalite.Broker, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Ask the admin API, as any language can; what it says is what our OpenAPI file says."""
    return asked(broker.admin_url or "", method, path, body)


def test_every_language_adds_and_removes_faults_over_http(broker: kafkalite.Broker) -> None:
    fault = {"kind": "error", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 1}
    status, added = http(broker, "POST", "/faults", fault)
    assert status == 201
    names = {"id": added["id"], "life": added["life"]}
    assert added == fault | names | {"seen": 0, "fired": 0, "spent": False}
    assert http(broker, "GET", "/faults") == (200, {"faults": [added]})
    assert http(broker, "GET", f"/faults/{added['id']}") == (200, added)
    assert http(broker, "DELETE", f"/faults/{added['id']}") == (200, added)
    status, refused = http(broker, "DELETE", f"/faults/{added['id']}")
    assert (status, refused["what"]) == (404, f"there is no fault {added['id']}")
    status, refused = http(broker, "POST", "/faults", {"kind": "error", "apo": 1})
    assert status == 400
    assert "apo" in refused["why"]
    assert http(broker, "DELETE", "/faults") == (200, {"removed": 0})


def test_over_http_a_broker_that_is_not_under_test_refuses() -> None:
    config = {"kafkalite.test.control": False}
    with kafkalite.Broker(admin_port=0, config=config) as broker:
        for method, path in (("GET", "/faults"), ("POST", "/faults"), ("DELETE", "/faults/1")):
            status, refused = http(broker, method, path, {} if method == "POST" else None)
            assert (status, refused["why"]) == (403, "test control is off")


@pytest.mark.parametrize(
    ("members", "why", "hint"),
    [
        ({"count": 3}, "a fault has no member 'count'", "it is times."),
        ({"topics": "t"}, "a fault has no member 'topics'", "it is topic."),
        ({"colour": "red"}, "a fault has no member 'colour'", "there are api, broker, "),
        ({"error": 6}, "error must be a name, not int", "NOT_LEADER_OR_FOLLOWER"),
        ({"topic": b"t"}, "topic must be a name, not bytes", ""),
        ({"ms": "200ms"}, "ms must be a whole number, not str", ""),
        ({"ms": 0.5}, "ms must be a whole number, not float", ""),
    ],
)
def test_a_member_that_no_fault_has_is_refused(
    broker: kafkalite.Broker, members: dict[str, Any], why: str, hint: str
) -> None:
    with pytest.raises(TypeError, match=why) as raised:
        broker.faults.add("delay", **members)
    assert hint in "".join(getattr(raised.value, "__notes__", []))
    assert len(broker.faults) == 0
