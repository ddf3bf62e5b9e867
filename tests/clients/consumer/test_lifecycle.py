"""A consumer's end, and what happens around it: closing, Ctrl-C, fork, restarts, threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kafkalite import Consumer, TopicPartition, errors
from tests.clients.consumer.consuming import (
    PATIENCE_S,
    Cluster,
    numbered,
    part,
    read,
    settle,
    values,
)
from tests.harness.patience import ended
from tests.harness.process import Processes, port_of


def test_a_closed_consumer_refuses_calls_and_may_be_closed_again(cluster: Cluster) -> None:
    consumer = cluster.consumer(cluster.topic())
    consumer.close()
    consumer.close()
    for call in (consumer.poll, consumer.consume, consumer.commit, consumer.unsubscribe):
        with pytest.raises(errors.ClosedError):
            call()


def test_a_listener_that_closes_the_consumer_is_called_once(cluster: Cluster) -> None:
    """Each close called the listener again, until the interpreter ran out of stack."""
    told: list[int] = []

    def revoked(partitions: list[TopicPartition]) -> None:
        told.append(len(partitions))
        consumer.close()

    consumer = cluster.consumer(cluster.topic(), group_id=cluster.group(), on_revoke=revoked)
    settle(consumer, 1)
    consumer.close()
    assert consumer.closed
    assert told == [1]


def test_closing_wakes_a_thread_that_waits(cluster: Cluster) -> None:
    consumer = cluster.consumer(cluster.topic(), group_id=cluster.group())
    settle(consumer, 1)
    ended: list[type[BaseException]] = []

    def wait() -> None:
        try:
            consumer.poll()
        except errors.KafkaliteError as error:
            ended.append(type(error))

    waiter = threading.Thread(target=wait)
    waiter.start()
    consumer.close()
    waiter.join(PATIENCE_S)
    assert ended == [errors.ClosedError]


def test_leaving_a_group_lets_others_have_the_partitions_at_once(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(2))
    with cluster.consumer(topic, group_id=group) as first:
        read(first, 1)
    # Its session would last 45 seconds.
    with cluster.consumer(topic, group_id=group) as second:
        assert values(read(second, 1)) == [b"v1"]


def test_closing_takes_no_longer_than_it_may(tmp_path: Path) -> None:
    started = Processes(tmp_path)
    process = started.serve("--profile", "dev")
    cluster = Cluster(process.ready)
    topic = cluster.topic()
    cluster.write(topic, numbered(5))
    consumer = cluster.consumer(topic, group_id=cluster.group())
    read(consumer, 5)
    process.popen.send_signal(signal.SIGSTOP)
    # Until it stands still it may answer yet.
    os.waitpid(process.popen.pid, os.WUNTRACED)
    try:
        began = time.monotonic()
        with pytest.raises(errors.KafkaliteError):
            consumer.close(timeout=0.5)
        assert time.monotonic() - began < PATIENCE_S / 3
    finally:
        process.popen.send_signal(signal.SIGCONT)
        started.close()


def test_a_consumer_goes_on_after_its_broker_was_restarted(tmp_path: Path) -> None:
    started = Processes(tmp_path)
    directory = tmp_path / "data"
    process = started.serve("--profile", "dev", data_dir=directory)
    cluster = Cluster(process.ready)
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(5))
    seen: list[Any] = []
    with cluster.consumer(topic, group_id=group, reconnect_backoff_max_ms=50) as consumer:
        seen += values(read(consumer, 5))
        process.end(signal.SIGKILL)
        assert consumer.poll(0.2) is None
        address = f"127.0.0.1:{port_of(cluster.bootstrap)}"
        again = ["--listen", address, "--admin-port", "0", "--data-dir", str(directory)]
        started.start("serve", *again, "--profile", "dev").wait_ready()
        cluster.write(topic, numbered(5, "w"))
        seen += values(read(consumer, 5))
        consumer.commit()
        assert consumer.committed()[part(topic)].offset == 10
    assert seen == numbered(5) + numbered(5, "w")
    started.close()


def test_ctrl_c_ends_a_call_that_waits(cluster: Cluster) -> None:
    program = (
        "import kafkalite\n"
        f"with kafkalite.Consumer({cluster.topic()!r}, bootstrap_servers={cluster.bootstrap!r}) "
        "as consumer:\n"
        "    assert consumer.poll(0.5) is None\n"
        "    print('waiting', flush=True)\n"
        "    consumer.poll()\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "waiting\n"
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in said


def test_ctrl_c_ends_a_close_that_waits_for_the_last_commit(cluster: Cluster) -> None:
    program = (
        "import kafkalite, os, signal, threading\n"
        "with kafkalite.Broker(topics=['t']) as broker:\n"
        "    consumer = kafkalite.Consumer('t', group_id='g', auto_offset_reset='earliest',\n"
        "        bootstrap_servers=broker.bootstrap_servers)\n"
        "    with kafkalite.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:\n"
        "        producer.send('t', b'v')\n"
        f"    assert consumer.poll({PATIENCE_S}).value == b'v'\n"
        "    broker.kill()\n"
        "    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    try:\n"
        "        consumer.close(600)\n"
        "    except KeyboardInterrupt:\n"
        "        print(consumer, flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=2 * PATIENCE_S
    )
    assert (done.stdout, done.stderr) == ("<kafkalite.Consumer closed>\n", "")


def test_ctrl_c_ends_a_close_that_is_awaited() -> None:
    """The interpreter waited for the thread of the close, which has no Ctrl-C."""
    program = f"""
        import asyncio, kafkalite, os, signal, threading

        async def main(broker):
            consumer = kafkalite.AsyncConsumer(
                "t", group_id="g", auto_offset_reset="earliest",
                bootstrap_servers=broker.bootstrap_servers,
            )
            assert (await consumer.poll({PATIENCE_S})).value == b"v"
            broker.kill()
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            await consumer.close(600)

        with kafkalite.Broker(topics=["t"]) as broker:
            with kafkalite.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                producer.send("t", b"v")
            try:
                asyncio.run(main(broker))
            except KeyboardInterrupt:
                print("interrupted", flush=True)
    """
    program = textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=2 * PATIENCE_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_a_program_may_end_without_closing(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(3))
    program = (
        "import kafkalite, threading\n"
        f"consumer = kafkalite.Consumer({topic!r}, group_id={group!r}, "
        f"bootstrap_servers={cluster.bootstrap!r}, auto_offset_reset='earliest')\n"
        f"print(consumer.poll({PATIENCE_S}).value)\n"
        "threading.Thread(target=consumer.poll, daemon=True).start()\n"
    )
    # Longer than the poll within: a missing record is then reported as missing.
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=2 * PATIENCE_S
    )
    assert (done.stdout, done.stderr, done.returncode) == ("b'v0'\n", "", 0)


def test_a_consumer_that_was_made_before_a_fork_says_so_in_the_child(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(3))
    consumer = cluster.consumer(topic, group_id=group)
    read(consumer, 1)
    child = os.fork()
    if child == 0:
        told = 0
        for call in (consumer.poll, consumer.commit, consumer.assignment, consumer.close):
            try:
                call()
            except errors.ForkedClientError:
                told += 1
        del consumer
        os._exit(told)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 4
    assert values(read(consumer, 2)) == [b"v1", b"v2"]
    consumer.close()


def test_other_threads_run_while_a_call_waits(cluster: Cluster) -> None:
    topic = cluster.topic()
    with cluster.consumer(topic) as consumer:
        settle(consumer, 1)

        def work() -> None:
            for _ in range(100):
                time.sleep(0.001)
            cluster.write(topic, [b"x"])

        worker = threading.Thread(target=work)
        worker.start()
        # What ends the call is the work of the other thread.
        assert consumer.poll(PATIENCE_S) is not None
        ended(worker)


def test_an_idle_consumer_asks_for_nothing_but_records(cluster: Cluster) -> None:
    with cluster.consumer(cluster.topic(), fetch_max_wait_ms=200) as consumer:
        settle(consumer, 1)
        before = time.process_time()
        assert consumer.poll(1) is None
        assert time.process_time() - before < 0.2


def test_an_exception_in_the_block_is_the_one_that_is_raised(cluster: Cluster) -> None:
    with pytest.raises(LookupError), cluster.consumer(cluster.topic()) as consumer:
        raise LookupError
    with pytest.raises(errors.ClosedError):
        consumer.poll(0)


def test_a_consumer_needs_no_subscription_to_be_closed(cluster: Cluster) -> None:
    with Consumer(bootstrap_servers=cluster.bootstrap, group_id=cluster.group()) as consumer:
        assert consumer.assignment() == []


def test_a_consumer_without_topics_gets_an_error_and_does_not_wait(cluster: Cluster) -> None:
    topic = cluster.topic()
    with cluster.consumer() as consumer:
        with pytest.raises(errors.IllegalStateError, match="subscribe or assign first"):
            consumer.poll()
        consumer.assign([part(topic)])
        assert consumer.poll(0) is None
        consumer.unsubscribe()
        with pytest.raises(errors.IllegalStateError, match="subscribe or assign first"):
            next(iter(consumer))
