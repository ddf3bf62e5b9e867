"""A live broker for the tests of clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.consumer.consuming import Cluster
from tests.harness.process import Process, Processes


@pytest.fixture(scope="session")
def cluster(broker: Process) -> Cluster:
    """The broker that all tests share."""
    return Cluster(broker.ready)


@pytest.fixture(scope="module")
def quick_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A broker of a file of tests alone that lets sessions be short."""
    started = Processes(tmp_path_factory.mktemp("groups"))
    yield started.serve("--profile", "dev", "--set", "group.min.session.timeout.ms=100")
    started.close()


@pytest.fixture(scope="module")
def quick(quick_broker: Process) -> Cluster:
    """What clients know of it."""
    return Cluster(quick_broker.ready)
