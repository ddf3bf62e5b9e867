"""Three brokers as processes: they find each other, and any of them takes any request."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ElectionType, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import kafkalite as kl
from tests.harness.patience import eventually
from tests.harness.process import Process, Processes, port_of


def three(processes: Processes) -> list[Process]:
    """A cluster of three; the first broker begins it."""
    first = processes.serve()
    return [first, *(processes.serve("--join", first.ready) for _ in range(2))]


def brokers(address: str) -> dict[int, int]:
    """The ports of the brokers that serve, by id, as the broker at an address sees them."""
    admin = AdminClient({"bootstrap.servers": address})
    return {node.id: node.port for node in admin.list_topics(timeout=10).brokers.values()}


def three_voters(processes: Processes, first: Path) -> list[Process]:
    """A cluster of three that all vote and know each other; the directory of the first is given."""
    begun = processes.serve(data_dir=first)
    started = [begun, *(processes.serve("--join", begun.ready) for _ in range(2))]
    eventually(lambda: begun.stderr.count("Promote(") == 2)
    eventually(lambda: all(len(brokers(process.ready)) == 3 for process in started))
    return started


def produce(address: str, topic: str, values: list[str]) -> None:
    """Produce values with acks=all; every one of them is acknowledged."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for value in values:
        producer.produce(
            topic, value, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert (producer.flush(20), failed) == (0, [])


def consume(address: str, topic: str, group: str, count: int) -> set[str]:
    """Read so many values as the only member of a group."""
    settings = {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    values: set[str] = set()

    def has_all() -> bool:
        for message in consumer.consume(count, 0.2):
            value = message.value()
            assert message.error() is None
            assert value is not None
            values.add(value.decode())
        return len(values) >= count

    eventually(has_all)
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


class Load:
    """An idempotent producer that sends 0, 1, 2, ... with acks=all, and when each was answered."""

    def __init__(self, addresses: list[str]) -> None:
        settings = {"bootstrap.servers": ",".join(addresses), "enable.idempotence": True}
        self._producer = Producer({**settings, "linger.ms": 0})
        self.sent = 0
        self.acknowledged: dict[int, float] = {}
        self.failed: list[object] = []

    def _answered(self, error: object, message: Message) -> None:
        value = message.value()
        assert value is not None
        if error:
            self.failed.append((value, error))
        else:
            self.acknowledged[int(value)] = time.monotonic()

    def send_until(self, condition: Callable[[], bool], seconds: float = 20.0) -> None:
        """Send, with a hundred records under way at most, until the condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "a condition did not come true under load"
            if len(self._producer) < 100:
                self._producer.produce("t", str(self.sent), on_delivery=self._answered)
                self.sent += 1
            self._producer.poll(0.002)

    def send(self, count: int) -> None:
        """Send until so many more are acknowledged."""
        wanted = len(self.acknowledged) + count
        self.send_until(lambda: len(self.acknowledged) >= wanted)

    def finish(self) -> None:
        """Wait until all is acknowledged."""
        assert (self._producer.flush(20), self.failed) == (0, [])
        assert len(self.acknowledged) == self.sent


def values_of(address: str, topic: str, end: str) -> list[int]:
    """All values of partition 0 up to a value, in the order of the log."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[int] = []

    def has_end() -> bool:
        for message in consumer.consume(1_000, 0.2):
            value = message.value()
            assert message.error() is None
            assert value is not None
            values.append(int(value))
        return bool(values) and str(values[-1]) == end

    eventually(has_end)
    values.extend(int(message.value() or b"") for message in consumer.consume(1_000, 0.5))
    consumer.close()
    return values


def committed(addresses: list[str], offset: int | None = None) -> int:
    """The offset that a group has committed for partition 0, or commits now."""
    consumer = Consumer({"bootstrap.servers": ",".join(addresses), "group.id": "kept"})
    place = TopicPartition("t", 0)
    if offset is not None:
        place.offset = offset
        consumer.commit(offsets=[place], asynchronous=False)
    found = consumer.committed([place], timeout=20)[0]
    assert found.error is None
    consumer.close()
    return int(found.offset)


# The first broker is also the controller.
@pytest.mark.parametrize(
    ("leader", "end"), [(1, signal.SIGKILL), (2, signal.SIGKILL), (1, signal.SIGTERM)]
)
def test_what_is_acknowledged_survives_its_leader(
    processes: Processes, tmp_path: Path, leader: int, end: signal.Signals
) -> None:
    words = ["--set", "offsets.topic.replication.factor=3"]
    started = [processes.serve(*words, data_dir=tmp_path / "1")]
    for name in "23":
        joined = processes.serve(*words, "--join", started[0].ready, data_dir=tmp_path / name)
        started.append(joined)
    eventually(lambda: started[0].stderr.count("Promote(") == 2)
    addresses = [process.ready for process in started]
    others = [address for at, address in enumerate(addresses, 1) if at != leader]
    eventually(lambda: all(len(brokers(address)) == 3 for address in addresses))
    admin = AdminClient({"bootstrap.servers": ",".join(others)})
    replicas = [leader, *({1, 2, 3} - {leader})]
    config = {"min.insync.replicas": "2"}
    topic = NewTopic("t", 1, replica_assignment=[replicas], config=config)
    admin.create_topics([topic])["t"].result(20)

    def partition() -> tuple[int, list[int]]:
        found = admin.list_topics("t", timeout=10).topics["t"].partitions[0]
        return found.leader, sorted(found.isrs)

    assert partition() == (leader, [1, 2, 3])
    load = Load(addresses)
    load.send(300)
    assert committed(addresses, 100) == 100
    started[leader - 1].end(end)
    killed_at, first = time.monotonic(), load.sent
    load.send_until(lambda: any(value >= first for value in load.acknowledged))
    after_ms = round(1_000 * (time.monotonic() - killed_at))
    print(f"end to first acknowledged produce: {after_ms} ms")
    load.send(300)
    assert committed(others) == 100
    assert partition()[0] != leader
    listen = ["--listen", addresses[leader - 1], "--admin-port", "0"]
    directory = ["--data-dir", str(tmp_path / str(leader))]
    processes.start("serve", *words, *listen, *directory).wait_ready()
    load.send_until(lambda: partition()[1] == [1, 2, 3])
    elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("t", 0)]).result(20)
    assert [result for result in elected.values() if result is not None] == []
    load.send_until(lambda: partition() == (leader, [1, 2, 3]))
    load.send(100)
    load.finish()
    # Each once, and in order: a producer sends again what got no answer.
    assert values_of(others[0], "t", str(load.sent - 1)) == list(range(load.sent))


