"""InitProducerId (22): ids for idempotent producers."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.harness.process import Processes
from tests.harness.requests import batch, producer
from tests.harness.session import Session
from tests.harness.wire.versions import edges


@pytest.mark.parametrize("version", edges("InitProducerId"))
def test_every_call_gets_an_id_of_its_own_in_version(s: Session, version: int) -> None:
    first, second = producer(s, version), producer(s, version)
    assert first[0] != second[0]
    assert first[1] == second[1] == 0


def test_two_connections_get_different_ids(s: Session) -> None:
    body = {"TransactionalId": None, "TransactionTimeoutMs": 1000}
    other = s.another().call("InitProducerId", 4, body)
    assert other["ProducerId"] != producer(s)[0]


def test_an_empty_transactional_id_is_refused(s: Session) -> None:
    answer = s.call("InitProducerId", 4, TransactionalId="", TransactionTimeoutMs=1000)
    assert answer["ErrorCode"] == 42


def test_an_id_that_the_client_brings_is_replaced(s: Session) -> None:
    pid, epoch = producer(s)
    body = {"TransactionTimeoutMs": 1000, "ProducerId": pid, "ProducerEpoch": epoch}
    answer = s.call("InitProducerId", 4, TransactionalId=None, **body)
    assert (answer["ErrorCode"], answer["ProducerEpoch"]) == (0, 0)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_ids_that_copied_segments_hold_are_never_given_out(
    processes: Processes, tmp_path: Path, end: signal.Signals
) -> None:
    """Ids start from zero in every cluster, so a copied log may hold those that come next here.

    A new producer with such an id was taken for the old one. Its first batch was out of order, or
    worse, "in the log already" and not stored.
    """
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    with Served(processes, theirs) as s:
        s.create("copied")
        for pid in (3, 5_000, 2**63 - 1):
            assert s.produce("copied", batch(pid, 0, 0, 3))["ErrorCode"] == 0
    with Served(processes, ours, end) as s:
        s.create("copied")
    for file in (theirs / "copied-0").iterdir():
        if file.name != "partition.metadata":
            shutil.copy(file, ours / "copied-0")
    with Served(processes, ours) as s:
        given = [producer(s)[0] for _ in range(3)]
        assert given == [5_001, 5_002, 5_003]
        assert s.produce("copied", batch(given[0], 0, 0))["ErrorCode"] == 0
        assert s.list_offset("copied", -1)["Offset"] == 10
    with Served(processes, ours) as s:
        assert producer(s)[0] > 5_003, "a restart gives none of them again"


class Served:
    """A broker over a data directory, and a session with it."""

    def __init__(
        self, processes: Processes, data_dir: Path, end: signal.Signals = signal.SIGTERM
    ) -> None:
        self._running = processes.serve(data_dir=data_dir)
        self._session = Session(self._running.ready, "served")
        self._end = end

    def __enter__(self) -> Session:
        return self._session

    def __exit__(self, *_: object) -> None:
        self._session.close()
        self._running.end(self._end)
