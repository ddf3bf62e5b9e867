"""A Kafka to ask: ours, or any other that speaks at the same address."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

import kafkalite as kl
from tests.harness.process import Process

_numbers = itertools.count()


@pytest.fixture(scope="session")
def kafkalite_bootstrap(broker: Process) -> str:
    """``HOST:PORT`` of the cluster that the tests of clients ask."""
    return broker.ready


@pytest.fixture
def admin(kafkalite_bootstrap: str) -> Iterator[kl.AdminClient]:
    """An admin client of that cluster."""
    with kl.AdminClient(bootstrap_servers=kafkalite_bootstrap) as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test has, for topics and groups."""
    return f"t-{os.getpid()}-{next(_numbers)}"
