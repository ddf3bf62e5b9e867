"""What other tools inject, injected here: clients of three kinds meet each row of the guide."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

import kafkalite
from kafkalite.recording import RecordedRequest
from tests.conformance.driven import (
    KINDS,
    PATIENCE_S,
    Clients,
    Driver,
    broker_of,
    clients_of,
    cluster_of,
    driver_on,
)
from tests.harness import places
from tests.harness.patience import eventually

GUIDE = places.CHECKOUT / "docs" / "guides" / "test-control.md"
NOT_LEADER = "NOT_LEADER_OR_FOLLOWER"

#: Rows that a test of this file is about, by their first cells.
MET: set[str] = set()

Check = Callable[..., None]


def meets(*rows: str) -> Callable[[Check], Check]:
    """Note which rows a test is about."""
    MET.update(rows)
    return lambda check: check


@pytest.fixture(scope="module")
def ours(broker_kind: str) -> Iterator[kafkalite.Broker]:
    """One broker for all tests."""
    with broker_of(broker_kind) as broker:
        yield broker


@pytest.fixture(scope="module")
def three(broker_kind: str) -> Iterator[kafkalite.Cluster]:
    """Three brokers, each in a rack of its own."""
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    config = {"group.initial.rebalance.delay.ms": 0, "replica.selector.class": selector}
    with cluster_of(broker_kind, config=config, racks=["a", "b", "c"]) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=list(KINDS))
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    """Clients of each kind in turn."""
    with clients_of(request.param) as clients:
        yield clients


@pytest.fixture
def driver(
    ours: kafkalite.Broker, clients: Clients, unique: Callable[[str], str]
) -> Iterator[Driver]:
    """Clients with a topic of two partitions."""
    with driver_on(ours, clients, unique("row"), 2) as driver:
        yield driver


@pytest.fixture
def spread(
    three: kafkalite.Cluster, clients: Clients, unique: Callable[[str], str]
) -> Iterator[Driver]:
    """Clients with a topic of three partitions, each on all three brokers."""
    with driver_on(three, clients, unique("spread"), 3) as driver:
        yield driver


def errors_of(requests: list[RecordedRequest], api: str = "Produce") -> list[list[str]]:
    """The errors of each request of an API, in the order of the requests."""
    return [[error.error for error in one.errors] for one in requests if one.api == api]


# One broker


@meets(
    "`ControlKey` with an answer of its own: an error",
    "`push_request_errors`, `clear_request_errors`",
    "`start_request_tracking`, `get_requests`, `stop_request_tracking`",
)
def test_errors_come_in_the_order_in_which_they_were_pushed(
    ours: kafkalite.Broker, driver: Driver
) -> None:
    for error in (NOT_LEADER, "LEADER_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS"):
        ours.faults.error("Produce", error, topic=driver.topic, times=1)
    with ours.record(driver.id("writer")) as recording:
        assert driver.produce("1") == 0
    pushed = [[NOT_LEADER], ["LEADER_NOT_AVAILABLE"], ["NOT_ENOUGH_REPLICAS"], []]
    assert errors_of(recording.requests) == pushed
    ours.faults.error("Produce", "INVALID_REQUEST", topic=driver.topic)
    assert ours.faults.clear() == 4
    assert driver.produce("2") == 1


@meets("`DropControl`, `KeepControl`", "`once`, `onCall`, `times`, `everyTime`, `withProbability`")
def test_a_fault_strikes_the_calls_that_its_trigger_names(
    ours: kafkalite.Broker, driver: Driver
) -> None:
    place = {"topic": driver.topic, "partition": 0}
    third = ours.faults.error("Produce", NOT_LEADER, on_call=3, **place)
    for number in range(4):
        assert driver.produce(str(number)) == number
    assert (third.seen, third.fired) == (5, 1)
    chance = ours.faults.error("Produce", NOT_LEADER, probability=0.5, seed=5, **place)
    for number in range(4, 14):
        assert driver.produce(str(number)) == number
    assert 0 < chance.fired < chance.seen
    assert chance.seen - chance.fired == 10, "each record was taken once"
    chance.remove()
    twice = ours.faults.error("Produce", NOT_LEADER, times=2, **place)
    assert driver.produce("14") == 14
    assert twice.fired == 2
    assert driver.read(15) == [str(number) for number in range(15)]


@meets("`FaultHandle.Fired`, `Remove`")
def test_a_fault_that_stays_is_over_when_it_is_removed(
    ours: kafkalite.Broker, driver: Driver
) -> None:
    fault = ours.faults.error("Produce", NOT_LEADER, topic=driver.topic)
    sent = driver.start("produce", "writer", partition=0, value="v")
    eventually(lambda: fault.fired >= 2)
    assert not sent.done()
    fault.remove()
    assert sent.result(PATIENCE_S)["offset"] == 0


@meets(
    "`ControlKey` with an error of its own: the connection closes",
    "`push_request_errors` with `ERR__TRANSPORT`",
)
def test_a_connection_closes_before_the_append(ours: kafkalite.Broker, driver: Driver) -> None:
    fault = ours.faults.disconnect(api="Produce", topic=driver.topic, times=2)
    assert driver.produce("1") == 0
    assert fault.fired == 2
    assert driver.read(1) == ["1"]


@meets("`disconnectOn(api)`", "`injectError(api, error)`")
@pytest.mark.parametrize("how", ["disconnect", "error"])
def test_a_record_whose_answer_is_lost_is_there_once(
    ours: kafkalite.Broker, driver: Driver, how: str
) -> None:
    when = {"api": "Produce", "side": "after", "topic": driver.topic, "times": 1}
    if how == "error":
        when["error"] = NOT_LEADER
    fault = ours.faults.add(how, **when)
    assert driver.produce("1") == 0
    assert fault.fired == 1
    assert driver.produce("2") == 1, "the first record was appended once"
    assert driver.read(2) == ["1", "2"]


@meets(
    "`ControlKey` that returns nothing after a sleep",
    "`broker_push_request_error_rtts`, `broker_set_rtt`",
    "`delayOn(api, duration)`",
)
@pytest.mark.parametrize("side", ["before", "after"])
def test_an_answer_and_an_error_come_late(
    ours: kafkalite.Broker, driver: Driver, side: str
) -> None:
    assert driver.produce("0") == 0
    late = ours.faults.add("delay", api="Produce", ms=300, side=side, topic=driver.topic, times=2)
    fault = ours.faults.error("Produce", NOT_LEADER, topic=driver.topic, times=1)
    before = time.monotonic()
    assert driver.produce("1") == 1
    assert time.monotonic() - before >= 0.6
    assert (late.fired, fault.fired) == (2, 1)


@meets("`topic_set_error`")
def test_metadata_of_a_topic_is_refused(ours: kafkalite.Broker, driver: Driver) -> None:
    refused = "UNKNOWN_TOPIC_OR_PARTITION"
    fault = ours.faults.error("Metadata", refused, topic=driver.topic, times=2)
    assert driver.produce("1") == 0
    assert fault.fired == 2


@meets("`partition_set_leader`")
def test_metadata_has_no_leader_for_a_while(ours: kafkalite.Broker, driver: Driver) -> None:
    fault = ours.faults.error(
        "Metadata", "LEADER_NOT_AVAILABLE", topic=driver.topic, partition=1, times=2
    )
    assert driver.produce("1", partition=1) == 0
    assert fault.fired >= 1


@meets("`blackholeClient(part of a client id)`")
@pytest.mark.parametrize("how", ["whole", "part"])
def test_a_client_in_a_black_hole_is_revived(
    ours: kafkalite.Broker, driver: Driver, how: str
) -> None:
    assert driver.produce("1") == 0
    client_id = driver.id("writer")
    fault = ours.faults.blackhole(client_id if how == "whole" else f"*{client_id[1:-1]}*")
    sent = driver.start("produce", "writer", partition=0, value="2")
    eventually(lambda: fault.fired >= 1)
    assert driver.produce("3", role="another") == 1, "only the one client is struck"
    assert not sent.done()
    fault.remove()
    assert sent.result(PATIENCE_S)["offset"] == 2


@meets("`ControlKey` with neither an answer nor an error")
def test_an_answer_never_comes_on_a_connection_that_stays(
    ours: kafkalite.Broker, driver: Driver
) -> None:
    fault = ours.faults.drop_response(api="Produce", topic=driver.topic, times=1)
    sent = driver.start("produce", "writer", partition=0, value="1")
    eventually(lambda: fault.fired == 1)
    assert not sent.done()
    # The connection closes: there would be no answer any longer.
    fault.remove()
    assert sent.result(PATIENCE_S)["offset"] == 0
    assert driver.produce("2") == 1, "the first record was appended once"


@meets("`SleepControl`, `SleepOutOfOrder`")
def test_a_request_sleeps_until_the_fault_is_removed(
    ours: kafkalite.Broker, driver: Driver
) -> None:
    fault = ours.faults.stall("request_queue", api="Produce", topic=driver.topic, partition=0)
    asleep = driver.start("produce", "writer", partition=0, value="1")
    eventually(lambda: fault.fired == 1)
    assert driver.produce("other", partition=1, role="another") == 0
    assert not asleep.done()
    fault.remove()
    assert asleep.result(PATIENCE_S)["offset"] == 0


@meets("`set_apiversion`", "`MaxVersions`")
def test_clients_keep_to_the_versions_that_are_left(ours: kafkalite.Broker, driver: Driver) -> None:
    fault = ours.faults.versions("Produce", max_version=7, client_id=driver.id("writer"))
    with ours.record(api="Produce") as recording:
        assert driver.produce("1") == 0
        assert driver.produce("2", role="another") == 1
    versions = {(one.client_id, one.version == 7) for one in recording.requests}
    assert versions == {(driver.id("writer"), True), (driver.id("another"), False)}
    assert fault.fired >= 1


@meets(
    "`telemetry_set_requested_metrics`, `telemetry_set_push_interval`",
    "`telemetry_set_push_error_code`, `telemetry_unset_push_error_code`",
)
def test_a_client_pushes_its_metrics_again_after_an_error(
    ours: kafkalite.Broker, driver: Driver
) -> None:
    name, refused = driver.id("writer"), "UNKNOWN_SUBSCRIPTION_ID"
    keys = {"metrics": "*", "interval.ms": "200", "match": f"client_id={name}"}
    subscription = kafkalite.ConfigResource("client_metrics", name)
    with kafkalite.AdminClient(bootstrap_servers=ours.bootstrap_servers) as admin:
        admin.alter_configs({subscription: keys})
        fault = ours.faults.error("PushTelemetry", refused, client_id=name, times=1)
        with ours.record(name, api="PushTelemetry") as recording:
            assert driver.produce("1") == 0
            eventually(lambda: [] in errors_of(recording.requests, "PushTelemetry"))
        assert fault.fired == 1
        assert errors_of(recording.requests, "PushTelemetry")[0] == [refused]
        admin.alter_configs({subscription: dict.fromkeys(keys)})


# Moves of one broker's leaders: they look as if they had moved away and back


def test_a_writer_and_a_reader_find_the_leader_again(
    ours: kafkalite.Broker, driver: Driver
) -> None:
    assert driver.produce("1") == 0
    assert driver.read(1) == ["1"]
    with (
        ours.record(driver.id("writer")) as written,
        ours.record(driver.id("reader")) as read,
        ours.faults.move_leader(driver.topic, 0, times=2) as moves,
    ):
        (moved,) = moves.moved
        assert (moved.topic, moved.partition, moved.before) == (driver.topic, 0, moved.leader)
        assert driver.produce("2") == 1
        assert driver.read(1) == ["2"]
        eventually(lambda: "Metadata" in {one.api for one in written.requests})
    assert {NOT_LEADER} in [set(errors) for errors in errors_of(written.requests)]
    assert [NOT_LEADER] in errors_of(read.requests, "Fetch")


def test_writers_find_all_leaders_of_a_topic_again(ours: kafkalite.Broker, driver: Driver) -> None:
    assert [driver.produce("1", partition) for partition in (0, 1)] == [0, 0]
    moves = ours.faults.shuffle_leaders(driver.topic, times=2)
    assert [one.partition for one in moves.moved] == [0, 1]
    assert [driver.produce("2", partition) for partition in (0, 1)] == [1, 1]
    assert max(fault.fired for fault in moves.faults) == 2


def test_a_member_finds_its_coordinator_again(ours: kafkalite.Broker, driver: Driver) -> None:
    assert driver.produce("1") == 0
    assert driver.join(1) == ["1"]
    with (
        ours.record(driver.id("member")) as recording,
        ours.faults.move_coordinator(driver.topic) as moves,
    ):
        assert [one.topic for one in moves.moved] == ["__consumer_offsets"]
        driver.commit(1)
        eventually(lambda: "FindCoordinator" in {one.api for one in recording.requests})
    assert ["NOT_COORDINATOR"] in errors_of(recording.requests, "OffsetCommit")
    assert committed(ours.bootstrap_servers, driver.topic) == 1


def committed(servers: str, name: str) -> int:
    """The offset that the group of this name has committed in partition 0 of its topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": name})
    try:
        (found,) = consumer.committed([TopicPartition(name, 0)], timeout=PATIENCE_S)
        return int(found.offset)
    finally:
        consumer.close()


