"""A live broker for the tests of clients."""

from __future__ import annotations

import pytest

from tests.client.consuming import Cluster
from tests.conftest import Process


@pytest.fixture(scope="session")
def cluster(broker: Process) -> Cluster:
    """The broker that all tests share."""
    return Cluster(broker.ready)
