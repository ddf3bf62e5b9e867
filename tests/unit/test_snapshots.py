"""Snapshots, resets and forks of a broker: a test begins with the state that it wants."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import kafkalite
from kafkalite import snapshots
from kafkalite.errors import IllegalStateError, InvalidArgumentError
from tests.harness import reading
from tests.harness.leaks import held, wait_for_no_more_than
from tests.harness.openapi import asked
from tests.harness.process import PATIENCE_S

GROUP = "billing"


@pytest.fixture
def seeded(tmp_path: Path) -> Iterator[kafkalite.Broker]:
    """A broker with ten records of ``t``, four of them committed by a group."""
    options: dict[str, Any] = {"topics": {"t": 1}, "data_dir": tmp_path / "data", "admin_port": 0}
    with kafkalite.Broker(**options) as broker:
        send(broker, "t", 10)
        commit(broker, 4)
        yield broker


def send(broker: kafkalite.Broker, topic: str, count: int) -> None:
    """Write records with the values 0, 1, ..."""
    send_to(broker.bootstrap_servers, topic, count)


def send_to(servers: str, topic: str, count: int) -> None:
    """Write records with the values 0, 1, ..."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    for value in range(count):
        producer.produce(topic, str(value).encode(), partition=0)
    assert producer.flush(PATIENCE_S) == 0


def commit(broker: kafkalite.Broker, offset: int) -> None:
    """Commit an offset of ``t`` for the group."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
    consumer.close()


def state(broker: kafkalite.Broker) -> tuple[int, int, int]:
    """The first offset, the end, and the group's offset of ``t``."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": GROUP})
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=PATIENCE_S)
        (found,) = consumer.committed([TopicPartition("t", 0)], timeout=PATIENCE_S)
        return first, end, found.offset
    finally:
        consumer.close()


def values(broker: kafkalite.Broker, topic: str = "t") -> list[bytes | None]:
    """Every value of a topic."""
    return reading.values(broker.bootstrap_servers, topic)


TEN = [str(value).encode() for value in range(10)]


def test_a_fork_has_the_records_offsets_and_groups(seeded: kafkalite.Broker) -> None:
    with seeded.fork() as fork:
        assert fork.bootstrap_servers != seeded.bootstrap_servers
        assert values(fork) == TEN
        assert state(fork) == (0, 10, 4)


def test_neither_side_of_a_fork_sees_what_the_other_does(seeded: kafkalite.Broker) -> None:
    with seeded.fork() as fork:
        send(fork, "t", 3)
        commit(fork, 13)
        send(seeded, "t", 1)
        commit(seeded, 11)
        assert (state(fork), state(seeded)) == ((0, 13, 13), (0, 11, 11))


def test_records_that_one_side_deletes_stay_on_the_other(seeded: kafkalite.Broker) -> None:
    with seeded.fork() as fork:
        seeded.clock.advance("30d")
        assert state(seeded)[:2] == (10, 10)
        assert values(fork) == TEN


def test_a_topic_that_one_side_deletes_stays_on_the_other(seeded: kafkalite.Broker) -> None:
    with (
        seeded.fork() as fork,
        kafkalite.AdminClient(bootstrap_servers=seeded.bootstrap_servers) as admin,
    ):
        admin.delete_topic("t")
        assert values(fork) == TEN


def test_what_is_compacted_on_one_side_stays_on_the_other(seeded: kafkalite.Broker) -> None:
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    with kafkalite.AdminClient(bootstrap_servers=seeded.bootstrap_servers) as admin:
        admin.create_topic("c", config=config)
    producer = Producer({"bootstrap.servers": seeded.bootstrap_servers})
    for value in (b"1", b"2"):
        producer.produce("c", value, key=b"k", partition=0)
        assert producer.flush(PATIENCE_S) == 0

    with seeded.fork() as fork:
        fork.clock.advance("1h")
        assert (values(fork, "c"), values(seeded, "c")) == ([b"2"], [b"1", b"2"])


def test_a_fork_outlives_its_origin(seeded: kafkalite.Broker) -> None:
    fork = seeded.fork()
    seeded.close()
    with fork:
        assert values(fork) == TEN


def test_a_fork_keeps_its_data_when_it_is_killed_and_started_again(
    seeded: kafkalite.Broker,
) -> None:
    with seeded.fork() as fork:
        send(fork, "t", 2)
        fork.kill()
        fork.start()
        assert state(fork) == (0, 12, 4)


def test_the_origin_keeps_its_data_when_it_is_killed_while_a_fork_runs(
    seeded: kafkalite.Broker,
) -> None:
    with seeded.fork() as fork:
        seeded.kill()
        seeded.start()
        assert values(seeded) == values(fork) == TEN


def test_a_fork_of_a_child_process_is_a_child_process(tmp_path: Path) -> None:
    options: dict[str, Any] = {"topics": ["t"], "in_process": False, "admin_port": 0}
    with kafkalite.Broker(**options) as broker:
        send(broker, "t", 10)
        with broker.fork() as fork:
            assert fork.pid not in (broker.pid, os.getpid())
            assert values(fork) == TEN


