"""How a producer begins and ends: closing, forks, Ctrl-C, and interpreters that end before it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kafkalite as kl
from tests.clients.producer.reading import read
from tests.harness.patience import ended

PATIENCE_S = 60.0


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_closed_producer_says_so(kafkalite_bootstrap: str, name: str) -> None:
    producer = kl.Producer(bootstrap_servers=kafkalite_bootstrap)
    delivery = producer.send(name, b"v")
    assert not producer.closed
    producer.close()
    producer.close()
    assert producer.closed
    assert delivery.result(0).offset == 0, "closing delivers"
    with pytest.raises(kl.ClosedError, match="CLIENT_CLOSED"):
        producer.send(name, b"v")
    with pytest.raises(kl.ClosedError):
        producer.produce(name, b"v")
    with pytest.raises(kl.ClosedError):
        producer.send_batch(name, [b"v"])
    with pytest.raises(kl.ClosedError):
        producer.partitions_for(name)
    assert "closed" in repr(producer)


def test_closing_is_bounded_and_tells_what_was_lost(name: str) -> None:
    with kl.Broker(in_process=False, topics=["t"]) as broker:
        producer = kl.Producer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("t", b"v").result(PATIENCE_S)
        broker.kill()
        told: list[object] = []
        delivery = producer.send("t", b"v")
        producer.produce("t", b"v", on_delivery=lambda error, metadata: told.append(type(error)))
        with pytest.warns(RuntimeWarning, match="2 records were not delivered"):
            producer.close(timeout=0.1)
        with pytest.raises(kl.ClosedError):
            delivery.result(0)
        assert told == [kl.ClosedError]


def test_a_producer_that_is_forgotten_delivers_and_warns(
    kafkalite_bootstrap: str, name: str
) -> None:
    producer = kl.Producer(bootstrap_servers=kafkalite_bootstrap)
    delivery = producer.send(name, b"v")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        del producer
    assert [warning.category for warning in seen] == [ResourceWarning]
    assert delivery.result(0).offset == 0


def test_a_wrong_key_is_refused_with_what_was_meant() -> None:
    with pytest.raises(kl.ConfigError, match=r"linger\.ms"):
        kl.Producer(config={"bootstrap.servers": "x:1", "linger.mss": 5})
    with pytest.raises(kl.ConfigError, match=r"enable\.idempotence"):
        kl.Producer(bootstrap_servers="x:1", acks=1, enable_idempotence=True)
    with pytest.raises(kl.ConfigError, match=r"bootstrap\.servers"):
        kl.Producer()


@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_child_gets_an_error_and_the_parent_goes_on(
    kafkalite_bootstrap: str, name: str
) -> None:
    with kl.Producer(
        bootstrap_servers=kafkalite_bootstrap, linger_ms=60_000, delivery_timeout_ms=200_000
    ) as producer:
        delivery = producer.send(name, b"parent")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                refused = 0
                for call in (
                    lambda: producer.send(name, b"child"),
                    lambda: producer.produce(name, b"child"),
                    lambda: producer.send_batch(name, [b"child"]),
                    lambda: delivery.result(5),
                    lambda: producer.flush(5),
                ):
                    try:
                        call()
                    except kl.ForkedClientError:
                        refused += 1
                producer.close()
                code = 0 if refused == 5 else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        producer.flush(PATIENCE_S)
        assert delivery.result(PATIENCE_S).offset == 0
    assert [record.value for record in read(kafkalite_bootstrap, name, 1)] == [b"parent"]


def test_an_interpreter_that_ends_first_delivers_and_calls_back(
    kafkalite_bootstrap: str, name: str
) -> None:
    program = """
        import sys
        import kafkalite as kl
        import kafkalite.producer
        kafkalite.producer.EXIT_TIMEOUT_S = 30.0
        producer = kl.Producer(bootstrap_servers=sys.argv[1], linger_ms=100)
        for number in range(1000):
            producer.produce(
                sys.argv[2], b"%d" % number,
                on_delivery=lambda e, m: m.offset == 999 and print("told", flush=True),
            )
    """
    done = python(program, kafkalite_bootstrap, name)
    assert (done.returncode, done.stdout, done.stderr) == (0, "told\n", "")
    assert len(read(kafkalite_bootstrap, name, 1_000)) == 1_000


def test_an_interpreter_ends_though_no_broker_takes_its_records() -> None:
    program = """
        import warnings
        import kafkalite as kl
        import kafkalite.producer
        warnings.simplefilter("ignore")
        kafkalite.producer.EXIT_TIMEOUT_S = 0.2
        broker = kl.Broker(in_process=False, topics=["t"])
        broker.start()
        producer = kl.Producer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("t", b"v").result(30)
        broker.kill()
        producer.send("t", b"v")
    """
    done = python(program)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "call", ["flush()", "send('t', b'v').result()", "send_batch('t', [b'v']).result()"]
)
def test_ctrl_c_ends_a_wait(call: str) -> None:
    program = f"""
        import sys, threading, signal, os
        import kafkalite as kl
        with kl.Broker(in_process=False, topics=["t"]) as broker:
            producer = kl.Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0)
            producer.send("t", b"v").result(30)
            broker.kill()
            producer.send("t", b"v")
            try:
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
                producer.{call}
            except KeyboardInterrupt:
                print("interrupted")
            import warnings
            warnings.simplefilter("ignore")
            producer.close(0)
    """
    done = python(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


class Interrupted:
    """Ctrl-C comes while it is asked what it is."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Raise what the signal's handler raises."""
        raise KeyboardInterrupt

    def __iter__(self) -> Iterator[Any]:
        """Hold one value."""
        return iter([b"v"])