def test_partitions_move_under_load_and_past_a_dead_controller(
    processes: Processes, tmp_path: Path
) -> None:
    started = three_voters(processes, tmp_path / "1")
    addresses = [process.ready for process in started]
    admin = AdminClient({"bootstrap.servers": ",".join(addresses[1:])})
    admin.create_topics([NewTopic("t", 1, replica_assignment=[[2]])])["t"].result(20)

    def partition() -> tuple[int, list[int], list[int]]:
        found = admin.list_topics("t", timeout=10).topics["t"].partitions[0]
        return found.leader, found.replicas, sorted(found.isrs)

    load, place = Load(addresses[1:]), ("t", 0)
    load.send(300)
    with kl.AdminClient(bootstrap_servers=addresses[1:]) as moves:
        moves.reassign_partitions({place: [3]})
        load.send_until(lambda: partition() == (3, [3], [3]))
        assert moves.list_reassignments() == {}
        # The controller dies before it can have a copy. The next one goes on.
        started[0].end(signal.SIGKILL)
        moves.reassign_partitions({place: [1, 2]}, timeout=20)
        load.send(300)
        (move,) = moves.list_reassignments().values()
        assert (sorted(move.adding), move.removing) == ([1, 2], (3,))
        listen = ["--listen", addresses[0], "--admin-port", "0"]
        processes.start("serve", *listen, "--data-dir", str(tmp_path / "1")).wait_ready()
        load.send_until(lambda: partition()[1:] == ([1, 2], [1, 2]))
        load.send(100)
        assert moves.list_reassignments() == {}
    load.finish()
    assert values_of(addresses[1], "t", str(load.sent - 1)) == list(range(load.sent))


