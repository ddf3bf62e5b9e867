"""A data directory of the first release's bytes opens, and its clients see what they saw.

``tests/golden/data_dir.py`` made it and says what is in it.
"""

from __future__ import annotations

import json
import signal
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.golden.data_dir import ARCHIVE, SEEN, Sent, observe, serve
from tests.harness.process import Processes
from tests.harness.requests import producer
from tests.harness.session import Session


def opened(name: str, tmp_path: Path) -> tuple[Path, dict[str, Any], Sent]:
    """A fresh copy of the directory, what was seen of it, and its idempotent producers."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    seen = json.loads(SEEN.read_text())[name]
    sent = seen.pop("sent")
    return tmp_path / name, seen, sent


@pytest.mark.parametrize("name", ["stopped", "killed"])
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["stop", "kill"])
def test_clients_see_the_same_after_each_of_three_starts(
    processes: Processes, tmp_path: Path, name: str, end: signal.Signals
) -> None:
    directory, seen, _ = opened(name, tmp_path)
    for restarts in (1, 2, 3):
        running = serve(processes, directory)
        assert observe(running.ready, restarts) == seen
        running.end(end)


@pytest.mark.parametrize("name", ["stopped", "killed"])
def test_the_last_batch_of_each_producer_is_known_when_it_comes_again(
    processes: Processes, tmp_path: Path, name: str
) -> None:
    directory, seen, sent = opened(name, tmp_path)
    running = serve(processes, directory)
    with closing(Session(running.ready, "again")) as session:
        for one in sent.values():
            answer = session.produce("sequences", bytes.fromhex(one["batch"]))
            assert (answer["ErrorCode"], answer["BaseOffset"]) == (0, one["base_offset"])
    assert observe(running.ready, 1) == seen


@pytest.mark.parametrize("name", ["stopped", "killed"])
def test_a_producer_id_of_before_is_not_given_again(
    processes: Processes, tmp_path: Path, name: str
) -> None:
    directory, seen, _ = opened(name, tmp_path)
    running = serve(processes, directory)
    (partition,) = seen["topics"]["sequences"]["partitions"]
    given = max(one["ProducerId"] for one in partition["producers"])
    with closing(Session(running.ready, "ids")) as session:
        assert producer(session)[0] > given
