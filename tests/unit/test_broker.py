"""A broker inside this process, or as its child."""

from __future__ import annotations

import gc
import logging
import os
import queue
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import kafkalite
from tests.harness.process import PATIENCE_S
from tests.unit.test_serve import api_versions_error

both = pytest.mark.parametrize("in_process", [True, False], ids=["threads", "child"])


def produce(bootstrap: str, *values: bytes) -> None:
    """Write these values to the topic ``t``, acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce("t", value)
    assert producer.flush(PATIENCE_S) == 0


def read(bootstrap: str, count: int) -> list[bytes | None]:
    """The first values of partition 0 of ``t``."""
    # Without a commit its close waits for no coordinator.
    keys = {"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False}
    consumer = Consumer(keys)
    consumer.assign([TopicPartition("t", 0, 0)])
    messages = consumer.consume(count, timeout=PATIENCE_S)
    consumer.close()
    return [message.value() for message in messages]


def has_ended(pid: int) -> bool:
    """Whether the process ends within the patience."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], PATIENCE_S)[0])
    finally:
        os.close(handle)


@both
def test_it_serves_between_enter_and_exit(in_process: bool) -> None:
    with kafkalite.Broker(in_process=in_process) as broker:
        assert api_versions_error(broker.bootstrap_servers) == 0
        assert broker.admin_url is None
        assert (broker.pid == os.getpid()) == in_process
        broker.wait_ready()
    with pytest.raises(kafkalite.IllegalStateError, match="ILLEGAL_STATE: the broker does not run"):
        _ = broker.bootstrap_servers
    with pytest.raises(kafkalite.RequestTimedOut, match="REQUEST_TIMED_OUT: the broker does not"):
        broker.wait_ready(timeout=0)


def test_two_brokers_live_in_one_process() -> None:
    with kafkalite.Broker() as one, kafkalite.Broker(admin_port=0) as other:
        assert one.bootstrap_servers != other.bootstrap_servers
        assert other.admin_url is not None
        with urllib.request.urlopen(f"{other.admin_url}/health/ready", timeout=10) as answer:
            assert answer.status == 200


def test_it_starts_again_with_its_data(tmp_path: Path) -> None:
    broker = kafkalite.Broker(data_dir=tmp_path / "data")
    for _ in range(2):
        with broker:
            assert api_versions_error(broker.bootstrap_servers) == 0
    assert (tmp_path / "data" / "meta.properties").exists()


@both
@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ({"a": 3, "b": 1}, {"a": 3, "b": 1}),
        (["a", "b"], {"a": 1, "b": 1}),
        ("alone", {"alone": 1}),
    ],
)
def test_its_topics_are_there_when_it_serves(
    in_process: bool, topics: dict[str, int] | list[str] | str, expected: dict[str, int]
) -> None:
    with kafkalite.Broker(topics=topics, in_process=in_process) as broker:
        listed = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(
            timeout=PATIENCE_S
        )
        found = {name: len(topic.partitions) for name, topic in listed.topics.items()}
        assert found == expected
        broker.restart()
        assert api_versions_error(broker.bootstrap_servers) == 0


@both
def test_a_killed_broker_comes_back_on_its_port_with_its_data(in_process: bool) -> None:
    with kafkalite.Broker(topics="t", in_process=in_process, admin_port=0) as broker:
        servers, admin_url = broker.bootstrap_servers, broker.admin_url
        produce(servers, b"before")
        broker.kill()
        with pytest.raises(kafkalite.KafkaliteError, match="does not run"):
            _ = broker.bootstrap_servers
        broker.start()
        assert (broker.bootstrap_servers, broker.admin_url) == (servers, admin_url)
        produce(servers, b"between")
        broker.restart()
        assert broker.bootstrap_servers == servers
        assert read(servers, 2) == [b"before", b"between"]


@both
def test_its_temporary_directory_goes_with_it(in_process: bool) -> None:
    broker = kafkalite.Broker(in_process=in_process)
    with broker:
        directory = broker.data_dir
        assert directory is not None
        assert directory.is_dir()
        broker.stop()
        assert directory.is_dir()
    assert not directory.exists()
    broker.start()
    again, pid = broker.data_dir, broker.pid
    assert again not in (None, directory)
    del broker
    gc.collect()
    assert again is not None
    assert not again.exists()
    assert in_process or has_ended(pid)