@pytest.mark.parametrize(
    "call",
    [
        lambda producer, topic: producer.send_batch(topic, Interrupted()),
        lambda producer, topic: producer.send_batch(topic, [b"v"], headers=Interrupted()),
        lambda producer, topic: producer.send(topic, b"v", headers=Interrupted()),
    ],
)
def test_ctrl_c_during_a_look_at_an_argument_ends_the_call(
    kafkalite_bootstrap: str, name: str, call: Callable[[Any, str], object]
) -> None:
    """It was written to stderr, and the program went on."""
    with (
        kl.Producer(bootstrap_servers=kafkalite_bootstrap) as producer,
        pytest.raises(KeyboardInterrupt),
    ):
        call(producer, name)


@pytest.mark.parametrize(
    ("call", "settings"),
    [
        ("flush()", ""),
        ("send_batch('t', [b'v' * 30_000] * 100)", "buffer_memory=70_000"),
        ("close(600)", ""),
    ],
)
def test_ctrl_c_ends_a_program_whose_async_producer_waits(call: str, settings: str) -> None:
    """The interpreter waited for the call's thread first, for a minute or two."""
    program = f"""
        import asyncio, os, signal, threading, warnings
        import kafkalite as kl
        import kafkalite.aio.producer
        warnings.simplefilter("ignore")
        kafkalite.aio.producer.EXIT_TIMEOUT_S = 0.2

        async def main(broker):
            producer = kl.AsyncProducer(
                bootstrap_servers=broker.bootstrap_servers, max_block_ms=600_000,
                delivery_timeout_ms=600_000, linger_ms=0, {settings}
            )
            await producer.send("t", b"v")
            broker.kill()
            left = asyncio.create_task(producer.send("t", b"v"))
            await asyncio.sleep(0)
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            await producer.{call}

        with kl.Broker(in_process=False, topics=["t"]) as broker:
            try:
                asyncio.run(main(broker))
            except KeyboardInterrupt:
                print("interrupted")
    """
    done = python(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_an_async_producer_that_is_left_open_delivers_at_the_end(
    kafkalite_bootstrap: str, name: str
) -> None:
    program = """
        import asyncio, sys
        import kafkalite as kl

        async def main():
            global producer
            producer = kl.AsyncProducer(bootstrap_servers=sys.argv[1], linger_ms=60_000,
                                        delivery_timeout_ms=200_000)
            left = asyncio.create_task(producer.send(sys.argv[2], b"v"))
            async with asyncio.timeout(60):
                while not producer.metrics()["buffer-available-bytes"] < (
                    producer.metrics()["buffer-total-bytes"]
                ):
                    await asyncio.sleep(0)

        asyncio.run(main())
    """
    done = python(program, kafkalite_bootstrap, name)
    assert (done.returncode, done.stderr) == (0, "")
    assert [record.value for record in read(kafkalite_bootstrap, name, 1)] == [b"v"]


def test_threads_may_share_a_producer(kafkalite_bootstrap: str, name: str) -> None:
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap, buffer_memory=300_000) as producer:

        def run(thread: int) -> None:
            for number in range(2_000):
                producer.produce(name, b"%d %d" % (thread, number), key=b"%d" % thread)
            producer.flush(PATIENCE_S)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            ended(thread)
    seen: dict[bytes, int] = {}
    for record in read(kafkalite_bootstrap, name, 16_000):
        sender, _, number = (record.value or b"").partition(b" ")
        assert int(number) == seen.get(sender, -1) + 1, "each thread's records are in order"
        seen[sender] = int(number)
    assert len(seen) == 8


