"""How clients begin and end: closing, forking, Ctrl-C, asyncio, and no broker."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator

import pytest

import kafkalite as kl


@pytest.mark.parametrize("client", [kl.Producer, kl.Consumer, kl.AdminClient])
def test_a_client_shows_whether_it_is_open(client: type) -> None:
    made = client(bootstrap_servers="127.0.0.1:9")
    assert repr(made) == f"<kafkalite.{client.__name__} open>"
    made.close()
    assert repr(made) == f"<kafkalite.{client.__name__} closed>"


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A listener that accepts no connection: every client waits."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def address(listener: socket.socket) -> str:
    host, port = listener.getsockname()
    return f"{host}:{port}"


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return address(listener)


def test_an_absent_broker_is_an_error_with_each_cause() -> None:
    servers = [closed_port(), closed_port()]
    admin = kl.AdminClient(bootstrap_servers=servers, kafkalite_bootstrap_timeout_ms=100)
    with admin, pytest.raises(kl.NoBrokerReachable, match="NO_BROKER_REACHABLE") as info:
        admin.list_topics()
    assert sorted(info.value.causes) == sorted(servers)
    assert all("connection refused" in cause for cause in info.value.causes.values())
    assert "kafkalite doctor" in (info.value.hint or "")
    assert info.value.retriable


def test_a_broker_that_says_nothing_is_given_up(silent: socket.socket) -> None:
    admin = kl.AdminClient(bootstrap_servers=address(silent), kafkalite_bootstrap_timeout_ms=100)
    with admin, pytest.raises(kl.NoBrokerReachable, match="no answer to ApiVersions"):
        admin.list_topics()


def test_a_call_ends_when_its_time_is_over(silent: socket.socket) -> None:
    with (
        kl.AdminClient(bootstrap_servers=address(silent)) as admin,
        pytest.raises(kl.RequestTimedOut, match="listing topics took longer than"),
    ):
        admin.list_topics(timeout=0.05)


def test_a_closed_client_says_so(kafkalite_bootstrap: str) -> None:
    admin = kl.AdminClient(bootstrap_servers=kafkalite_bootstrap)
    admin.list_topics()
    admin.close()
    admin.close()
    with pytest.raises(kl.ClosedError, match="CLIENT_CLOSED: the admin client is closed"):
        admin.list_topics()


def test_closing_ends_what_waits(silent: socket.socket) -> None:
    admin = kl.AdminClient(bootstrap_servers=address(silent))
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            admin.list_topics()
        except kl.KafkaliteError as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    with silent.accept()[0]:
        admin.close()
        thread.join(30)
    assert [type(error) for error in ended] == [kl.ClosedError]


def test_ctrl_c_ends_a_call(silent: socket.socket) -> None:
    called = threading.Event()

    def interrupt() -> None:
        with silent.accept()[0]:
            os.kill(os.getpid(), signal.SIGINT)
            called.wait(30)

    thread = threading.Thread(target=interrupt)
    with kl.AdminClient(
        bootstrap_servers=address(silent), kafkalite_bootstrap_timeout_ms=60_000
    ) as admin:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            admin.list_topics()
        called.set()
    thread.join(30)


FORKED = """
import os, sys, kafkalite as kl
admin = kl.AdminClient(bootstrap_servers=sys.argv[1])
admin.list_topics()
child = os.fork()
if child == 0:
    try:
        admin.list_topics()
    except kl.ForkedClientError as error:
        print(error, error.hint, sep="|")
        admin.close()
        del admin
        with kl.AdminClient(bootstrap_servers=sys.argv[1]) as fresh:
            print(len(fresh.describe_cluster().brokers))
        sys.stdout.flush()
        os._exit(7)
_, status = os.waitpid(child, 0)
admin.list_topics()
print(os.waitstatus_to_exitcode(status))
"""


def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_client_does_not_survive_a_fork_but_a_new_one_lives(kafkalite_bootstrap: str) -> None:
    done = run(FORKED, kafkalite_bootstrap)
    first, *others = done.stdout.splitlines()
    assert first.startswith("CLIENT_FORKED: this client was made before a fork"), done.stderr
    assert first.endswith("in the process that uses it.")
    assert others == ["1", "7"]


FORKED_BESIDE_A_READ = """
import os, signal, sys, threading, kafkalite as kl
from kafkalite.ranges import RangeReader

reader = RangeReader(bootstrap_servers=sys.argv[1])
waiting = iter(reader.read([(sys.argv[2], 0, 0, 2)]))

next(waiting)
threading.Thread(target=next, args=(waiting, None), daemon=True).start()
while True:
    frames = sys._current_frames().values()
    if sum(frame.f_code.co_name == "_batches" for frame in frames) == 1:
        break

child = os.fork()
if child == 0:
    signal.alarm(30)
    for call in (lambda: reader.lost, lambda: reader.read([(sys.argv[2], 0, 0, 1)])):
        try:
            call()
        except kl.ForkedClientError:
            print("forked")

    reader.close()
    sys.stdout.flush()
    os._exit(7)