# Three brokers


@meets("`AddFault` by key, node, topic, partition, count")
def test_a_fault_is_of_one_broker(three: kafkalite.Cluster, spread: Driver) -> None:
    leader = three.leader_of(spread.topic, 1)
    when = {"topic": spread.topic, "partition": 1, "times": 2}
    faults = [one.faults.error("Produce", NOT_LEADER, **when) for one in three.brokers]
    assert spread.produce("1", partition=1) == 0
    assert [fault.fired for fault in faults] == [
        2 if broker is leader else 0 for broker in three.brokers
    ]


@meets("`MoveTopicPartition`", "`partition_set_leader`")
def test_a_writer_and_a_reader_follow_a_leader_to_each_broker(
    three: kafkalite.Cluster, spread: Driver
) -> None:
    first = three.brokers.index(three.leader_of(spread.topic, 0))
    assert spread.produce("0") == 0
    assert spread.read(1) == ["0"]
    for number, step in enumerate((1, 2, 0, 2), 1):
        to = (first + step) % 3
        moved = three.faults.move_leader(spread.topic, 0, to)
        assert moved.leader == to != moved.before
        assert spread.produce(str(number)) == number
        assert spread.read(1) == [str(number)]


@meets("`ShufflePartitionLeaders`")
def test_writers_follow_leaders_that_are_shuffled(three: kafkalite.Cluster, spread: Driver) -> None:
    for number in range(3):
        for partition in range(3):
            assert spread.produce(str(number), partition) == number
        moved = three.faults.shuffle_leaders(spread.topic, seed=number)
        assert [one.partition for one in moved] == [0, 1, 2]
        assert all(one.leader != one.before for one in moved)
    for partition in range(3):
        assert spread.produce("last", partition) == 3
    assert spread.read(4) == ["0", "1", "2", "last"]


