"""Faults that meet on one request, and commands that wait for a fault."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pytest
from confluent_kafka import Consumer, TopicPartition

import kafkalite
from kafkalite.errors import KafkaliteError
from kafkalite.faults import Fault
from tests.harness.patience import eventually
from tests.harness.process import PATIENCE_S
from tests.harness.wire.batches import simple
from tests.harness.wire.connection import Connection

#: What the fault answers with: NOT_LEADER_OR_FOLLOWER.
MOVED = 6
#: How long a request is held, in ms.
HELD_MS = 200


@pytest.fixture(scope="module")
def broker() -> Iterator[kafkalite.Broker]:
    """One broker with a topic of two partitions."""
    with kafkalite.Broker(topics={"t": 2}) as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_faults_stay(broker: kafkalite.Broker) -> Iterator[None]:
    """Faults end with their test."""
    yield
    broker.faults.clear()


@pytest.fixture
def wire(broker: kafkalite.Broker) -> Iterator[Connection]:
    """A connection of the test."""
    with Connection(broker.bootstrap_servers, PATIENCE_S) as connection:
        yield connection


def send(wire: Connection, api: str) -> None:
    """Ask for both partitions of ``t``."""
    if api == "Produce":
        data = [{"Index": index, "Records": simple(b"v")} for index in (0, 1)]
        topics = [{"Name": "t", "PartitionData": data}]
        wire.send("Produce", 9, {"Acks": -1, "TimeoutMs": 5_000, "TopicData": topics})
    elif api == "Fetch":
        parts = [
            {"Partition": index, "FetchOffset": 0, "PartitionMaxBytes": 1_000} for index in (0, 1)
        ]
        topics = [{"Topic": "t", "Partitions": parts}]
        wire.send("Fetch", 11, {"MaxWaitMs": 0, "MinBytes": 0, "Topics": topics})
    else:
        parts = [{"PartitionIndex": index, "Timestamp": -1} for index in (0, 1)]
        topics = [{"Name": "t", "Partitions": parts}]
        wire.send("ListOffsets", 5, {"ReplicaId": -1, "Topics": topics})


def codes(wire: Connection, api: str) -> dict[int, int]:
    """The error of each partition in an answer."""
    if api == "Produce":
        (topic,) = wire.receive("Produce", 9)["Responses"]
        return {one["Index"]: one["ErrorCode"] for one in topic["PartitionResponses"]}
    if api == "Fetch":
        (topic,) = wire.receive("Fetch", 11)["Responses"]
    else:
        (topic,) = wire.receive("ListOffsets", 5)["Topics"]
    return {one["PartitionIndex"]: one["ErrorCode"] for one in topic["Partitions"]}


def ordered(makers: list[Callable[[], Fault]], first: int) -> list[Fault]:
    """Add two faults, the one at ``first`` before the other; they come back as they were given."""
    made = {first: makers[first]()}
    made[1 - first] = makers[1 - first]()
    return [made[0], made[1]]


def test_a_stall_of_the_log_and_of_the_threads_counts_what_it_holds() -> None:
    config = {"num.io.threads": 3, "kafkalite.request.inline": "always"}
    with (
        kafkalite.Broker(topics=["t"], config=config) as broker,
        Connection(broker.bootstrap_servers, PATIENCE_S) as wire,
        broker.faults.stall("io_threads") as threads,
        broker.faults.stall("log", topic="t") as log,
        ThreadPoolExecutor(1) as pool,
    ):
        eventually(lambda: threads.fired == 3)
        assert log.fired == 0
        sent = pool.submit(send, wire, "Produce")
        eventually(lambda: log.fired == 1)
        log.remove()
        sent.result(PATIENCE_S)
        assert codes(wire, "Produce")[0] == 0
        threads.remove()
        assert (threads.fired, log.fired) == (3, 1)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("api", ["Produce", "Fetch", "ListOffsets"])
def test_a_request_that_is_held_keeps_its_errors(
    broker: kafkalite.Broker, wire: Connection, api: str, side: str, first: int
) -> None:
    """A delay that was added behind an error took it away, and the rows of its partitions."""
    when: dict[str, Any] = {"topic": "t", "partition": 0, "times": 1, "side": side}
    faults = ordered(
        [
            lambda: broker.faults.error(api, "NOT_LEADER_OR_FOLLOWER", **when),
            lambda: broker.faults.delay(HELD_MS, side="before", api=api, times=1),
        ],
        first,
    )
    began = time.monotonic()
    send(wire, api)
    assert codes(wire, api) == {0: MOVED, 1: 0}
    assert time.monotonic() - began >= HELD_MS / 1e3 - 0.01
    assert [fault.fired for fault in faults] == [1, 1]


@pytest.mark.parametrize("first", [0, 1])
def test_a_request_of_a_stalled_queue_keeps_its_throttle_time(
    broker: kafkalite.Broker, wire: Connection, first: int
) -> None:
    throttle, stall = ordered(
        [
            lambda: broker.faults.throttle(77, api="ListOffsets", times=1),
            lambda: broker.faults.stall("request_queue", api="ListOffsets", times=1),
        ],
        first,
    )
    send(wire, "ListOffsets")
    deadline = time.monotonic() + PATIENCE_S
    while not stall.fired:
        assert time.monotonic() < deadline
    assert throttle.fired == 0
    stall.remove()
    assert wire.receive("ListOffsets", 5)["ThrottleTimeMs"] == 77
    assert throttle.fired == 1


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("how", ["disconnect", "drop_response", "disconnect after"])
@pytest.mark.parametrize("api", ["Produce", "Fetch", "ListOffsets"])
def test_an_error_and_a_cut_each_have_a_request(
    broker: kafkalite.Broker, api: str, how: str, first: int
) -> None:
    """The error counted as struck, and no client learned of it."""
    kind, _, side = how.partition(" ")
    more = {"side": side} if side else {}
    faults = ordered(
        [
            lambda: broker.faults.error(
                api, "NOT_LEADER_OR_FOLLOWER", topic="t", partition=0, times=1
            ),
            lambda: broker.faults.add(kind, api=api, times=1, **more),
        ],
        first,
    )
    ends: list[Any] = []
    for _ in range(3):
        with Connection(broker.bootstrap_servers, PATIENCE_S) as wire:
            lost = faults[1].fired
            send(wire, api)
            if kind == "drop_response" and not lost:
                # An answer behind it on the connection would wait: only the counts tell.
                deadline = time.monotonic() + PATIENCE_S
                while sum(fault.fired for fault in faults) == len(ends):
                    assert time.monotonic() < deadline
                if faults[1].fired:
                    ends.append("lost")
                    continue
            try:
                ends.append(codes(wire, api)[0])
            except (EOFError, ConnectionError):
                ends.append("lost")
    assert sorted(ends, key=str) == [0, MOVED, "lost"]
    assert [fault.fired for fault in faults] == [1, 1]


@pytest.mark.parametrize("first", [0, 1])
def test_an_error_without_end_leaves_a_request_to_a_cut(
    broker: kafkalite.Broker, wire: Connection, first: int
) -> None:
    _, cut = ordered(
        [
            lambda: broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic="t"),
            lambda: broker.faults.disconnect(api="Produce", times=1),
        ],
        first,
    )
    send(wire, "Produce")
    with pytest.raises((EOFError, ConnectionError)):
        codes(wire, "Produce")
    assert cut.fired == 1


@pytest.mark.parametrize("api", ["Produce", "Fetch", "ListOffsets"])
def test_each_part_has_the_error_that_was_added_first(
    broker: kafkalite.Broker, wire: Connection, api: str
) -> None:
    one = broker.faults.error(api, "NOT_LEADER_OR_FOLLOWER", topic="t", partition=0, times=1)
    all_ = broker.faults.error(api, "KAFKA_STORAGE_ERROR", topic="t", times=1)
    send(wire, api)
    assert codes(wire, api) == {0: MOVED, 1: 56}
    assert (one.fired, all_.fired) == (1, 1)


def test_a_stall_of_io_threads_holds_what_network_threads_would_run(
    broker: kafkalite.Broker, wire: Connection
) -> None:
    """A produce found the queue empty, and a network thread ran it."""
    send(wire, "Produce")
    assert codes(wire, "Produce") == {0: 0, 1: 0}
    stall = broker.faults.stall("io_threads")
    send(wire, "Produce")
    with Connection(broker.bootstrap_servers, HELD_MS / 1e3) as other:
        send(other, "Fetch")
        with pytest.raises(TimeoutError):
            codes(other, "Fetch")
    assert broker.explain().reasons[0].kind == "stalled"
    stall.remove()
    assert codes(wire, "Produce") == {0: 0, 1: 0}


@pytest.mark.parametrize("first", [0, 1])
def test_the_longest_throttle_counts(
    broker: kafkalite.Broker, wire: Connection, first: int
) -> None:
    """The one that was added last did."""
    faults = ordered(
        [
            lambda: broker.faults.throttle(77_000, api="ListOffsets"),
            lambda: broker.faults.throttle(100, api="ListOffsets", times=1),
        ],
        first,
    )
    send(wire, "ListOffsets")
    assert wire.receive("ListOffsets", 5)["ThrottleTimeMs"] == 77_000
    assert [fault.fired for fault in faults] == [1, 0]
    faults[0].remove()
    send(wire, "ListOffsets")
    assert wire.receive("ListOffsets", 5)["ThrottleTimeMs"] == 100


def commit(broker: kafkalite.Broker, group: str) -> None:
    """Commit offset 5 of ``t``-0 for a group."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition("t", 0, 5)], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("struck", ["one", "two"])
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_fault_of_a_group_leaves_the_other_groups_of_a_request(
    broker: kafkalite.Broker, wire: Connection, side: Literal["before", "after"], struck: str
) -> None:
    """It struck all groups if it was for the first one, and never otherwise."""
    groups = ["one", "two", "three"]
    for group in groups:
        commit(broker, group)
    fault = broker.faults.error("OffsetFetch", "NOT_COORDINATOR", group=struck, side=side)
    topics = [{"Name": "t", "PartitionIndexes": [0]}]
    asked = [{"GroupId": group, "Topics": topics} for group in groups]
    answer = wire.call("OffsetFetch", 8, {"Groups": asked})
    told = {one["GroupId"]: one["ErrorCode"] for one in answer["Groups"]}
    assert told == {group: 16 if group == struck else 0 for group in groups}
    assert fault.fired == 1
    fault = broker.faults.error("FindCoordinator", "NOT_COORDINATOR", group=struck, side=side)
    answer = wire.call("FindCoordinator", 4, {"KeyType": 0, "CoordinatorKeys": groups})
    told = {one["Key"]: one["ErrorCode"] for one in answer["Coordinators"]}
    assert told == {group: 16 if group == struck else 0 for group in groups}
    assert fault.fired == 1
    for api, version, asked_in, told_in in [
        ("DescribeGroups", 5, "Groups", "Groups"),
        ("DeleteGroups", 2, "GroupsNames", "Results"),
    ]:
        fault = broker.faults.error(api, "NOT_COORDINATOR", group=struck, side=side)
        answer = wire.call(api, version, {asked_in: groups})
        told = {one["GroupId"]: one["ErrorCode"] for one in answer[told_in]}
        assert told == {group: 16 if group == struck else 0 for group in groups}
        assert fault.fired == 1