_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), flush=True)
os._exit(0)
"""


def test_a_range_reader_that_another_thread_waits_for_says_so_after_a_fork(
    kafkalite_bootstrap: str, name: str
) -> None:
    """`lost` waited without end for a thread that the child does not have."""
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap) as producer:
        producer.send(name, b"v").result(30)
    done = run(FORKED_BESIDE_A_READ, kafkalite_bootstrap, name)
    assert done.stdout.splitlines() == ["forked", "forked", "7"], done.stderr


LEFT_OPEN = """
import sys, threading, kafkalite as kl
admin = kl.AdminClient(bootstrap_servers=sys.argv[1])
admin.list_topics()
late = kl.AdminClient(bootstrap_servers=sys.argv[2])
call = late._native.list_topics(None)
call.add_done_callback(lambda: print("never"))
print("end")
"""


def test_an_unclosed_client_does_not_delay_the_end(
    kafkalite_bootstrap: str, silent: socket.socket
) -> None:
    done = run(LEFT_OPEN, kafkalite_bootstrap, address(silent))
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_client_that_is_dropped_closes_its_connection(silent: socket.socket) -> None:
    admin = kl.AdminClient(bootstrap_servers=address(silent))
    call = admin._native.list_topics(None)
    connection, _ = silent.accept()
    del admin, call
    gc.collect()
    connection.settimeout(30)
    with connection:
        while connection.recv(4096):
            pass


class Owner:
    """Has a client that calls one of its methods."""

    def __init__(self, client: type, bootstrap: str) -> None:
        """Make the client."""
        words = ("key_deserializer", "value_deserializer")
        if "Producer" in client.__name__:
            words = ("key_serializer", "value_serializer")
        self.client = client(bootstrap_servers=bootstrap, **dict.fromkeys(words, self.same))

    def same(self, value: bytes) -> bytes:
        """Return what it is given."""
        return value


@pytest.mark.parametrize(
    "client",
    [kl.Consumer, kl.AsyncConsumer, kl.Producer, kl.AsyncProducer],
    ids=lambda c: c.__name__,
)
def test_a_client_that_calls_its_owner_goes_with_it(kafkalite_bootstrap: str, client: type) -> None:
    """Thread, connections and place in a group stayed for as long as the process."""
    owner = Owner(client, kafkalite_bootstrap)
    seen = weakref.ref(owner)
    with warnings.catch_warnings():
        # The producer is not closed.
        warnings.simplefilter("ignore", ResourceWarning)
        del owner
        gc.collect()
    assert seen() is None


def test_the_async_client_awaits_the_same_calls(kafkalite_bootstrap: str, name: str) -> None:
    async def use() -> None:
        async with kl.AsyncAdminClient(bootstrap_servers=kafkalite_bootstrap) as admin:
            names = [f"{name}-{number}" for number in range(5)]
            await asyncio.gather(*(admin.create_topic(each, partitions=2) for each in names))
            described = await admin.describe_topics(names)
            assert [len(topic.partitions) for topic in described.values()] == [2] * 5
            with pytest.raises(kl.TopicExistsError):
                await admin.create_topic(names[0])
            await admin.delete_topics(names)
            assert not set(names) & {topic.name for topic in await admin.list_topics()}
        with pytest.raises(kl.ClosedError):
            await admin.list_topics()

    asyncio.run(use())


def test_cancelling_ends_an_async_call(silent: socket.socket) -> None:
    async def use() -> None:
        admin = kl.AsyncAdminClient(bootstrap_servers=address(silent))
        call = asyncio.ensure_future(admin.list_topics())
        loop = asyncio.get_running_loop()
        silent.setblocking(False)
        connection, _ = await loop.sock_accept(silent)
        with connection:
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await admin.close()

    asyncio.run(use())


NO_NAMES = ("", "a b", ".", "x" * 250)


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_name_that_no_topic_can_have_is_refused_and_not_waited_for(
    kafkalite_bootstrap: str, name: str
) -> None:
    servers = {"bootstrap_servers": kafkalite_bootstrap}
    with kl.Producer(config=servers) as producer:
        with pytest.raises(kl.InvalidTopicError, match="INVALID_TOPIC_EXCEPTION") as caught:
            producer.send(name, b"v")
        assert "1 to 249" in (caught.value.hint or "")
        with pytest.raises(kl.InvalidTopicError):
            producer.send_batch(name, [b"v"])
    with kl.Consumer(name, config=servers) as reader, pytest.raises(kl.InvalidTopicError):
        reader.poll(60)
    with kl.Consumer(config=servers) as reader:
        reader.assign([(name, 0)])
        with pytest.raises(kl.InvalidTopicError):
            reader.poll(60)


@pytest.mark.parametrize("name", NO_NAMES)
def test_the_async_twins_refuse_it_as_well(kafkalite_bootstrap: str, name: str) -> None:
    async def use() -> None:
        async with kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap) as producer:
            with pytest.raises(kl.InvalidTopicError):
                await producer.send(name, b"v")
            with pytest.raises(kl.InvalidTopicError):
                await producer.send_batch(name, [b"v"])
        async with kl.AsyncConsumer(
            name, group_id="g", bootstrap_servers=kafkalite_bootstrap
        ) as member:
            with pytest.raises(kl.InvalidTopicError):
                await member.poll(60)

    asyncio.run(use())


def test_one_client_serves_many_threads(kafkalite_bootstrap: str, name: str) -> None:
    with kl.AdminClient(bootstrap_servers=kafkalite_bootstrap) as admin:
        made: list[kl.CreatedTopic] = []

        def make(number: int) -> None:
            made.append(admin.create_topic(f"{name}-{number}"))

        threads = [threading.Thread(target=make, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len({topic.name for topic in made if topic.created}) == 16


def test_the_async_twin_has_every_call_of_the_other() -> None:
    def calls(client: type) -> set[str]:
        return {each for each in dir(client) if not each.startswith("_")}

    assert calls(kl.AsyncAdminClient) == calls(kl.AdminClient)