def test_a_fork_has_every_log_directory(tmp_path: Path) -> None:
    dirs = ",".join(str(tmp_path / name) for name in ("one", "two"))
    with kafkalite.Broker(topics={"t": 1, "u": 3}, config={"log.dirs": dirs}) as broker:
        send(broker, "t", 10)
        with broker.fork() as fork:
            assert values(fork) == TEN


def test_a_reset_brings_a_snapshot_back(seeded: kafkalite.Broker) -> None:
    servers = seeded.bootstrap_servers
    with seeded.snapshot() as snapshot:
        for _ in range(2):
            send(seeded, "t", 5)
            commit(seeded, 15)
            seeded.reset(snapshot)
            assert seeded.bootstrap_servers == servers
            assert state(seeded) == (0, 10, 4)


def test_topics_that_came_after_a_snapshot_are_gone_after_a_reset(
    seeded: kafkalite.Broker,
) -> None:
    snapshot = seeded.snapshot()
    with kafkalite.AdminClient(bootstrap_servers=seeded.bootstrap_servers) as admin:
        admin.create_topic("later")
    seeded.reset(snapshot)
    with kafkalite.AdminClient(bootstrap_servers=seeded.bootstrap_servers) as admin:
        assert "later" not in {topic.name for topic in admin.list_topics()}


def test_a_snapshot_outlives_a_restart_of_its_broker(seeded: kafkalite.Broker) -> None:
    snapshot = seeded.snapshot()
    send(seeded, "t", 5)
    seeded.restart()
    seeded.reset(snapshot)
    assert state(seeded) == (0, 10, 4)


def test_every_record_that_was_acknowledged_before_is_in_a_snapshot_under_load(
    seeded: kafkalite.Broker,
) -> None:
    acknowledged = 10
    stop = threading.Event()

    def load() -> None:
        nonlocal acknowledged
        while not stop.is_set():
            send(seeded, "t", 10)
            acknowledged += 10
            commit(seeded, acknowledged)

    loading = threading.Thread(target=load)
    loading.start()
    try:
        for _ in range(5):
            before = acknowledged
            with seeded.fork() as fork:
                _, end, committed = state(fork)
                assert before <= end
                assert committed <= end
    finally:
        stop.set()
        loading.join(PATIENCE_S)


def test_a_snapshot_that_was_deleted_is_refused(seeded: kafkalite.Broker) -> None:
    snapshot = seeded.snapshot()
    snapshot.delete()
    snapshot.delete()
    with pytest.raises(InvalidArgumentError, match="is gone"):
        seeded.reset(snapshot)
    with pytest.raises(InvalidArgumentError, match="is gone"):
        seeded.fork(snapshot)