WAITING: dict[str, Callable[[kafkalite.Broker], Any]] = {
    "snapshot": lambda broker: broker.snapshot(),
    "clock": lambda broker: broker.clock.advance("8d"),
    "fork": lambda broker: broker.fork().close(),
    "move": lambda broker: broker.faults.move_leader("t", 0),
}


def began(broker: kafkalite.Broker, command: str) -> tuple[threading.Thread, list[Exception]]:
    """A thread with a command that waits for a stalled log, and what it raises."""
    failures: list[Exception] = []

    def run() -> None:
        try:
            WAITING[command](broker)
        except KafkaliteError as failure:
            failures.append(failure)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HELD_MS / 1e3)
    return thread, failures


def stalled(broker: kafkalite.Broker, wire: Connection) -> Fault:
    """A fault that stops the log, with a produce in it."""
    stall = broker.faults.stall("log")
    send(wire, "Produce")
    deadline = time.monotonic() + PATIENCE_S
    while "stalled" not in broker.explain().kinds:
        assert time.monotonic() < deadline, "the produce is in the log"
    return stall


@pytest.mark.parametrize("command", WAITING)
@pytest.mark.parametrize("end", ["remove", "clear", "stop"])
def test_a_command_that_waits_for_a_fault_lets_others_end_it(command: str, end: str) -> None:
    """One lock of the binding was held for as long as a command ran."""
    with (
        kafkalite.Broker(topics={"t": 2}) as broker,
        Connection(broker.bootstrap_servers, PATIENCE_S) as wire,
    ):
        stall = stalled(broker, wire)
        thread, failures = began(broker, command)
        assert thread.is_alive(), "it waits for the log"
        ends = {"remove": stall.remove, "clear": broker.faults.clear, "stop": broker.stop}
        ending = threading.Thread(target=ends[end], daemon=True)
        ending.start()
        ending.join(PATIENCE_S)
        assert not ending.is_alive()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert len(failures) == (1 if end == "stop" else 0)


