"""AlterReplicaLogDirs moves replicas between log directories: shown, ended, through kills."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.cimpl import Message, Producer

import kafkalite
from tests.harness.cluster import Cluster
from tests.harness.patience import ended, eventually
from tests.harness.process import Process, Processes
from tests.harness.session import Session
from tests.unit.test_command_line import told

THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
NOT_AVAILABLE, NO_DIR = 9, 57
Part = dict[str, Any]


def start(processes: Processes, *dirs: Path) -> Process:
    """A broker over these directories."""
    listed = ",".join(map(str, dirs))
    words = ["--listen", "127.0.0.1:0", "--admin-port", "0", "--set", f"log.dirs={listed}"]
    return processes.start("serve", *words, "--set", "log.segment.bytes=1048576").wait_ready()


def move(s: Session, path: Path | str, topic: str, partition: int = 0) -> int:
    """Ask a replica into a directory; the error."""
    topics = [{"Name": topic, "Partitions": [partition]}]
    answer = s.call("AlterReplicaLogDirs", 2, Dirs=[{"Path": str(path), "Topics": topics}])
    error: int = answer["Results"][0]["Partitions"][0]["ErrorCode"]
    return error


def replicas(s: Session, topic: str = "t") -> dict[str, Part]:
    """What DescribeLogDirs says of partition 0, by the last name of the directory."""
    results = s.call("DescribeLogDirs", 4, Topics=[{"Topic": topic, "Partitions": [0]}])["Results"]
    return {
        Path(one["LogDir"]).name: part
        for one in results
        for told in one["Topics"]
        for part in told["Partitions"]
    }


def is_only_in(s: Session, directory: str, topic: str = "t") -> bool:
    """Whether the replica is there, and no copy is anywhere."""
    found = replicas(s, topic)
    return list(found) == [directory] and not found[directory]["IsFutureKey"]


def throttle(s: Session, value: str | None) -> None:
    """Set or remove the limit of all brokers."""
    changes = [{"Name": THROTTLE, "ConfigOperation": int(value is None), "Value": value}]
    resource = {"ResourceType": 4, "ResourceName": "", "Configs": changes}
    answer = s.call("IncrementalAlterConfigs", 1, Resources=[resource], ValidateOnly=False)
    assert answer["Responses"][0]["ErrorCode"] == 0


@pytest.fixture
def dirs(tmp_path: Path) -> tuple[Path, Path]:
    """The two directories of a broker."""
    return tmp_path / "one", tmp_path / "two"


@pytest.fixture
def s(processes: Processes, dirs: tuple[Path, Path]) -> Iterator[Session]:
    """A broker with a topic in ``one``."""
    session = Session(start(processes, *dirs).ready, "moving")
    session.create("t")
    assert is_only_in(session, "one")
    yield session
    session.close()


def test_a_copy_is_shown_until_the_present_directory_ends_it(
    s: Session, dirs: tuple[Path, Path]
) -> None:
    for _ in range(20):
        s.fill("t", 5, 20)
    throttle(s, "2000")
    assert move(s, dirs[1], "t") == 0
    eventually(lambda: replicas(s)["two"]["PartitionSize"] > 0)
    found = replicas(s)
    assert [found[name]["IsFutureKey"] for name in ("one", "two")] == [False, True]
    assert found["two"]["PartitionSize"] < found["one"]["PartitionSize"]
    assert 0 < found["two"]["OffsetLag"] < 2_000
    assert found["one"]["OffsetLag"] == 0
    assert move(s, dirs[0], "t") == 0
    assert is_only_in(s, "one")
    eventually(lambda: [one.name for one in dirs[1].glob("t-0*")] == [])
    assert move(s, dirs[1], "t") == 0
    throttle(s, None)
    eventually(lambda: is_only_in(s, "two"))
    s.fill("t", 3)
    assert s.list_offset("t", -1)["Offset"] == 2_009


def test_what_cannot_move_has_the_errors_of_kafka(s: Session, dirs: tuple[Path, Path]) -> None:
    asked: list[tuple[Path | str, str, int]] = [
        (f"{dirs[1]}/", "t", 0),
        (dirs[1], "t", 7),
        (dirs[1], "u", 0),
    ]
    assert [move(s, *one) for one in asked] == [NO_DIR, 3, 3]
    assert is_only_in(s, "one")


def test_a_replica_in_a_move_is_there_after_a_stop_and_moves_on(
    processes: Processes, dirs: tuple[Path, Path]
) -> None:
    running = start(processes, *dirs)
    s = Session(running.ready, "moving")
    s.create("t")
    for _ in range(5):
        s.fill("t", 5, 20)
    throttle(s, "1000")
    assert move(s, dirs[1], "t") == 0
    s.close()
    assert running.end() == 0
    s = Session(start(processes, *dirs).ready, "moving")
    assert set(replicas(s)) == {"one", "two"}
    assert replicas(s)["two"]["IsFutureKey"]
    throttle(s, None)
    eventually(lambda: is_only_in(s, "two"))
    assert s.list_offset("t", -1)["Offset"] == 500
    s.close()


def test_the_command_moves_a_replica_and_shows_where_it_is(
    processes: Processes, dirs: tuple[Path, Path]
) -> None:
    running = start(processes, *dirs)
    s = Session(running.ready, "moving")
    s.create("t")
    s.fill("t")
    words = ("cluster", "move-log-dir", "t", "--broker", str(s.broker_id()), "-b", running.ready)
    for path in dirs[::-1]:
        done = told(*words, "--to", str(path), "--wait", "30", "--json")
        row = {"topic": "t", "partition": 0, "directory": str(path), "to": None, "lag": None}
        assert json.loads(done.stdout) == [row]
        assert is_only_in(s, path.name)
    assert str(dirs[0]) in told(*words).stdout
    refused = told(*words, "--to", "/no/such/directory")
    assert refused.returncode != 0
    assert "LOG_DIR_NOT_FOUND" in refused.stderr
    s.close()


class Load(threading.Thread):
    """Sends numbers, a hundred under way, until it has to end; keeps the offsets."""

    def __init__(self, address: str, first: int, acknowledged: dict[int, int]) -> None:
        super().__init__()
        settings = {"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0}
        self.producer = Producer(settings)
        self.next, self.acknowledged = first, acknowledged
        self.ends = threading.Event()

    def _answered(self, error: object, message: Message) -> None:
        value, offset = message.value(), message.offset()
        if not error and value is not None and offset is not None:
            self.acknowledged[int(value)] = offset

    def run(self) -> None:
        """Send one number after the other."""
        while not self.ends.is_set():
            if len(self.producer) < 100:
                value = f"{self.next:0400}"
                self.producer.produce("t", value, partition=0, on_delivery=self._answered)
                self.next += 1
            self.producer.poll(0.001)
        self.producer.flush(1)

    def end(self) -> None:
        """Send no more, and forget what is under way."""
        self.ends.set()
        ended(self)


def stored(address: str) -> dict[int, int]:
    """The offsets of all numbers in the topic."""
    table = kafkalite.read("t", bootstrap_servers=address, columns=["offset", "value"]).to_arrow()
    values = zip(table["value"].to_pylist(), table["offset"].to_pylist(), strict=True)
    return {int(value): offset for value, offset in values if len(value) == 400}


def move_to_the_other(address: str, dirs: tuple[Path, Path], wait: bool) -> None:
    """Have the replica move to the directory that it is not in."""
    s = Session(address, "moving")
    target = "one" if "two" in replicas(s) else "two"
    assert move(s, dirs[0].parent / target, "t") == 0
    if wait:
        eventually(lambda: is_only_in(s, target))
    s.close()


def has_more(acknowledged: dict[int, int], count: int) -> None:
    """Wait until so many more are acknowledged."""
    wanted = len(acknowledged) + count
    eventually(lambda: len(acknowledged) >= wanted)


def test_no_kill_in_a_move_loses_an_acknowledged_record(
    processes: Processes, dirs: tuple[Path, Path]
) -> None:
    running = start(processes, *dirs)
    s = Session(running.ready, "moving")
    s.create("t")
    for _ in range(10):
        s.fill("t", 10, 1_000)
    s.close()
    acknowledged: dict[int, int] = {}
    first = 1
    for moves_before_the_kill in range(6):
        load = Load(running.ready, first, acknowledged)
        load.start()
        for _ in range(moves_before_the_kill):
            move_to_the_other(running.ready, dirs, wait=True)
        has_more(acknowledged, 20)
        move_to_the_other(running.ready, dirs, wait=False)
        running.end(signal.SIGKILL)
        load.end()
        first = load.next + 1
        running = start(processes, *dirs)
        found = stored(running.ready)
        assert {value: found.get(value) for value in acknowledged} == acknowledged
    s = Session(running.ready, "moving")
    eventually(lambda: len(replicas(s)) == 1)
    s.close()


def test_leaders_and_followers_of_a_cluster_move(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, {"min.insync.replicas": "2"})
    try:
        for number, place in ((number, tmp_path / str(number)) for number in (1, 2, 3)):
            cluster.config["log.dirs"] = f"{place}/data,{place}/more"
            cluster.add(number)
        eventually(cluster.is_whole)
        admin = kafkalite.AdminClient(bootstrap_servers=cluster.bootstrap)
        admin.create_topics([kafkalite.NewTopic("t", partitions=1, replication_factor=3)])
        acknowledged: dict[int, int] = {}
        load = Load(cluster.bootstrap, 1, acknowledged)
        load.start()

        def places() -> dict[int, list[tuple[str, bool]]]:
            return {
                broker: sorted(
                    (Path(one.path).name, replica.future)
                    for one in told
                    for replica in one.replicas
                    if replica.partition == ("t", 0)
                )
                for broker, told in admin.describe_log_dirs().items()
            }

        def move_all() -> None:
            other = {"data": "more", "more": "data"}
            targets = {broker: other[found[0][0]] for broker, found in places().items()}
            admin.alter_replica_log_dirs(
                {("t", 0, broker): tmp_path / str(broker) / to for broker, to in targets.items()}
            )
            wanted = {broker: [(to, False)] for broker, to in targets.items()}
            eventually(lambda: places() == wanted)

        for _ in range(2):
            has_more(acknowledged, 50)
            move_all()
        has_more(acknowledged, 50)
        load.end()
        found = stored(cluster.bootstrap)
        assert {value: found.get(value) for value in acknowledged} == acknowledged
        admin.close()
    finally:
        cluster.close()