@pytest.mark.parametrize("step", ["_link", "_copy"])
def test_a_snapshot_that_another_thread_deletes_meanwhile_is_refused(
    seeded: kafkalite.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The broker was stopped and its records gone, with a bare FileNotFoundError."""
    # The first snapshot leaves the folder of all snapshots.
    seeded.snapshot().delete()
    files = files_of(tmp_path)
    do = getattr(snapshots, step)
    use: Callable[[snapshots.Snapshot], object]
    for use in (seeded.reset, seeded.fork):
        snapshot = seeded.snapshot()

        def delete_beside(source: object, to: object, snapshot: Any = snapshot) -> None:
            if step == "_copy":
                do(source, to)
            snapshot.delete()
            if step == "_link":
                do(source, to)

        monkeypatch.setattr(snapshots, step, delete_beside)
        send(seeded, "t", 1)
        with pytest.raises(InvalidArgumentError, match="is gone"):
            use(snapshot)
        monkeypatch.undo()
    assert state(seeded) == (0, 12, 4)
    assert files_of(tmp_path) == files


def test_a_snapshot_of_another_broker_is_refused(seeded: kafkalite.Broker) -> None:
    with (
        kafkalite.Broker() as other,
        pytest.raises(InvalidArgumentError, match="not one of this broker"),
    ):
        other.reset(seeded.snapshot())


def test_a_broker_of_a_cluster_has_no_snapshots() -> None:
    with (
        kafkalite.Cluster() as cluster,
        pytest.raises(InvalidArgumentError, match="one of a cluster"),
    ):
        cluster.brokers[0].snapshot()


def test_a_broker_that_does_not_run_has_no_snapshots() -> None:
    with pytest.raises(IllegalStateError):
        kafkalite.Broker().snapshot()


def test_snapshots_are_taken_listed_and_deleted_over_http(seeded: kafkalite.Broker) -> None:
    taken = http(seeded, "POST", "/snapshots", {})
    assert http(seeded, "GET", "/snapshots") == {"snapshots": [taken]}
    assert http(seeded, "DELETE", f"/snapshots/{taken['id']}") == taken
    for method, path in (("DELETE", "/snapshots/9"), ("DELETE", "/forks/9")):
        assert asked(seeded.admin_url or "", method, path)[0] == 404
    assert http(seeded, "GET", "/snapshots") == {"snapshots": []}


def http(broker: kafkalite.Broker, method: str, path: str, body: object = None) -> Any:
    """Send a command as any language does; our OpenAPI file describes its answer."""
    status, told = asked(broker.admin_url or "", method, path, body)
    assert status < 400, told
    return told


def end_at(servers: str) -> int:
    """The end of ``t``."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "end"})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=PATIENCE_S)
        return int(end)
    finally:
        consumer.close()


def test_what_takes_a_child_process_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    patience: dict[str, float] = {}

    class Noting(HTTPConnection):
        def request(self, method: str, url: str, *given: Any, **named: Any) -> None:
            patience[f"{method} {url}"] = float(self.timeout or 0)
            super().request(method, url, *given, **named)

    monkeypatch.setattr("http.client.HTTPConnection", Noting)
    options: dict[str, Any] = {"topics": ["t"], "in_process": False, "admin_port": 0}
    with kafkalite.Broker(**options) as broker:
        broker.snapshot().delete()
        broker.clock.advance("1h")
        assert len(broker.faults) == 0
    long = [patience[f"POST /api/v1{path}"] for path in ("/snapshots", "/clock/advance")]
    assert min(long) >= 600 > patience["GET /api/v1/faults"]


@pytest.mark.parametrize("in_process", [True, False])
def test_a_client_of_any_language_forks_over_http(tmp_path: Path, in_process: bool) -> None:
    options: dict[str, Any] = {"topics": ["t"], "in_process": in_process, "admin_port": 0}
    with kafkalite.Broker(**options, data_dir=tmp_path) as broker:
        send(broker, "t", 10)
        fork = http(broker, "POST", "/forks", {})
        send(broker, "t", 1)
        assert end_at(fork["bootstrap_servers"]) == 10
        assert http(broker, "GET", "/forks") == {"forks": [fork]}
        assert http(broker, "DELETE", f"/forks/{fork['id']}") == fork
        assert http(broker, "GET", "/forks") == {"forks": []}
        assert list((tmp_path / ".kafkalite-snapshots").iterdir()) == []


def test_a_fork_over_http_begins_with_the_snapshot_that_is_named(
    seeded: kafkalite.Broker,
) -> None:
    snapshot = seeded.snapshot()
    send(seeded, "t", 5)
    for _ in range(2):
        fork = http(seeded, "POST", "/forks", {"snapshot": snapshot.id})
        assert end_at(fork["bootstrap_servers"]) == 10
        send_to(fork["bootstrap_servers"], "t", 1)


def test_a_fork_over_http_has_test_control_of_its_own(seeded: kafkalite.Broker) -> None:
    fork = http(seeded, "POST", "/forks", {})
    month = 30 * 86_400_000
    status, told = asked(fork["admin_url"], "POST", "/clock/advance", {"ms": month})
    assert (status, told["wall_ahead_ms"]) == (201, month)
    assert state(seeded)[:2] == (0, 10)


def test_forks_over_http_end_with_their_broker(seeded: kafkalite.Broker) -> None:
    fork = http(seeded, "POST", "/forks", {})
    address, _, port = fork["bootstrap_servers"].partition(":")
    seeded.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address, int(port)), PATIENCE_S)


def test_a_broker_starts_on_the_folder_of_a_snapshot(
    seeded: kafkalite.Broker, tmp_path: Path
) -> None:
    """So a client of any language forks: it starts a broker with a copy as its data directory."""
    import shutil

    (folder,) = seeded.snapshot().directories
    shutil.copytree(folder, tmp_path / "copy")
    with kafkalite.Broker(data_dir=tmp_path / "copy") as broker:
        assert values(broker) == TEN


def files_of(tmp_path: Path) -> list[Path]:
    """The directories of brokers, and the snapshots."""
    return sorted([*tmp_path.iterdir(), *(tmp_path / "data" / ".kafkalite-snapshots").iterdir()])


def test_forks_leave_no_files_descriptors_and_threads(
    seeded: kafkalite.Broker, tmp_path: Path
) -> None:
    seeded.fork().close()
    before, files = held(), files_of(tmp_path)
    snapshot = seeded.snapshot()
    for _ in range(10):
        seeded.fork(snapshot).close()
    snapshot.delete()
    wait_for_no_more_than(before)
    assert files_of(tmp_path) == files


def test_what_is_no_snapshot_is_refused(seeded: kafkalite.Broker) -> None:
    with pytest.raises(TypeError, match="snapshot must be a Snapshot, not str") as raised:
        seeded.fork("latest")  # type: ignore[arg-type]
    assert raised.value.__notes__ == ["hint: broker.snapshot() takes one."]
    with pytest.raises(TypeError, match="snapshot must be a Snapshot, not NoneType"):
        seeded.reset(None)  # type: ignore[arg-type]
    assert values(seeded) == TEN
