"""The pytest plugin: a real broker for tests, ready in milliseconds.

Nothing but pytest is imported until a fixture is used. ``--kafkalite-external=HOST:PORT``
runs the same tests against a Kafka that runs already.

===========================  ========  ====================================================
fixture                      scope     what it is
===========================  ========  ====================================================
``kafkalite_broker``         session   a broker in this process; each xdist worker has its own
``kafkalite_topic``          function  the name of a fresh topic, deleted afterwards
``kafkalite_producer``       function  a producer
``kafkalite_consumer``       function  a consumer of that topic, in a fresh group
``kafkalite_admin``          function  an admin client
``kafkalite_async_*``        function  ``producer``, ``consumer`` and ``admin`` for asyncio
``kafkalite_faults``          function  ``kafkalite_broker.faults``; removed after the test
``kafkalite_fork``           function  a broker of its own for each test, a fork of a seeded one
``kafkalite_seed``           session   override it: a function that fills the seeded broker
``kafkalite_broker_options``  session  override it: keywords for the broker
``kafkalite_cluster``        session   three brokers that replicate; a test that kills or divides
                                       them starts and heals them again
``kafkalite_cluster_options``  session  override it: keywords for the cluster
===========================  ========  ====================================================

``@pytest.mark.kafkalite_topic(partitions=3, config={...})`` says what the topic is like.
A fork and the brokers of a cluster have faults of their own.
A failed test that used the broker or a fork gets more sections: the tail of the log, and the last
requests. Each request has its time in every stage. Requests that failed or have no answer follow,
and why the clients that are connected wait. A test that used the cluster gets the logs, and why
clients wait.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from .admin import AdminClient
    from .aio.admin import AsyncAdminClient
    from .aio.consumer import AsyncConsumer
    from .aio.producer import AsyncProducer
    from .broker import Broker
    from .cluster import Cluster
    from .consumer import Consumer
    from .faults import Faults
    from .producer import Producer
    from .recording import Recording
    from .snapshots import Snapshot

_BROKER = pytest.StashKey["Broker"]()
#: The requests of the test that runs.
_RECORDING = pytest.StashKey["Recording | None"]()
_CLUSTER = pytest.StashKey["Cluster"]()
#: The fork of a test, and the requests to it.
_FORK = pytest.StashKey["tuple[Broker, Recording | None]"]()
#: When a test began, on the monotonic clock.
_BEGAN = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the one option."""
    group = parser.getgroup("kafkalite", "a Kafka broker for tests")
    group.addoption(
        "--kafkalite-external",
        metavar="HOST:PORT",
        help="Address of a running Kafka to use instead of a new broker.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "kafkalite_topic(partitions=1, config=None): what the topic of kafkalite_topic is like",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Show the address of an external broker."""
    external = config.getoption("kafkalite_external")
    return f"kafkalite: external broker {external}" if external else None


@pytest.fixture(scope="session")
def kafkalite_broker_options() -> dict[str, Any]:
    """Return keywords for ``Broker``; override it to change the session's broker."""
    return {}


@pytest.fixture(scope="session")
def kafkalite_broker(
    pytestconfig: pytest.Config, kafkalite_broker_options: dict[str, Any]
) -> Iterator[Broker]:
    """Run a broker for the session, or name the external one."""
    external = pytestconfig.getoption("kafkalite_external")
    if external:
        from .external_broker import ExternalBroker

        yield ExternalBroker(external)
        return
    from .broker import Broker

    options: dict[str, Any] = {"log_level": "info"} | kafkalite_broker_options
    if not options.get("in_process", True):
        # Over it a failed test asks for the last requests.
        options = {"admin_port": 0} | options
    with Broker(**options) as broker:
        pytestconfig.stash[_BROKER] = broker
        pytestconfig.stash[_RECORDING] = _recorded(broker)
        yield broker
        del pytestconfig.stash[_BROKER]


@pytest.fixture(scope="session")
def kafkalite_cluster_options() -> dict[str, Any]:
    """Return keywords for ``Cluster``; override it to change the session's cluster."""
    return {}


@pytest.fixture(scope="session")
def kafkalite_cluster(
    pytestconfig: pytest.Config, kafkalite_cluster_options: dict[str, Any]
) -> Iterator[Cluster]:
    """Run a cluster of three brokers for the session, or name the external one."""
    external = pytestconfig.getoption("kafkalite_external")
    if external:
        from .external_broker import ExternalCluster

        yield ExternalCluster(external)
        return
    from .cluster import Cluster

    with Cluster(**({"log_level": "info"} | kafkalite_cluster_options)) as cluster:
        pytestconfig.stash[_CLUSTER] = cluster
        yield cluster
        del pytestconfig.stash[_CLUSTER]


@pytest.fixture(scope="session")
def _kafkalite_session_admin(kafkalite_broker: Broker) -> Iterator[AdminClient]:
    """Make and delete topics: one client for all tests, because each costs a thread."""
    from .admin import AdminClient

    with AdminClient(bootstrap_servers=kafkalite_broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def kafkalite_topic(
    request: pytest.FixtureRequest, _kafkalite_session_admin: AdminClient
) -> Iterator[str]:
    """Create a topic with a fresh name, and delete it afterwards."""
    marker = request.node.get_closest_marker("kafkalite_topic")
    wishes: dict[str, Any] = {"partitions": 1} | (marker.kwargs if marker else {})
    name = _fresh(request.node.name)
    _kafkalite_session_admin.create_topic(name, **wishes)
    yield name
    _delete(_kafkalite_session_admin, name)


def _delete(admin: AdminClient, name: str) -> None:
    from .errors import KafkaliteError, UnknownTopicError

    try:
        admin.delete_topic(name)
    except UnknownTopicError:
        pass  # The test did it.
    except KafkaliteError as error:
        # A test that killed the broker has said what it has to say; the topic goes with it.
        import warnings

        warnings.warn(pytest.PytestWarning(f"topic {name} stays: {error}"), stacklevel=1)


def _fresh(test: str) -> str:
    """Return a name that no other test, worker or run has; at most 249 characters."""
    import re
    import uuid

    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", test).strip("-")[:60]
    return f"{readable or 'test'}-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def kafkalite_faults(kafkalite_broker: Broker) -> Iterator[Faults]:
    """Return the faults of the session's broker; those that a test adds end with the test."""
    faults = kafkalite_broker.faults
    faults.clear()
    yield faults
    # A test that ended the broker has ended its faults.
    if kafkalite_broker._servers is not None:
        faults.clear()


@pytest.fixture(scope="session")
def kafkalite_seed() -> Callable[[Broker], object]:
    """Return what fills the broker that ``kafkalite_fork`` begins as; override it."""
    return lambda _: None


@pytest.fixture(scope="session")
def _kafkalite_seeded(
    pytestconfig: pytest.Config,
    kafkalite_broker_options: dict[str, Any],
    kafkalite_seed: Callable[[Broker], object],
) -> Iterator[tuple[Broker, Snapshot]]:
    """Fill a broker once for all tests of the session, and take a snapshot of it."""
    if pytestconfig.getoption("kafkalite_external"):
        pytest.skip("an external broker has no forks")
    from .broker import Broker

    options: dict[str, Any] = {"log_level": "info"} | kafkalite_broker_options
    if not options.get("in_process", True):
        # Over it a snapshot is taken.
        options = {"admin_port": 0} | options
    with Broker(**options) as broker:
        kafkalite_seed(broker)
        yield broker, broker.snapshot()


@pytest.fixture
def kafkalite_fork(
    request: pytest.FixtureRequest, _kafkalite_seeded: tuple[Broker, Snapshot]
) -> Iterator[Broker]:
    """Run a fork of the seeded broker; what the test does to it no other test sees."""
    seeded, snapshot = _kafkalite_seeded
    with seeded.fork(snapshot) as fork:
        request.node.stash[_FORK] = (fork, _recorded(fork))
        yield fork
        del request.node.stash[_FORK]


@pytest.fixture
def kafkalite_admin(kafkalite_broker: Broker) -> Iterator[AdminClient]:
    """Connect an admin client."""
    from .admin import AdminClient

    with AdminClient(bootstrap_servers=kafkalite_broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def kafkalite_producer(kafkalite_broker: Broker) -> Iterator[Producer]:
    """Connect a producer that sends at once."""
    from .producer import Producer

    servers = kafkalite_broker.bootstrap_servers
    with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        yield producer


@pytest.fixture
def kafkalite_consumer(
    request: pytest.FixtureRequest, kafkalite_broker: Broker, kafkalite_topic: str
) -> Iterator[Consumer]:
    """Subscribe a consumer to the test's topic, from its beginning, in a fresh group."""
    from .consumer import Consumer

    with Consumer(
        kafkalite_topic,
        group_id=_fresh(request.node.name),
        bootstrap_servers=kafkalite_broker.bootstrap_servers,
        auto_offset_reset="earliest",
    ) as consumer:
        yield consumer


# The fixtures for asyncio are no coroutines, so that they work with every plugin that runs tests in
# an event loop, and with `asyncio.run`. A client belongs to the loop that first uses it.


@pytest.fixture
def kafkalite_async_producer(kafkalite_broker: Broker) -> Iterator[AsyncProducer]:
    """Make a producer for asyncio that sends at once."""
    from .aio.producer import AsyncProducer

    servers = kafkalite_broker.bootstrap_servers
    producer = AsyncProducer(bootstrap_servers=servers, linger_ms=0)
    yield producer
    producer._end()


@pytest.fixture
def kafkalite_async_consumer(
    request: pytest.FixtureRequest, kafkalite_broker: Broker, kafkalite_topic: str
) -> Iterator[AsyncConsumer]:
    """Make a consumer for asyncio of the test's topic, from its beginning, in a fresh group."""
    from .aio.consumer import AsyncConsumer

    consumer = AsyncConsumer(
        kafkalite_topic,
        group_id=_fresh(request.node.name),
        bootstrap_servers=kafkalite_broker.bootstrap_servers,
        auto_offset_reset="earliest",
    )
    yield consumer
    consumer._end()


@pytest.fixture
def kafkalite_async_admin(kafkalite_broker: Broker) -> Iterator[AsyncAdminClient]:
    """Make an admin client for asyncio."""
    from .aio.admin import AsyncAdminClient

    admin = AsyncAdminClient(bootstrap_servers=kafkalite_broker.bootstrap_servers)
    yield admin
    admin._end()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note when the test began: its failure shows the requests from then on."""
    if "kafkalite_broker" in getattr(item, "fixturenames", ()):
        stash = item.config.stash
        if (broker := stash.get(_BROKER, None)) is not None:
            _end(stash.get(_RECORDING, None))
            stash[_RECORDING] = _recorded(broker)
        item.stash[_BEGAN] = time.monotonic()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the broker said and did to the report of a failure."""
    report = yield
    used = getattr(item, "fixturenames", ())
    if report.failed and "kafkalite_broker" in used:
        broker = item.config.stash.get(_BROKER, None)
        if broker is not None:
            began = item.stash.get(_BEGAN, None)
            recording = item.config.stash.get(_RECORDING, None)
            report.sections += _sections("kafkalite broker", broker, recording, began)
    if report.failed and (forked := item.stash.get(_FORK, None)) is not None:
        # It is as old as its test: all its requests are the test's.
        report.sections += _sections("kafkalite fork", *forked, None)
    if report.failed and "kafkalite_cluster" in used:
        cluster = item.config.stash.get(_CLUSTER, None)
        report.sections += _sections_of(cluster) if cluster is not None else []
    return report


def _sections_of(cluster: Cluster) -> list[tuple[str, str]]:
    """Return the last lines of every broker, and why its clients wait.

    Brokers in this process have one log in common.
    """
    from .explaining import for_failure as explained

    tails = dict.fromkeys("\n".join(broker.log_tail(40)) for broker in cluster.brokers)
    found = [("kafkalite cluster log, last lines", tail) for tail in tails]
    for number, broker in enumerate(cluster.brokers):
        title = f"kafkalite cluster, why clients of broker {number} wait"
        found.append((title, explained(broker)))
    return [(title, text) for title, text in found if text]


#: Requests of a test that are kept for its failure.
_KEPT_REQUESTS = 10_000


def _recorded(broker: Broker) -> Recording | None:
    """Begin to record the requests of a test; ``None`` if the broker is not under test."""
    from .errors import KafkaliteError

    try:
        return broker.record(limit=_KEPT_REQUESTS)
    except KafkaliteError:
        return None


def _end(recording: Recording | None) -> None:
    """Remove the recording of a test that is over."""
    from .errors import KafkaliteError

    with contextlib.suppress(KafkaliteError):
        # A test may have ended the broker, and its recordings with it.
        if recording is not None:
            recording.discard()


def _sections(
    name: str, broker: Broker, recording: Recording | None, began: float | None
) -> list[tuple[str, str]]:
    from .explaining import for_failure as explained
    from .recording import for_failure as failed

    found = [
        (f"{name} log, last lines", "\n".join(broker.log_tail(40))),
        (f"{name}, last requests of this test", _requests(broker, began)),
        (f"{name}, requests of this test without success", failed(recording)),
        (f"{name}, why clients wait", explained(broker)),
        (f"{name}, its clock", _clock(broker)),
    ]
    return [(title, text) for title, text in found if text]


def _clock(broker: Broker) -> str:
    """Return how far a test has moved the clock, and what that means for records."""
    from .errors import KafkaliteError

    try:
        ahead = broker.clock.ahead
    except KafkaliteError:
        return ""
    if not ahead:
        return ""
    return f"{ahead} ahead of real time: for the broker, records of clients are as old as that"


#: Looks at the requests, at most, and how long a look may take to tell one test from the next.
_LOOKS, _SHARP_S = 10, 0.001
#: The columns of a request's times: the last is the sum of those before it.
_STAGES = ("queue", "handler", "waited", "sending", "rest")


def _requests(broker: Broker, began: float | None, most: int = 20) -> str:
    """Return the last requests of a test as a table, the newest last.

    Args:
        broker: The broker to ask.
        began: Only the requests since then, on the monotonic clock; ``None`` is all.
        most: How many, at most.
    """
    for _ in range(_LOOKS):
        asked = time.monotonic()
        recent = broker.recent_requests()
        now = time.monotonic()
        # The ages are of a moment between the two. A pause of the machine would blur it.
        if now - asked < _SHARP_S:
            break
    limit_ms = float("inf") if began is None else (now - began) * 1e3
    of_test = [seen for seen in recent if seen.age_ms <= limit_ms]
    if not of_test:
        return ""
    head = "".join(f"{name + ' ms':>11}" for name in (*_STAGES, "total"))
    lines = [f"{'ago ms':>9} {'api':<22}{head}  client"]
    if len(of_test) > most:
        lines.insert(0, f"the last {most} of {len(of_test)} requests")
    for seen in of_test[-most:]:
        known = [seen.queue_ms, seen.handler_ms, seen.waited_ms, seen.sending_ms]
        rest = None
        if seen.total_ms is not None:
            # Reading the request, and the time until a thread takes the answer.
            rest = max(0.0, seen.total_ms - sum(stage or 0.0 for stage in known))
        times = "".join(f"{_ms(stage):>11}" for stage in (*known, rest, seen.total_ms))
        api = f"{seen.api} v{seen.version}"
        client = f"{seen.client_id or '-'} {seen.peer}"
        lines.append(f"{seen.age_ms:>9.0f} {api:<22}{times}  {client}")
    return "\n".join(lines)


def _ms(stage: float | None) -> str:
    return "-" if stage is None else f"{stage:.2f}"
