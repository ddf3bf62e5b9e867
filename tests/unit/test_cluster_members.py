"""Members of a cluster that move, lose their disk, or come back: three processes."""

from __future__ import annotations

import signal
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.harness.patience import eventually
from tests.harness.process import Process, Processes, port_of
from tests.unit.test_cluster import brokers, consume, produce, three_voters


def in_sync(address: str, topic: str) -> list[int]:
    """The in-sync replicas of partition 0, as the broker at an address sees them."""
    partition = AdminClient({"bootstrap.servers": address}).list_topics(topic, timeout=10)
    return sorted(partition.topics[topic].partitions[0].isrs)


def with_topic(first: Process) -> None:
    """Three replicas of one partition, with one record."""
    admin = AdminClient({"bootstrap.servers": first.ready})
    eventually(lambda: len(brokers(first.ready)) == 3)
    admin.create_topics([NewTopic("kept", 1, 3)])["kept"].result(20)
    produce(first.ready, "kept", ["a"])
    eventually(lambda: in_sync(first.ready, "kept") == [1, 2, 3])


def test_a_voter_that_comes_back_at_another_address_is_found(
    processes: Processes, tmp_path: Path
) -> None:
    first = processes.serve()
    processes.serve("--join", first.ready)
    third = processes.serve("--join", first.ready, data_dir=tmp_path / "third")
    eventually(lambda: first.stderr.count("Promote(") == 2)
    with_topic(first)
    third.end(signal.SIGKILL)
    eventually(lambda: sorted(brokers(first.ready)) == [1, 2])
    moved = processes.serve(data_dir=tmp_path / "third")
    assert moved.ready != third.ready
    eventually(lambda: brokers(first.ready).get(3) == port_of(moved.ready))
    eventually(lambda: "Move(" in first.stderr)
    eventually(lambda: in_sync(first.ready, "kept") == [1, 2, 3])
    assert consume(moved.ready, "kept", "g", 1) == {"a"}


def test_a_broker_without_its_disk_takes_its_id_and_fills_again(processes: Processes) -> None:
    first = processes.serve()
    processes.serve("--join", first.ready)
    third = processes.serve("--join", first.ready)
    eventually(lambda: first.stderr.count("Promote(") == 2)
    with_topic(first)
    serve = ("serve", "--listen", "127.0.0.1:0", "--admin-port", "0", "--data-dir", "data")
    wiped_disk = (*serve, "--join", first.ready, "--set", "node.id=3")
    alive = "another data directory, which is alive"
    refused = processes.start(*wiped_disk, "--set", "initial.broker.registration.timeout.ms=100")
    assert refused.wait() != 0
    assert alive in refused.stderr
    wiped = processes.start(*wiped_disk)
    eventually(lambda: alive in wiped.stderr)
    third.end(signal.SIGKILL)
    wiped.wait_ready()
    eventually(lambda: in_sync(wiped.ready, "kept") == [1, 2, 3])
    # The voter of the lost disk goes, and the new one comes.
    eventually(lambda: first.stderr.count("Promote(") == 3)
    assert first.stderr.count("Remove(") == 1
    assert consume(wiped.ready, "kept", "g", 1) == {"a"}


def test_a_start_without_the_others_leaves_the_note_of_the_clean_stop(
    processes: Processes, tmp_path: Path
) -> None:
    """Without the note a broker counts as one that lost the ends of its logs, and leads nothing."""
    data = tmp_path / "first"
    started = three_voters(processes, data)
    for process in started:
        assert process.end() == 0
    note = data / ".kafka_cleanshutdown"
    left = note.read_text()
    soon = ["--set", "initial.broker.registration.timeout.ms=200"]
    words = ["--listen", "127.0.0.1:0", "--admin-port", "0", "--data-dir", str(data)]
    assert processes.start("serve", *words, *soon).wait() != 0
    assert note.read_text() == left