LOOKS: list[Callable[[kafkalite.Broker], Any]] = [
    lambda broker: broker.explain(),
    lambda broker: broker.clock.now,
    lambda broker: broker.record().stop(),
    lambda broker: broker.faults.delay(1).remove(),
]


def test_commands_that_wait_hold_up_no_look_over_http() -> None:
    """A failed test had no explanation: all commands took turns on one thread."""
    with (
        kafkalite.Broker(topics={"t": 2}, admin_port=0, in_process=False) as broker,
        Connection(broker.bootstrap_servers, PATIENCE_S) as wire,
        ThreadPoolExecutor(len(LOOKS)) as pool,
    ):
        stall = stalled(broker, wire)
        waiting = [began(broker, command)[0] for command in ("snapshot", "clock", "snapshot")]
        try:
            assert all(thread.is_alive() for thread in waiting)
            for answer in [pool.submit(look, broker) for look in LOOKS]:
                answer.result(PATIENCE_S / 2)
        finally:
            stall.remove()
        for thread in waiting:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


@pytest.mark.parametrize("command", WAITING)
def test_ctrl_c_ends_a_command_that_waits(command: str) -> None:
    """The thread of Python waited without a look at signals."""
    program = f"""
        import json, os, signal, threading, time
        import kafkalite
        from tests.harness.wire.connection import Connection
        from tests.unit import test_faults_that_meet as meet

        def listed(broker):
            status, told = broker._control("GET", "/snapshots", b"")
            return json.loads(told)["snapshots"]

        with kafkalite.Broker(topics={{"t": 2}}) as broker:
            with Connection(broker.bootstrap_servers, {PATIENCE_S}) as wire:
                stall = meet.stalled(broker, wire)
                # A call that does not hear it ends with the fault.
                late = threading.Timer({PATIENCE_S}, stall.remove)
                late.start()
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    meet.WAITING[{command!r}](broker)
                except KeyboardInterrupt:
                    print("interrupted" if list(broker.faults) else "late", flush=True)
                late.cancel()
                stall.remove()
                # It is made behind the one whose wait has ended, and that one is taken back.
                with broker.snapshot():
                    deadline = time.monotonic() + {PATIENCE_S}
                    while len(listed(broker)) != 1:
                        assert time.monotonic() < deadline, listed(broker)
                print("ended", flush=True)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
    )
    assert (done.stdout, done.stderr) == ("interrupted\nended\n", "")