@both
@pytest.mark.parametrize("ending", ["", "raise SystemExit(3)", "1 / 0"])
def test_nothing_is_left_when_the_interpreter_ends(in_process: bool, ending: str) -> None:
    program = (
        f"import kafkalite\nbroker = kafkalite.Broker(in_process={in_process})\n"
        f"broker.start()\nprint(broker.data_dir, broker.pid, flush=True)\n{ending}"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S
    )
    directory, pid = done.stdout.split()
    assert not Path(directory).exists()
    assert has_ended(int(pid))


def test_a_child_ends_with_its_parent_however_that_ends() -> None:
    program = (
        "import kafkalite\nbroker = kafkalite.Broker(in_process=False)\n"
        "broker.start()\nprint(broker.pid, flush=True)\ninput()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.kill()
    assert has_ended(pid)


@both
def test_a_forked_process_leaves_the_broker_alone(in_process: bool) -> None:
    with kafkalite.Broker(in_process=in_process) as broker:
        child = os.fork()
        if child == 0:
            # What the end of an interpreter does, without pytest's own.
            broker.__exit__(None, None, None)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert broker.data_dir is not None
        assert broker.data_dir.is_dir()
        assert api_versions_error(broker.bootstrap_servers) == 0


@both
def test_a_child_that_is_killed_by_others_can_be_started_again(in_process: bool) -> None:
    with kafkalite.Broker(topics="t", in_process=in_process) as broker:
        produce(broker.bootstrap_servers, b"1")
        if not in_process:
            pid = broker.pid
            os.kill(pid, signal.SIGKILL)
            assert has_ended(pid)
        broker.start()
        assert read(broker.bootstrap_servers, 1) == [b"1"]


@both
@pytest.mark.parametrize(
    ("config", "what", "hint"),
    [
        (
            {"log.segmnet.bytes": "1"},
            "unknown key log.segmnet.bytes",
            "did you mean log.segment.bytes?",
        ),
        ({"num.partitions": 0}, "Value must be at least 1", "config explain"),
    ],
)
def test_a_wrong_key_is_an_exception_with_a_hint(
    in_process: bool, config: dict[str, object], what: str, hint: str
) -> None:
    broker = kafkalite.Broker(config=config, in_process=in_process)
    with pytest.raises(kafkalite.BrokerStartError) as info:
        broker.start()
    assert what in str(info.value)
    assert hint in (info.value.hint or "")
    broker.stop()


@both
def test_a_topic_that_cannot_be_made_is_an_exception(in_process: bool) -> None:
    with pytest.raises(
        kafkalite.BrokerStartError, match=r"cannot create topic a b: .* other than ASCII"
    ):
        kafkalite.Broker(topics=["a b"], in_process=in_process).start()


@both
def test_a_locked_directory_is_an_exception(tmp_path: Path, in_process: bool) -> None:
    with (
        kafkalite.Broker(data_dir=tmp_path),
        pytest.raises(kafkalite.BrokerStartError, match="another broker has locked it"),
    ):
        kafkalite.Broker(data_dir=tmp_path, in_process=in_process).start()


def test_keys_of_the_broker_win() -> None:
    with kafkalite.Broker(port=1, config={"listeners": "PLAINTEXT://127.0.0.1:0"}) as broker:
        assert api_versions_error(broker.bootstrap_servers) == 0


def test_the_environment_does_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKALITE_LOG_SEGMNET_BYTES", "1")
    for in_process in (True, False):
        with kafkalite.Broker(in_process=in_process) as broker:
            assert api_versions_error(broker.bootstrap_servers) == 0


class Collected(logging.Handler):
    """Puts what is logged into a queue."""

    def __init__(self) -> None:
        super().__init__()
        self.records: queue.Queue[logging.LogRecord] = queue.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.put(record)


@pytest.fixture
def collected() -> Iterator[Collected]:
    """What the loggers below ``kafkalite`` get, from INFO on."""
    handler, logger = Collected(), logging.getLogger("kafkalite")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


@both
def test_its_log_goes_to_logging_when_asked(collected: Collected, in_process: bool) -> None:
    with kafkalite.Broker(in_process=in_process, log_level=logging.INFO) as broker:
        broker.kill()
        broker.start()
        record = collected.records.get(timeout=PATIENCE_S)
    assert record.name.startswith("kafkalite.")
    assert record.levelno >= logging.INFO
    assert record.getMessage()


@both
def test_a_level_that_there_is_not_is_an_exception(in_process: bool) -> None:
    with pytest.raises(kafkalite.BrokerStartError, match="no log level loud") as info:
        kafkalite.Broker(log_level="loud", in_process=in_process).start()
    assert "info" in (info.value.hint or "")


def test_an_interpreter_that_forwards_logs_ends() -> None:
    program = "import kafkalite; kafkalite.Broker(log_level='trace').start()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_it_remembers_the_last_requests() -> None:
    with kafkalite.Broker(topics="t") as broker:
        produce(broker.bootstrap_servers, b"1")
        # The client has its answer before the broker notes that it is out and its handler done.
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = {request.api: request for request in broker.recent_requests()}
            produced = found["Produce"]
            noted = None not in (produced.total_ms, produced.handler_ms)
            if noted or time.monotonic() > deadline:
                break
    assert (produced.client_id, produced.peer.split(":")[0]) == ("rdkafka", "127.0.0.1")
    stages = (produced.queue_ms, produced.handler_ms, produced.waited_ms, produced.sending_ms)
    assert all(stage is not None and stage >= 0 for stage in stages)
    assert produced.total_ms is not None
    assert broker.recent_requests() == []


def test_a_child_lists_its_last_requests_over_its_admin_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafkalite.broker_process._ASKING_S", PATIENCE_S)
    with kafkalite.Broker(in_process=False, admin_port=0) as broker:
        broker.wait_ready()
        found = {request.api: request for request in broker.recent_requests()}
        seen = found["ApiVersions"]
        assert (seen.version, seen.client_id, seen.peer.split(":")[0]) == (0, None, "127.0.0.1")
        assert seen.age_ms >= 0
        assert seen.queue_ms >= 0
        broker.kill()
        assert broker.recent_requests() == []
    with kafkalite.Broker(in_process=False) as silent:
        assert silent.recent_requests() == []


def test_a_child_that_stands_still_has_no_requests_to_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafkalite.broker_process._ASKING_S", 0.1)
    with kafkalite.Broker(in_process=False, admin_port=0) as broker:
        os.kill(broker.pid, signal.SIGSTOP)
        # Until it stands still it may answer yet.
        os.waitpid(broker.pid, os.WUNTRACED)
        try:
            assert broker.recent_requests() == []
        finally:
            os.kill(broker.pid, signal.SIGCONT)


@both
def test_it_waits_for_records_and_returns_them(in_process: bool) -> None:
    with kafkalite.Broker(topics="t", in_process=in_process) as broker:
        produce(broker.bootstrap_servers, b"1", b"2", b"3")
        assert [record.value for record in broker.expect("t", 2)] == [b"1", b"2"]
        # A machine that stands still has read fewer in a short time.
        for seconds in (0.1, 1, 10):
            with pytest.raises(TimeoutError, match=r"t has \d records after") as told:
                broker.expect("t", 4, timeout=seconds)
            if "has 3" in str(told.value):
                break
        assert f"t has 3 records after {seconds:g} s, not 4" in str(told.value)


def test_a_record_that_was_expected_is_one_that_matches() -> None:
    with kafkalite.Broker(topics="t") as broker:
        produce(broker.bootstrap_servers, b"1", b"20", b"3", b"40", b"50")
        found = broker.expect("t", 2, where=lambda record: len(record.value or b"") == 2)
        assert [record.value for record in found] == [b"20", b"40"]


def failure_of_expect(broker: kafkalite.Broker, n: int, **more: Any) -> str:
    """What is said when records are missing; on a machine that stands still it takes longer."""
    for seconds in (0.2, 2, 20):
        with pytest.raises(kafkalite.RequestTimedOut) as told:
            broker.expect("t", n, timeout=seconds, **more)
        if "t-0 @" in str(told.value):
            break
    return str(told.value).replace(f"{seconds:g} s", "SECONDS")


def test_records_that_came_in_place_of_those_expected_are_shown() -> None:
    with kafkalite.Broker(topics="t") as broker:
        with kafkalite.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("t", b"v", key=b"k", headers={"h": b"x"})
            producer.send("t", b"x" * 1_000)
        lines = failure_of_expect(broker, 3).splitlines()
        assert lines == [
            "REQUEST_TIMED_OUT: t has 2 records after SECONDS, not 3",
            "  t-0 @ 0  key=b'k'  value=b'v'  h=b'x'",
            f"  t-0 @ 1  value=b'{'x' * 60}...' (1,000 bytes)",
        ]
        first = failure_of_expect(broker, 1, where=lambda record: record.value == b"w")
        assert first.startswith(
            "REQUEST_TIMED_OUT: t has 0 matching of 2 records after SECONDS, not 1"
        )


def test_where_no_record_came_a_hint_says_what_to_look_at() -> None:
    with kafkalite.Broker(topics="t") as broker, pytest.raises(kafkalite.RequestTimedOut) as told:
        broker.expect("t", 1, timeout=0)
    assert told.value.hint == "was the producer flushed, and is the name of the topic right?"
