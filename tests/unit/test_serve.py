"""The process: its lines, its signals, its exit codes, and what it says when it is refused."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.process import Process, Processes, port_of

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)


def api_versions_error(address: str) -> int:
    """The error code of the answer to an ApiVersions v0 request."""
    with socket.create_connection(("127.0.0.1", port_of(address)), 10) as peer:
        peer.sendall(API_VERSIONS)
        answer = b""
        while len(answer) < 10:
            answer += peer.recv(10 - len(answer))
    _, correlation_id, error = struct.unpack(">iih", answer)
    assert correlation_id == 7
    return int(error)


def get(url: str) -> tuple[int, str]:
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def test_ready_means_that_it_answers(broker: Process) -> None:
    assert broker.ready.startswith("127.0.0.1:")
    assert api_versions_error(broker.ready) == 0


def test_the_admin_port_tells_health_and_metrics(broker: Process) -> None:
    api_versions_error(broker.ready)
    assert get(f"{broker.admin}/health/live") == (200, "live\n")
    assert get(f"{broker.admin}/health/ready") == (200, "ready\n")
    status, metrics = get(f"{broker.admin}/metrics")
    assert status == 200
    assert 'kafkalite_stage_duration_seconds_count{stage="total",api="ApiVersions"}' in metrics
    assert 'kafka_network_requestmetrics_totaltimems_count{request="ApiVersions"}' in metrics


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(processes: Processes, number: signal.Signals) -> None:
    process = processes.serve()
    assert process.end(number) == 0
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port_of(process.ready)), 1)


def test_it_starts_again_with_its_data_and_cluster_id(processes: Processes, tmp_path: Path) -> None:
    data_dir = tmp_path / "new" / "data"
    assert processes.serve(data_dir=data_dir).end() == 0
    first = (data_dir / "meta.properties").read_text()
    assert processes.serve(data_dir=data_dir).end() == 0
    assert (data_dir / "meta.properties").read_text() == first


def test_the_process_started_is_the_broker(processes: Processes) -> None:
    process = processes.serve()
    children = Path(f"/proc/{process.popen.pid}/task/{process.popen.pid}/children")
    if not children.exists():
        pytest.skip("this system does not tell children")
    assert children.read_text() == ""


def test_the_log_is_json_without_a_terminal(processes: Processes) -> None:
    process = processes.serve()
    process.end()
    lines = [json.loads(line) for line in process.stderr.splitlines()]
    assert any(line["message"] == "stopping" for line in lines)


def test_a_locked_directory_is_refused(processes: Processes, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    processes.serve(data_dir=data_dir)
    second = processes.start(
        "serve", "--listen", "127.0.0.1:0", "--admin-port", "-1", "--data-dir", str(data_dir)
    )
    assert second.wait() == 1
    assert second.stderr == (
        f"error: cannot use the data directory {data_dir}\n"
        "  another broker has locked it\n"
        "hint: stop that broker, or give another directory with --data-dir.\n"
    )


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        (
            "--listen",
            "error: cannot listen on 127.0.0.1:{port}\n"
            "  another process listens there\n"
            "hint: give another port with --listen (0 lets the system choose), "
            "or stop that process.\n",
        ),
        (
            "--admin-port",
            "error: cannot listen on 127.0.0.1:{port} for metrics and health\n"
            "  another process listens there\n"
            "hint: give another port with --admin-port (0 lets the system choose, -1 is off).\n",
        ),
    ],
)
def test_a_taken_port_is_refused(processes: Processes, flag: str, text: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        chosen = {"--listen": "127.0.0.1:0", "--admin-port": "0"}
        chosen[flag] = f"127.0.0.1:{port}" if flag == "--listen" else str(port)
        words = [word for pair in chosen.items() for word in pair]
        process = processes.start("serve", "--data-dir", "data", *words)
        assert process.wait() == 1
    assert process.stderr == text.format(port=port)


def test_a_directory_that_cannot_be_written_is_refused(
    processes: Processes, tmp_path: Path
) -> None:
    # A file in its way stops root as well, whom permissions do not.
    (tmp_path / "file").write_text("")
    words = ["--listen", "127.0.0.1:0", "--admin-port", "-1"]
    process = processes.start("serve", *words, "--data-dir", str(tmp_path / "file" / "data"))
    assert process.wait() == 1
    error, why, hint = process.stderr.splitlines()
    assert error.startswith("error: cannot ")
    assert str(tmp_path / "file") in error + why
    assert hint.startswith("hint: give ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_refused(processes: Processes, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    words = ["--listen", "127.0.0.1:0", "--admin-port", "-1"]
    process = processes.start("serve", *words, "--data-dir", str(tmp_path / "closed" / "data"))
    assert process.wait() == 1
    assert "hint: give a directory that this user may write with --data-dir." in process.stderr


@pytest.mark.parametrize(
    ("words", "what", "hint"),
    [
        (["serve", "--lisen", "x"], "unknown flag --lisen", "did you mean --listen?"),
        (
            ["serve", "--set", "log.segmnet.bytes=1"],
            "unknown key log.segmnet.bytes (--set)",
            "did you mean log.segment.bytes?",
        ),
        (
            ["serve", "--set", "log.segment.bytes=1"],
            "Invalid value 1 for configuration log.segment.bytes: "
            "Value must be at least 1048576 (--set)",
            "see `kafkalite config explain log.segment.bytes`.",
        ),
        (
            ["serve", "--config", "missing.properties"],
            "cannot read missing.properties: No such file or directory (os error 2)",
            "give --config a file that can be read.",
        ),
    ],
)
def test_wrong_words_exit_with_2(
    processes: Processes, words: list[str], what: str, hint: str
) -> None:
    process = processes.start(*words)
    assert process.wait() == 2
    assert process.stderr == f"error: {what}\nhint: {hint}\n"


def test_an_unmodified_kraft_file_starts_with_one_warning(
    processes: Processes, tmp_path: Path
) -> None:
    # The keys of the file that Kafka ships, with ports that are free.
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\n"
        "node.id=1\n"
        "controller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://:9093\n"
        "inter.broker.listener.name=PLAINTEXT\n"
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        "num.network.threads=3\n"
        "num.io.threads=8\n"
        "socket.send.buffer.bytes=102400\n"
        "socket.request.max.bytes=104857600\n"
        f"log.dirs={tmp_path / 'data'}\n"
        "num.partitions=1\n"
        "offsets.topic.replication.factor=1\n"
        "share.coordinator.state.topic.replication.factor=1\n"
        "transaction.state.log.min.isr=1\n"
        "log.retention.hours=168\n"
    )
    process = processes.start("serve", "--config", str(file), "--admin-port", "0").wait_ready()
    assert process.end() == 0
    logged = [json.loads(line) for line in process.stderr.splitlines()]
    warnings = [line for line in logged if line["level"] == "WARN"]
    assert len(warnings) == 1
    assert "process.roles" in warnings[0]["keys"].split()


def test_a_flag_beats_the_environment_beats_the_file(processes: Processes, tmp_path: Path) -> None:
    file = tmp_path / "kafkalite.toml"
    file.write_text('"kafkalite.admin.port" = -1\n[log]\ndirs = ["from-file"]\n')
    words = ["serve", "--config", str(file), "--listen", "127.0.0.1:0"]
    for environment, flags, directory, admin in [
        ({}, [], "from-file", False),
        ({"KAFKALITE_LOG_DIRS": "from-environment"}, [], "from-environment", False),
        ({"KAFKALITE_ADMIN_PORT": "0"}, ["--data-dir", "from-flag"], "from-flag", True),
    ]:
        process = processes.start(*words, *flags, environment=environment)
        process.wait_ready(admin=admin)
        assert process.end() == 0
        assert (process.cwd / directory / "meta.properties").exists()


def test_a_port_open_to_others_without_an_address_for_them_is_warned_about(
    processes: Processes,
) -> None:
    process = processes.serve("--set", "listeners=PLAINTEXT://:0")
    process.end()
    warned = [json.loads(line) for line in process.stderr.splitlines() if "--advertise" in line]
    assert [line["level"] for line in warned] == ["WARN"]


def test_several_errors_of_a_configuration_are_listed_at_once(processes: Processes) -> None:
    process = processes.start("serve", "--set", "num.partitons=3", "--set", "num.partitions=x")
    assert process.wait() == 2
    lines = process.stderr.splitlines()
    assert lines[0] == "error: 2 errors in the configuration"
    assert lines[1] == "  unknown key num.partitons (--set): did you mean num.partitions?"
    assert lines[2].startswith("  Invalid value x for configuration num.partitions: ")


@pytest.fixture
def taken_admin_port() -> Iterator[None]:
    """The default port of metrics and health, taken by this process or by another one."""
    with socket.socket() as taken:
        with contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", 9644))
            taken.listen()
        yield


def test_a_second_broker_goes_on_without_the_default_admin_port(
    processes: Processes, taken_admin_port: None, tmp_path: Path
) -> None:
    words = ("serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
    second = processes.start(*words).wait_ready(admin=False)
    assert api_versions_error(second.ready) == 0
    assert second.end() == 0
    assert "no metrics and health" in second.stderr
    assert "give another port with --admin-port (0 lets the system choose" in second.stderr


def test_an_admin_port_that_was_asked_for_and_is_taken_is_refused(
    processes: Processes, taken_admin_port: None, tmp_path: Path
) -> None:
    words = ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
    process = processes.start("serve", *words, "--admin-port", "9644")
    assert process.wait() == 1
    assert process.stderr.startswith("error: cannot listen on 127.0.0.1:9644 for metrics")