def test_a_signal_handler_runs_while_a_producer_waits(kafkalite_bootstrap: str, name: str) -> None:
    ran = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: ran.set())
    try:
        with kl.Producer(
            bootstrap_servers=kafkalite_bootstrap, linger_ms=60_000, delivery_timeout_ms=200_000
        ) as producer:
            delivery = producer.send(name, b"v")
            timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            with pytest.raises(kl.RequestTimedOut):
                delivery.result(timeout=0.5)
            ended(timer)
            assert ran.is_set()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_first_clients_of_a_process_may_be_made_by_two_threads() -> None:
    """One thread waited for the other with the GIL in its hands, which the other needed."""
    program = """
        import os, sys, threading
        import kafkalite as kl

        # A thread keeps the GIL until it waits.
        sys.setswitchinterval(1_000)
        begun, come = threading.Event(), threading.Event()
        register = os.register_at_fork

        def registered(**hooks):
            begun.set()
            assert come.wait(30)
            register(**hooks)

        def first():
            kl.Producer(bootstrap_servers="127.0.0.1:9").close()

        os.register_at_fork = registered
        thread = threading.Thread(target=first)
        thread.start()
        assert begun.wait(30)
        os.register_at_fork = register
        come.set()
        kl.Producer(bootstrap_servers="127.0.0.1:9").close()
        thread.join(30)
        print("made")
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "made\n"


def test_a_topic_that_was_made_again_smaller_gets_keyed_records(
    kafkalite_bootstrap: str, admin: kl.AdminClient, name: str
) -> None:
    """Two records of three always went to partitions that were gone, and failed."""
    keys = [b"key %d" % number for number in range(30)]
    admin.create_topic(name, partitions=6)
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap, linger_ms=0) as producer:
        before = [producer.send(name, b"v", key=key) for key in keys]
        assert {delivery.result(PATIENCE_S).partition for delivery in before} == set(range(6))
        admin.delete_topic(name)
        admin.create_topic(name, partitions=2)
        # Those that are on their way when the producer notices fail, and say why.
        for delivery in [producer.send(name, b"v", key=key) for key in keys]:
            error = delivery.exception(PATIENCE_S)
            assert error is None or isinstance(error, kl.UnknownTopicError)
        after = [producer.send(name, b"v", key=key) for key in keys]
        assert {delivery.result(PATIENCE_S).partition for delivery in after} == {0, 1}
        with pytest.raises(kl.UnknownTopicError, match="has 2 partitions, there is no 5"):
            producer.send(name, b"v", partition=5)
        batch = producer.send_batch(name, [b"v"] * 30, keys=keys).result(PATIENCE_S)
        assert sum(found.count for found in batch) == 30