def test_deleted_records_are_gone_from_every_replica(processes: Processes, tmp_path: Path) -> None:
    started = three_voters(processes, tmp_path / "1")
    addresses = [process.ready for process in started]
    admin = AdminClient({"bootstrap.servers": ",".join(addresses[1:])})
    admin.create_topics([NewTopic("t", 1, replica_assignment=[[1, 2, 3]])])["t"].result(20)
    produce(addresses[1], "t", [str(number) for number in range(50)])
    place = TopicPartition("t", 0, 30)
    (deleted,) = admin.delete_records([place], request_timeout=20).values()
    assert deleted.result(20).low_watermark == 30
    # The next leader was waited for.
    started[0].end(signal.SIGKILL)
    eventually(
        lambda: admin.list_topics("t", timeout=10).topics["t"].partitions[0].leader in (2, 3)
    )
    consumer = Consumer({"bootstrap.servers": ",".join(addresses[1:]), "group.id": "none"})
    assert consumer.get_watermark_offsets(place, timeout=20) == (30, 50)
    consumer.close()


def test_three_brokers_serve_as_one(processes: Processes) -> None:
    started = three(processes)
    ports = {1 + at: port_of(process.ready) for at, process in enumerate(started)}
    for process in started:
        eventually(lambda at=process.ready: brokers(at) == ports)  # type: ignore[misc]
    # Any broker takes the request; its answer comes when this broker has the topic.
    last = AdminClient({"bootstrap.servers": started[2].ready})
    last.create_topics([NewTopic("t", 6, 1)])["t"].result(20)
    partitions = last.list_topics("t", timeout=10).topics["t"].partitions.values()
    assert {partition.leader for partition in partitions} == {1, 2, 3}
    values = [str(number) for number in range(60)]
    produce(started[1].ready, "t", values)
    for process, group in zip(started, "abc", strict=True):
        assert consume(process.ready, "t", group, 60) == set(values)


def test_a_cluster_takes_a_killed_broker_back(processes: Processes, tmp_path: Path) -> None:
    first = processes.serve(data_dir=tmp_path / "first")
    others = [processes.serve("--join", first.ready) for _ in range(2)]
    # Two of three voters are enough; before that the first broker is the majority.
    eventually(lambda: first.stderr.count("Promote(") == 2)
    eventually(lambda: len(brokers(others[0].ready)) == 3)
    produce(first.ready, "kept", ["a", "b"])
    address = first.ready
    first.end(signal.SIGKILL)
    # The others elect a controller, which fences the dead broker.
    eventually(lambda: sorted(brokers(others[0].ready)) == [2, 3])
    admin = AdminClient({"bootstrap.servers": others[1].ready})
    admin.create_topics([NewTopic("later", 2, 1)])["later"].result(20)
    produce(others[0].ready, "later", ["c"])
    words = ["--listen", address, "--admin-port", "0", "--data-dir", str(tmp_path / "first")]
    again = processes.start("serve", *words).wait_ready()
    eventually(lambda: sorted(brokers(others[0].ready)) == [1, 2, 3])
    assert consume(again.ready, "kept", "g", 2) == {"a", "b"}
    assert consume(again.ready, "later", "h", 1) == {"c"}


def test_a_directory_of_another_cluster_does_not_join(processes: Processes, tmp_path: Path) -> None:
    cluster, other = processes.serve(), processes.serve(data_dir=tmp_path / "other")
    other.end()
    words = ["--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "other")]
    refused = processes.start("serve", *words, "--join", cluster.ready)
    assert refused.wait() != 0
    assert "belongs to cluster" in refused.stderr


def test_a_broker_that_waits_for_a_cluster_is_stopped_by_a_signal(processes: Processes) -> None:
    words = ["--listen", "127.0.0.1:0", "--data-dir", "data", "--join", "127.0.0.1:1"]
    waits = processes.start("serve", *words)
    eventually(lambda: "waiting for the cluster" in waits.stderr)
    assert waits.end() == 0
