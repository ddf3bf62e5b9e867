"""Options and fixtures of the conformance suites.

``--broker=kafkalite`` (default), ``kafka`` or ``HOST:PORT`` says who is judged; ``--slice`` takes
the bounded counts of ``budget.py`` instead of the full ones.
"""

from __future__ import annotations

import itertools
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.budget import Budget
from tests.harness import brokers, places

_names = itertools.count()
#: So that two runs against the same external broker do not meet.
_RUN = uuid.uuid4().hex[:4]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options all suites share."""
    group = parser.getgroup("conformance")
    group.addoption("--broker", default="kafkalite", help="kafkalite, kafka or HOST:PORT")
    group.addoption("--slice", action="store_true", help="bounded counts, for CI")
    group.addoption("--set-budget", action="append", default=[], metavar="NAME=N",
                    help="override one count of budget.py")  # fmt: skip
    group.addoption("--kgo-rounds", type=int, default=None, help="runs of franz-go's tests")


@pytest.fixture(scope="session")
def budget(request: pytest.FixtureRequest) -> Budget:
    """How much of everything this run does."""
    chosen = Budget.slice() if request.config.getoption("--slice") else Budget.full()
    for setting in request.config.getoption("--set-budget"):
        name, _, value = setting.partition("=")
        chosen = chosen.with_value(name, value)
    rounds = request.config.getoption("--kgo-rounds")
    return chosen if rounds is None else chosen.with_value("kgo_rounds", str(rounds))


@pytest.fixture(scope="session")
def broker_kind(request: pytest.FixtureRequest) -> str:
    """Who is judged."""
    return str(request.config.getoption("--broker"))


@pytest.fixture(scope="session")
def broker(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[brokers.Broker]:
    """One broker for all tests that need nothing special of it."""
    running = brokers.make(broker_kind, tmp_path_factory.mktemp("shared") / "data")
    running.start()
    yield running
    running.stop()
    brokers.remove_data(running)


@pytest.fixture
def own_broker(
    broker_kind: str, tmp_path: Path
) -> Iterator[Callable[[dict[str, str] | None], brokers.Broker]]:
    """Starts brokers that this test alone uses, and may kill."""
    made: list[brokers.Broker] = []

    def start(config: dict[str, str] | None = None) -> brokers.Broker:
        one = brokers.make(broker_kind, tmp_path / f"own{len(made)}" / "data", config)
        if not one.can_restart:
            pytest.skip("an external broker cannot be killed or configured from here")
        one.data_dir.parent.mkdir()
        one.start()
        made.append(one)
        return one

    yield start
    for one in made:
        one.kill()
        brokers.remove_data(one)


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Names that no other test of this run uses."""
    return lambda prefix: f"{prefix}-{_RUN}-{next(_names)}"


@pytest.fixture(scope="session")
def kcat() -> str:
    """The kcat binary, or a skip that says what to install."""
    found = shutil.which("kcat")
    if found is None:
        pytest.skip("kcat is missing: python tests/conformance/prerequisites.py --install")
    return found


@pytest.fixture(scope="session")
def jars() -> Path:
    """The folder of Kafka's jars, with a JDK beside it; or a skip."""
    if places.java() is None or not places.clients_jar().exists():
        pytest.skip("JDK or jars missing: python tests/conformance/prerequisites.py --install")
    return places.JARS


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[object]) -> None:
    """Print the broker's last lines under a test that failed."""
    if call.when == "call" and call.excinfo is not None and "broker" in item.fixturenames:
        running = item.funcargs.get("broker")  # type: ignore[attr-defined]
        if isinstance(running, brokers.Broker) and not call.excinfo.errisinstance(
            pytest.skip.Exception
        ):
            item.add_report_section("call", "broker output", running.tail())
