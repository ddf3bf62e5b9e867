"""How a cluster begins: brokers that start together, and a directory of the first release."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import kafkalite as kl
from tests.golden.data_dir import DIRS, SETTINGS
from tests.harness.brokers import free_port
from tests.harness.patience import eventually
from tests.harness.process import Process, Processes
from tests.harness.session import Session
from tests.harness.wire.batches import simple
from tests.harness.wire.connection import request_frame
from tests.unit.test_cluster import brokers
from tests.unit.test_old_data_dir import opened

TOGETHER = 3


def start(processes: Processes, directory: Path, port: int, join: int) -> Process:
    """Start a broker that joins one at a port, which may be its own; do not wait for it."""
    listen = ["--listen", f"127.0.0.1:{port}", "--admin-port", "0", "--data-dir", str(directory)]
    return processes.start("serve", *listen, "--join", f"127.0.0.1:{join}")


def test_three_that_start_together_and_name_one_of_them_are_one_cluster(
    processes: Processes, tmp_path: Path
) -> None:
    ports = [free_port() for _ in range(TOGETHER)]
    started = [start(processes, tmp_path / str(port), port, ports[0]) for port in ports]
    for process in started:
        process.wait_ready()
    eventually(lambda: all(len(brokers(process.ready)) == TOGETHER for process in started))
    ids = set()
    for process in started:
        with kl.AdminClient(bootstrap_servers=process.ready) as admin:
            ids.add(admin.describe_cluster().cluster_id)
    assert len(ids) == 1


def test_brokers_that_name_each_other_wait_and_say_so(processes: Processes, tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    started = [
        start(processes, tmp_path / str(port), port, other)
        for port, other in zip(ports, reversed(ports), strict=True)
    ]
    said = "waiting for the cluster to join"
    eventually(lambda: all(said in process.stderr for process in started), 90)
    assert [process.end() for process in started] == [0, 0]
    # None of them made a cluster of its own meanwhile.
    assert not list(tmp_path.glob("*/meta.properties"))


@pytest.mark.parametrize("name", ["stopped", "killed"])
def test_a_directory_of_the_first_release_grows_to_three_and_loses_its_broker(
    processes: Processes, tmp_path: Path, name: str
) -> None:
    directory, seen, _ = opened(name, tmp_path)
    settings = {**SETTINGS, "log.dirs": ",".join(str(directory / one) for one in DIRS)}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    listen = ["--listen", "127.0.0.1:0", "--admin-port", "0"]
    first = processes.start("serve", *listen, *words).wait_ready()
    others = [processes.serve("--join", first.ready) for _ in range(2)]
    addresses = [process.ready for process in (first, *others)]
    written = {
        (topic, partition): [record[0] for record in told["records"]]
        for topic, of in seen["topics"].items()
        if not of["internal"]
        for partition, told in enumerate(of["partitions"])
    }
    with kl.AdminClient(bootstrap_servers=addresses) as admin:
        eventually(lambda: len(admin.describe_quorum().voters) == TOGETHER)
        nodes = sorted(broker.id for broker in admin.describe_cluster().brokers)
        admin.reassign_partitions(dict.fromkeys(written, nodes))
        eventually(lambda: not admin.list_reassignments(), 60)
    first.end(signal.SIGKILL)
    assert {place: offsets(addresses, place) for place in written} == written


def offsets(addresses: list[str], place: tuple[str, int]) -> list[int]:
    """The offsets of all records of a partition."""
    found: list[int] = []
    with kl.Consumer(bootstrap_servers=addresses, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        (end,) = consumer.end_offsets(place).values()

        def is_read() -> bool:
            found.extend(record.offset for record in consumer.consume(1_000, timeout=0.2))
            return consumer.position(place) >= end

        eventually(is_read)
    return found


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[kl.Cluster]:
    """Three processes, and a topic with one partition on all of them."""
    with kl.Cluster(TOGETHER, in_process=False, topics=["t"], data_dir=tmp_path) as cluster:
        yield cluster


def test_five_produces_of_one_connection_are_appended_before_the_first_is_replicated(
    replicated: kl.Cluster, tmp_path: Path
) -> None:
    leader = replicated.leader_of("t", 0)
    followers = [broker.pid for broker in replicated.brokers if broker is not leader]
    data = [{"Name": "t", "PartitionData": [{"Index": 0, "Records": simple(b"v")}]}]
    body = {"Acks": -1, "TimeoutMs": 30_000, "TopicData": data}
    number = replicated.brokers.index(leader)
    log = tmp_path / f"broker-{number}" / "t-0" / f"{0:020}.log"
    with closing(Session(leader.bootstrap_servers, "five")) as session:
        session.call("Produce", 9, **body)
        one = log.stat().st_size
        for pid in followers:
            os.kill(pid, signal.SIGSTOP)
        try:
            frames = [request_frame("Produce", 9, body, number) for number in range(5)]
            session.open.send_raw(b"".join(frames))
            eventually(lambda: log.stat().st_size == 6 * one)
        finally:
            for pid in followers:
                os.kill(pid, signal.SIGCONT)
        answers = [session.open.receive("Produce", 9) for _ in frames]
    parts = [answer["Responses"][0]["PartitionResponses"][0] for answer in answers]
    assert [(part["ErrorCode"], part["BaseOffset"]) for part in parts] == [
        (0, offset) for offset in range(1, 6)
    ]