@meets("`RehashCoordinators`", "`coordinator_set`")
def test_a_member_follows_its_coordinator(three: kafkalite.Cluster, spread: Driver) -> None:
    assert spread.produce("0") == 0
    assert spread.join(1) == ["0"]
    first = three.faults.move_coordinator(spread.topic)
    for offset, to in enumerate((first.before, 3 - first.before - first.leader), 1):
        spread.commit(offset)
        moved = three.faults.move_coordinator(spread.topic, to)
        assert moved.leader == to != moved.before
        assert spread.produce(str(offset)) == offset
        assert spread.join(1) == [str(offset)]
    spread.commit(3)
    assert committed(three.bootstrap_servers, spread.topic) == 3


@meets("`AddNode`, `RemoveNode`", "`broker_set_down`, `broker_set_up`")
def test_a_writer_and_a_reader_outlive_a_broker(three: kafkalite.Cluster, spread: Driver) -> None:
    assert spread.produce("0") == 0
    assert spread.read(1) == ["0"]
    leader = three.leader_of(spread.topic, 0)
    leader.stop()
    try:
        assert spread.produce("1") == 1
        assert spread.read(1) == ["1"]
    finally:
        leader.start()
        three.wait_ready()
    eventually(lambda: is_in_sync(three, spread.topic))
    three.faults.move_leader(spread.topic, 0, three.brokers.index(leader))
    assert spread.produce("2") == 2
    assert spread.read(1) == ["2"]


