"""Leader epochs of before a restart: stale for who still believes in them, and still in the log.

Each start of the broker begins a new epoch of every partition, so that one (epoch, offset) never
names two records. A client finds out by FENCED_LEADER_EPOCH, and asks where the old epoch ended.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.harness.process import Processes
from tests.harness.requests import epoch_end
from tests.harness.session import Session
from tests.harness.wire.batches import Batch, Record

#: The epoch in a request after one restart: any, the old one, the one that holds, one to come.
BELIEVED = {-1: 0, 0: 74, 1: 0, 2: 75, 99: 75}

TOPIC = "epochs"


@pytest.fixture(scope="module", params=[signal.SIGTERM, signal.SIGKILL], ids=["stop", "kill"])
def restarted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    """A session with a broker that started again: offsets 0-8 are of epoch 0, 9-10 of epoch 1."""
    directory = tmp_path_factory.mktemp("epochs")
    started = Processes(directory)
    before = started.serve(data_dir=directory / "data")
    session = Session(before.ready, "before")
    session.create(TOPIC)
    session.fill(TOPIC)
    session.close()
    before.end(request.param)
    after = started.serve(data_dir=directory / "data")
    session = Session(after.ready, "after")
    two = Batch((Record(b"9"), Record(b"10"))).encode()
    assert session.produce(TOPIC, two)["BaseOffset"] == 9
    yield session
    session.close()
    started.close()


def test_metadata_tells_the_new_epoch(restarted: Session) -> None:
    (partition,) = restarted.metadata(TOPIC)["Partitions"]
    assert partition["LeaderEpoch"] == 1


@pytest.mark.parametrize(("epoch", "error"), BELIEVED.items())
def test_a_fetch_is_fenced_by_epoch(restarted: Session, epoch: int, error: int) -> None:
    answer = restarted.fetch(TOPIC, 3, version=11, part={"CurrentLeaderEpoch": epoch})
    (partition,) = answer["Responses"][0]["Partitions"]
    assert partition["ErrorCode"] == error
    assert bool(partition["Records"]) == (error == 0)


def test_a_fenced_fetch_gets_the_leader(restarted: Session) -> None:
    answer = restarted.fetch(TOPIC, 3, version=16, part={"CurrentLeaderEpoch": 0})
    (partition,) = answer["Responses"][0]["Partitions"]
    leader = {"LeaderId": restarted.broker_id(), "LeaderEpoch": 1}
    assert partition["CurrentLeader"] == leader


@pytest.mark.parametrize("timestamp", [-1, -2, -3, 1_700_000_000_000])
@pytest.mark.parametrize(("epoch", "error"), BELIEVED.items())
def test_list_offsets_is_fenced_by_epoch(
    restarted: Session, epoch: int, error: int, timestamp: int
) -> None:
    answer = restarted.list_offset(TOPIC, timestamp, part={"CurrentLeaderEpoch": epoch})
    assert answer["ErrorCode"] == error


@pytest.mark.parametrize(("timestamp", "found"), [(-2, (0, 0)), (-1, (11, 1))])
def test_list_offsets_tells_the_epoch_of_what_it_found(
    restarted: Session, timestamp: int, found: tuple[int, int]
) -> None:
    answer = restarted.list_offset(TOPIC, timestamp, version=9)
    assert (answer["Offset"], answer["LeaderEpoch"]) == found


@pytest.mark.parametrize(("epoch", "error"), BELIEVED.items())
def test_offset_for_leader_epoch_is_fenced_by_epoch(
    restarted: Session, epoch: int, error: int
) -> None:
    answer = epoch_end(restarted, TOPIC, 0, current=epoch)
    (partition,) = answer["Topics"][0]["Partitions"]
    assert partition["ErrorCode"] == error


@pytest.mark.parametrize(("epoch", "end"), [(0, (0, 9)), (1, (1, 11)), (2, (-1, -1))])
def test_an_old_epoch_ends_where_the_restart_was(
    restarted: Session, epoch: int, end: tuple[int, int]
) -> None:
    (partition,) = epoch_end(restarted, TOPIC, epoch)["Topics"][0]["Partitions"]
    assert (partition["LeaderEpoch"], partition["EndOffset"]) == end


@pytest.mark.parametrize(
    ("last", "offset", "diverging"),
    [
        (0, 9, {}),
        (1, 11, {}),
        (0, 10, {"Epoch": 0, "EndOffset": 9}),
        (0, 11, {"Epoch": 0, "EndOffset": 9}),
    ],
)
def test_a_fetch_beyond_the_end_of_its_epoch_diverges(
    restarted: Session, last: int, offset: int, diverging: dict[str, int]
) -> None:
    part = {"CurrentLeaderEpoch": 1, "LastFetchedEpoch": last}
    answer = restarted.fetch(TOPIC, offset, version=12, part=part)
    (partition,) = answer["Responses"][0]["Partitions"]
    assert partition["DivergingEpoch"] == diverging
