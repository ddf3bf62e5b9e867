"""Several directories in log.dirs: spread, found again, lost and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.process import Processes
from tests.harness.session import Session

STORAGE_ERROR = 56


def dirs_of(s: Session) -> dict[str, tuple[int, set[str]]]:
    """Each log directory's last name, its error, and the partitions in it."""
    results = s.call("DescribeLogDirs", 4, Topics=None)["Results"]
    return {
        Path(one["LogDir"]).name: (
            one["ErrorCode"],
            {
                f"{topic['Name']}-{part['PartitionIndex']}"
                for topic in one["Topics"]
                for part in topic["Partitions"]
            },
        )
        for one in results
    }


@contextmanager
def broker(processes: Processes, *dirs: Path) -> Iterator[Session]:
    """A broker over these directories, until the block ends."""
    listed = ",".join(map(str, dirs))
    words = ["serve", "--listen", "127.0.0.1:0", "--admin-port", "0", "--set", f"log.dirs={listed}"]
    running = processes.start(*words).wait_ready()
    session = Session(running.ready, "dirs")
    try:
        yield session
    finally:
        session.close()
        running.end()


@pytest.fixture
def filled(processes: Processes, tmp_path: Path) -> tuple[Path, Path]:
    """Two directories with a topic of four partitions, nine records in each."""
    dirs = tmp_path / "one", tmp_path / "two"
    with broker(processes, *dirs) as s:
        s.create("t", 4)
        for partition in range(4):
            s.fill("t", partition=partition)
    return dirs


def ends(s: Session) -> list[tuple[int, int]]:
    """Error and end of the four partitions."""
    asked = [{"PartitionIndex": index, "Timestamp": -1} for index in range(4)]
    topics = [{"Name": "t", "Partitions": asked}]
    answer = s.call("ListOffsets", 7, ReplicaId=-1, Topics=topics)
    return [(one["ErrorCode"], one["Offset"]) for one in answer["Topics"][0]["Partitions"]]


def test_new_partitions_go_where_the_fewest_are(
    processes: Processes, filled: tuple[Path, Path], tmp_path: Path
) -> None:
    with broker(processes, *filled, tmp_path / "three") as s:
        assert [len(there) for _, there in dirs_of(s).values()] == [2, 2, 0]
        s.create("u", 3)
        assert [len(there) for _, there in dirs_of(s).values()] == [3, 2, 2]
        s.create("v", 2)
        assert [len(there) for _, there in dirs_of(s).values()] == [3, 3, 3]


def test_partitions_are_found_in_all_directories(
    processes: Processes, filled: tuple[Path, Path]
) -> None:
    for dirs in (filled, filled):
        with broker(processes, *dirs) as s:
            assert ends(s) == [(0, 9)] * 4
            there = dirs_of(s)
            assert there["one"][1] | there["two"][1] == {f"t-{index}" for index in range(4)}


@pytest.mark.parametrize("how", ["its disk fails", "it is not in log.dirs"])
def test_partitions_of_a_lost_directory_are_an_error_and_never_empty(
    processes: Processes, filled: tuple[Path, Path], how: str
) -> None:
    """They were created again, from offset 0, and consumers lost their offsets."""
    one, two = filled
    away = two.rename(two.with_name("away"))
    given = [one]
    if how == "its disk fails":
        two.write_text("a file where the directory was")
        given.append(two)
    for _ in range(2):
        with broker(processes, *given) as s:
            assert sorted(ends(s)) == [(0, 9)] * 2 + [(STORAGE_ERROR, -1)] * 2
            s.create("new", 2)
            s.fill("new", partition=1)
            told = dirs_of(s)
            assert told["one"] == (0, {"new-0", "new-1", *told["one"][1]})
            if how == "its disk fails":
                assert told["two"] == (STORAGE_ERROR, set())
            s.call("DeleteTopics", 5, TopicNames=["new"], TimeoutMs=1000)
    two.unlink(missing_ok=True)
    away.rename(two)
    with broker(processes, one, two) as s:
        assert ends(s) == [(0, 9)] * 4


def test_of_a_partition_in_two_directories_the_one_that_was_served_counts(
    processes: Processes, filled: tuple[Path, Path]
) -> None:
    one, two = filled
    (there,) = [path for path in (one / "t-0", two / "t-0") if path.exists()]
    other = (two if there.parent == one else one) / "t-0"
    other.mkdir()
    for file in there.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    with broker(processes, one, two) as s:
        assert ends(s) == [(0, 9)] * 4
        assert "t-0" in dirs_of(s)[there.parent.name][1]
    assert there.exists()
    assert not other.exists()
    assert other.with_name("t-0.unused-stray").exists(), "no copy is deleted"


def test_a_directory_of_another_cluster_is_refused(
    processes: Processes, filled: tuple[Path, Path], tmp_path: Path
) -> None:
    with broker(processes, tmp_path / "other"):
        pass
    listed = f"{filled[0]},{tmp_path / 'other'}"
    refused = processes.start("serve", "--listen", "127.0.0.1:0", "--set", f"log.dirs={listed}")
    assert refused.wait() == 1
    assert "belongs to cluster" in refused.stderr


def test_a_directory_that_another_broker_has_is_refused(
    processes: Processes, filled: tuple[Path, Path], tmp_path: Path
) -> None:
    with broker(processes, filled[0]):
        listed = f"{tmp_path / 'new'},{filled[0]}"
        refused = processes.start("serve", "--listen", "127.0.0.1:0", "--set", f"log.dirs={listed}")
        assert refused.wait() == 1
        assert "locked" in refused.stderr