def is_in_sync(three: kafkalite.Cluster, topic: str) -> bool:
    """Whether all replicas of partition 0 are."""
    with kafkalite.AdminClient(bootstrap_servers=three.bootstrap_servers) as admin:
        return len(admin.describe_topic(topic).partitions[0].isr) == 3


@meets("`broker_set_rack`")
def test_a_reader_reads_in_its_rack(three: kafkalite.Cluster, spread: Driver) -> None:
    leader = three.brokers.index(three.leader_of(spread.topic, 0))
    near = (leader + 1) % 3
    assert spread.produce("1") == 0
    eventually(lambda: is_in_sync(three, spread.topic))
    with three.brokers[near].record(spread.id("reader"), api="Fetch") as recording:
        assert spread.read(1, rack="abc"[near]) == ["1"]
        assert spread.produce("2") == 1
        assert spread.read(1, rack="abc"[near]) == ["2"]
    assert recording.requests, "the replica in the rack was asked"


@meets("`partition_set_follower`", "`SetFollowers`")
def test_a_reader_reads_where_the_leader_sends_it(three: kafkalite.Cluster, spread: Driver) -> None:
    leader = three.leader_of(spread.topic, 0)
    other = (three.brokers.index(leader) + 1) % 3
    assert spread.produce("1") == 0
    eventually(lambda: is_in_sync(three, spread.topic))
    fault = leader.faults.follower(other, spread.topic, partition=0)
    with three.brokers[other].record(spread.id("reader"), api="Fetch") as recording:
        assert spread.read(1) == ["1"]
        assert spread.produce("2") == 1
        assert spread.read(1) == ["2"]
    assert fault.fired >= 1
    assert recording.requests, "the other replica was asked"


