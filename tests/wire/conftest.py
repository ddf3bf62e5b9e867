"""A live broker for the wire tests, spoken to from outside by a raw connection."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.harness.brokers import SUITE_CONFIG
from tests.harness.process import Processes
from tests.harness.session import Session
from tests.harness.wire.connection import Connection

_numbers = itertools.count()


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``HOST:PORT`` of one broker, configured like the one whose answers were recorded."""
    started = Processes(tmp_path_factory.mktemp("wire"))
    settings = [word for key, value in SUITE_CONFIG.items() for word in ("--set", f"{key}={value}")]
    running = started.serve(*settings)
    form_groups(running.ready)
    yield running.ready
    started.close()


def form_groups(address: str) -> None:
    """Have the groups' topic created and loaded, as a client does that looks for a coordinator."""
    with Connection(address) as connection:
        connection.call("FindCoordinator", 2, {"Key": "any", "KeyType": 0})
        while connection.call("DescribeGroups", 0, {"Groups": ["any"]})["Groups"][0]["ErrorCode"]:
            pass


@pytest.fixture
def s(address: str) -> Iterator[Session]:
    """A connection of this test's own, with names of this test only."""
    session = Session(address, f"wire-{next(_numbers)}")
    yield session
    session.close()
