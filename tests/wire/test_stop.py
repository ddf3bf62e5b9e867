"""What waits when the broker stops is answered or its connection closes; nothing is invented."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.process import Processes
from tests.harness.session import Session
from tests.harness.wire.batches import simple
from tests.harness.wire.connection import Closed
from tests.wire.conftest import form_groups


def fetch_for_a_minute(s: Session) -> tuple[str, int]:
    """A fetch of an empty partition that waits for a record."""
    part = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20}
    topics = [{"Topic": "t", "Partitions": [part]}]
    body = {"MaxWaitMs": 60_000, "MinBytes": 1, "MaxBytes": 1 << 20, "Topics": topics}
    s.open.send("Fetch", 11, body)
    return "Fetch", 11


def join_for_a_minute(s: Session) -> tuple[str, int]:
    """The first member of a group, which waits for others."""
    member = {
        "GroupId": "g", "SessionTimeoutMs": 30_000, "RebalanceTimeoutMs": 60_000, "MemberId": "",
        "ProtocolType": "consumer", "Protocols": [{"Name": "range", "Metadata": b""}],
    }  # fmt: skip
    s.open.send("JoinGroup", 3, member)
    return "JoinGroup", 3


@pytest.mark.parametrize("park", [fetch_for_a_minute, join_for_a_minute])
def test_a_request_that_waits_ends_with_the_broker(
    processes: Processes, tmp_path: Path, park: Callable[[Session], tuple[str, int]]
) -> None:
    words = ["--set", "group.initial.rebalance.delay.ms=60000"]
    running = processes.serve(*words, data_dir=tmp_path / "data")
    form_groups(running.ready)
    s = Session(running.ready, "stop")
    s.create("t")
    api, version = park(s)
    running.popen.send_signal(signal.SIGTERM)
    try:
        answer = s.open.receive(api, version)
        parts = [part for topic in answer.get("Responses", ()) for part in topic["Partitions"]]
        assert answer["ErrorCode"] or not any(part["Records"] for part in parts)
    except Closed:
        pass
    s.close()
    assert running.wait() == 0


def test_a_produce_that_was_acknowledged_is_there_after_the_stop(
    processes: Processes, tmp_path: Path
) -> None:
    """SIGTERM falls into a stream of produces; none that was answered is missing."""
    running = processes.serve(data_dir=tmp_path / "data")
    s = Session(running.ready, "stream")
    s.create("t")
    acknowledged = 0
    try:
        for number in range(100_000):
            if number == 200:
                running.popen.send_signal(signal.SIGTERM)
            answer = s.produce("t", simple(b"x"))
            if answer["ErrorCode"] == 0:
                acknowledged = answer["BaseOffset"] + 1
    except Closed:
        pass
    s.close()
    assert running.wait() == 0
    assert acknowledged >= 200
    again = processes.serve(data_dir=tmp_path / "data")
    s = Session(again.ready, "again")
    assert s.list_offset("t", -1)["Offset"] >= acknowledged
    s.close()