@meets("`partition_set_follower_wmarks`")
def test_a_reader_leaves_a_follower_whose_range_it_is_out_of(
    three: kafkalite.Cluster, spread: Driver
) -> None:
    near = (three.brokers.index(three.leader_of(spread.topic, 0)) + 1) % 3
    assert spread.produce("1") == 0
    eventually(lambda: is_in_sync(three, spread.topic))
    assert spread.read(1, rack="abc"[near]) == ["1"]
    place = {"topic": spread.topic, "partition": 0, "client_id": spread.id("reader")}
    fault = three.brokers[near].faults.error("Fetch", "OFFSET_OUT_OF_RANGE", times=1, **place)
    assert spread.produce("2") == 1
    assert spread.read(1, rack="abc"[near]) == ["2"], "neither lost nor read again"
    assert fault.fired == 1


@meets("`partition_push_leader_response`")
def test_a_writer_is_sent_to_a_leader_of_yesterday(
    three: kafkalite.Cluster, spread: Driver
) -> None:
    wrong = (three.brokers.index(three.leader_of(spread.topic, 0)) + 1) % 3
    for one in three.brokers:
        one.faults.leader(wrong, spread.topic, partition=0, times=2)
    with three.brokers[wrong].record(spread.id("writer"), api="Produce") as recording:
        assert spread.produce("1") == 0
    assert [NOT_LEADER] in errors_of(recording.requests)
    assert spread.read(1) == ["1"]


def rows_of_the_guide(text: str) -> dict[str, str]:
    """The last cells of the rows of the tables below "Beside other tools", by their first ones."""
    _, _, section = text.partition("\n## Beside other tools\n")
    rows = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in section.splitlines()]
    return {cells[0]: cells[-1] for cells in rows if len(cells) == 3 and cells[0].startswith("`")}


def test_each_row_of_the_guide_is_met_or_says_that_it_is_not() -> None:
    rows = rows_of_the_guide(Path(GUIDE).read_text())
    assert {row for row, clients in rows.items() if clients == "C G J"} == MET
    assert {clients for row, clients in rows.items() if row not in MET} == {"-"}
