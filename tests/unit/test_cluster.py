"""Three brokers as processes: they find each other, and any of them takes any request."""

from __future__ import annotations

import signal
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

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
