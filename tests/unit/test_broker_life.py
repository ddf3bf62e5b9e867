"""What a broker of a program leaves behind, and what it survives: forks, threads, loggers."""

from __future__ import annotations

import logging
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import pytest

import kafkalite
from tests.harness.leaks import held, wait_for_no_more_than
from tests.harness.process import PATIENCE_S
from tests.unit.test_broker import Collected, both, collected, has_ended
from tests.unit.test_serve import api_versions_error

__all__ = ["collected"]


def test_closed_brokers_leave_no_descriptors_and_no_threads() -> None:
    """Every broker left two eventfds and its buffers: its metrics and its rooms held each other."""
    with kafkalite.Broker(admin_port=0):
        pass
    before = held()
    for _ in range(10):
        with kafkalite.Broker(topics="t", admin_port=0) as broker:
            assert api_versions_error(broker.bootstrap_servers) == 0
    wait_for_no_more_than(before)


def test_a_child_ends_with_its_parent_while_a_worker_of_the_parent_lives() -> None:
    """It waited for the end of its stdin, whose other end a forked worker holds as well."""
    program = (
        "import os, signal, kafkalite\n"
        "broker = kafkalite.Broker(in_process=False)\n"
        "broker.start()\n"
        "worker = os.fork()\n"
        "if worker == 0:\n"
        "    signal.pause()\n"
        "print(broker.pid, worker, flush=True)\n"
        "signal.pause()"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    worker = None
    try:
        assert parent.stdout is not None
        assert select.select([parent.stdout], [], [], PATIENCE_S)[0], "the parent says nothing"
        child, worker = map(int, parent.stdout.readline().split())
        parent.kill()
        parent.wait()
        assert has_ended(child)
        os.kill(worker, 0)
    finally:
        parent.kill()
        parent.wait()
        if worker is not None:
            os.kill(worker, signal.SIGKILL)
        if parent.stdout is not None:
            parent.stdout.close()


def test_a_child_lives_on_when_the_thread_that_started_it_ends() -> None:
    broker = kafkalite.Broker(in_process=False)
    thread = threading.Thread(target=broker.start)
    thread.start()
    thread.join(PATIENCE_S)
    with broker:
        pid = broker.pid
        assert api_versions_error(broker.bootstrap_servers) == 0
        assert broker.pid == pid


@both
def test_threads_that_start_a_broker_together_start_one(
    in_process: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each made a broker of its own, and ``close()`` reached the last of them alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    broker = kafkalite.Broker(in_process=in_process)
    together = threading.Barrier(8)

    def start() -> None:
        together.wait(PATIENCE_S)
        broker.start()

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert list(tmp_path.iterdir()) == [broker.data_dir]
    broker.close()
    assert list(tmp_path.iterdir()) == []


def test_a_child_tells_all_its_listeners() -> None:
    """Of several it told the last one."""
    listeners = "A://127.0.0.1:0,B://127.0.0.1:0"
    protocols = "A:PLAINTEXT,B:PLAINTEXT"
    config = {"listeners": listeners, "listener.security.protocol.map": protocols}
    found = []
    for in_process in (True, False):
        with kafkalite.Broker(config=config, in_process=in_process) as broker:
            servers = broker.bootstrap_servers.split(",")
            assert [api_versions_error(server) for server in servers] == [0] * len(servers)
            found.append(len(servers))
    assert found == [2, 2]


class Refusing(logging.Handler):
    """Raises at the first line, as a handler of a program may."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error: BaseException | None = error

    def emit(self, record: logging.LogRecord) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error


@both
@pytest.mark.parametrize("error", [OSError("disk full"), SystemExit(3)], ids=["error", "exit"])
def test_a_handler_that_raises_loses_no_other_lines(
    in_process: bool, error: BaseException, collected: Collected, capsys: pytest.CaptureFixture[str]
) -> None:
    """One exception ended the forwarding of all logs, and nothing read a child's stderr."""
    refusing, logger = Refusing(error), logging.getLogger("kafkalite")
    logger.handlers.insert(0, refusing)
    try:
        with kafkalite.Broker(in_process=in_process, log_level="info") as broker:
            broker.restart()
            collected.records.get(timeout=PATIENCE_S)
            collected.records.get(timeout=PATIENCE_S)
    finally:
        logger.removeHandler(refusing)
    assert refusing.error is None
    assert type(error).__name__ in capsys.readouterr().err


def test_a_broker_that_was_forked_away_starts_again_and_its_clients_see_it_go() -> None:
    """A child of a fork held copies of the sockets: the port stayed taken, connections open."""
    with kafkalite.Broker(topics="t", admin_port=0) as broker:
        servers, admin_url = broker.bootstrap_servers, broker.admin_url
        with kafkalite.Producer(bootstrap_servers=servers) as producer:
            producer.send("t", b"1").result(timeout=PATIENCE_S)
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(write)
                os.read(read, 1)
                os._exit(0)
            try:
                os.close(read)
                broker.restart()
                assert (broker.bootstrap_servers, broker.admin_url) == (servers, admin_url)
                producer.send("t", b"2").result(timeout=PATIENCE_S)
                with urllib.request.urlopen(f"{admin_url}/health/ready", timeout=10) as answer:
                    assert answer.status == 200
                records = broker.expect("t", 2, timeout=PATIENCE_S)
            finally:
                os.close(write)
                os.waitpid(child, 0)
        assert [record.value for record in records] == [b"1", b"2"]


@pytest.mark.parametrize("key", ["log.dirs", "log.dir"])
def test_log_directories_of_the_configuration_are_kept(tmp_path: Path, key: str) -> None:
    """They were taken for temporary ones: never synced, and ``log.dir`` had no effect."""
    directory = tmp_path / "mine"
    config = {key: directory}
    with kafkalite.Broker(topics="t", config=config) as broker:
        with kafkalite.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("t", b"v").result(timeout=PATIENCE_S)
        with kafkalite.AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            resource = kafkalite.ConfigResource("broker", "1")
            keys = admin.describe_configs([resource])[resource]
        assert keys["kafkalite.disk.sync"].value == "true"
    assert (directory / ".kafka_cleanshutdown").exists()
    with kafkalite.Broker(config=config) as again:
        assert [record.value for record in again.expect("t", 1)] == [b"v"]


@both
def test_a_forked_process_cannot_start_the_broker_of_its_parent(in_process: bool) -> None:
    """With a process of its own it waited without end for the thread that read its log."""
    with kafkalite.Broker(in_process=in_process, topics="t") as broker:
        child = os.fork()
        if child == 0:
            signal.alarm(int(PATIENCE_S))
            refused = 0
            for call in (broker.start, broker.restart, broker.__enter__):
                try:
                    call()
                except kafkalite.IllegalStateError:
                    refused += 1
            broker.close()
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert api_versions_error(broker.bootstrap_servers) == 0


def test_a_forked_process_may_ask_where_a_broker_serves_that_another_thread_starts() -> None:
    """It waited without end for the thread, which the child does not have."""
    broker = kafkalite.Broker(in_process=True)
    starts = threading.Thread(target=broker.start)
    starts.start()
    while broker._engine is None:
        time.sleep(0)
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE_S))
        try:
            broker.bootstrap_servers  # noqa: B018
        except kafkalite.IllegalStateError:
            os._exit(7)
        os._exit(8)
    # 8 where it was quicker than the fork.
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    starts.join(PATIENCE_S)
    broker.close()
    assert code in {7, 8}


def test_a_forked_process_knows_where_the_broker_of_its_parent_serves() -> None:
    with kafkalite.Broker(in_process=True) as broker:
        child = os.fork()
        if child == 0:
            signal.alarm(int(PATIENCE_S))
            os._exit(7 if api_versions_error(broker.bootstrap_servers) == 0 else 8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_close_that_ctrl_c_interrupts_is_finished_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The temporary directory stayed: what removes it was taken for done."""
    broker = kafkalite.Broker()
    broker.start()
    directory = broker.data_dir
    assert directory is not None

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            broker.close()
    assert directory.exists()
    broker.close()
    assert not directory.exists()
    assert broker.data_dir is None
