"""Brokers to judge: ours, Apache Kafka's, or one that is running already.

Each kind starts on a free port of 127.0.0.1 with a data directory. It answers ``ready`` once the
first ApiVersions request is served. It can be stopped (SIGTERM), killed (SIGKILL) and started
again with its data on the same port.
"""

from __future__ import annotations

import abc
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.harness import places

#: What every suite expects, on either kind of broker: Kafka's keys.
SUITE_CONFIG: dict[str, str] = {
    "auto.create.topics.enable": "true",
    "num.partitions": "4",
    "delete.topic.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
}

#: Only Apache Kafka needs these to run alone on one node.
_KAFKA_ALONE: dict[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Without a plug-in that takes client metrics, Kafka does not serve their requests.
    "metric.reporters": "TelemetryReceiver",
}

_CLUSTER_ID = "a2Fma2FsaXRlLXBlZXJzMQ"


class BrokerFailed(AssertionError):
    """The broker's process ended, or did not become ready in time."""


def free_port() -> int:
    """A port of 127.0.0.1 without a listener at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers_api_versions(port: int, timeout: float = 1.0, host: str = "127.0.0.1") -> bool:
    """Whether an ApiVersions v0 request on this port gets an answer without error."""
    header = struct.pack(">hhih", 18, 0, 7, -1)
    try:
        with socket.create_connection((host, port), timeout) as peer:
            peer.settimeout(timeout)
            peer.sendall(struct.pack(">i", len(header)) + header)
            answer = peer.recv(10)
            return len(answer) == 10 and struct.unpack(">iih", answer)[1:] == (7, 0)
    except OSError:
        return False


class Broker(abc.ABC):
    """A broker under judgement. ``port`` is fixed by the first start and kept by later ones."""

    kind = ""
    can_restart = True
    #: The address that it listens at.
    host = "127.0.0.1"

    def __init__(self, data_dir: Path, config: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.config = {**SUITE_CONFIG, **(config or {})}
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.log_path = data_dir.with_name(data_dir.name + ".output")
        self.starts = 0

    @property
    def bootstrap(self) -> str:
        """``HOST:PORT`` for clients."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """Process id of the running broker."""
        if self.process is None:
            raise BrokerFailed(f"{self.kind} is not running")
        return self.process.pid

    @abc.abstractmethod
    def command(self) -> list[str]:
        """The command line; called at every start."""

    def start(self, timeout: float = 60.0, pause: float = 0.02) -> float:
        """Start and wait until ready. Returns the seconds from spawn to the first answer, as exact
        as the ``pause`` between two questions.
        """
        before = self.launch()
        self.wait_ready(timeout, pause)
        return time.monotonic() - before

    def launch(self) -> float:
        """Start the process; return the time, on the monotonic clock, just before."""
        self.prepare()
        self.starts += 1
        before = time.monotonic()
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                self.command(),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment(),
                cwd=places.CHECKOUT,
            )
        return before

    def wait_ready(self, timeout: float = 60.0, pause: float = 0.02) -> None:
        """Wait until a launched broker is ready; it is killed if it is not in time."""
        assert self.process is not None
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise BrokerFailed(f"{self.kind} ended at start:\n{self.tail()}")
            if self.is_ready():
                return
            time.sleep(pause)
        self.kill()
        raise BrokerFailed(f"{self.kind} was not ready after {timeout} s:\n{self.tail()}")

    def prepare(self) -> None:
        """What must be on disk before a start."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()

    def environment(self) -> dict[str, str]:
        """The process environment, without the variable of the suites: no key of a broker."""
        own = "KAFKALITE_CONFORMANCE_CACHE"
        return {name: value for name, value in os.environ.items() if name != own}

    def is_ready(self) -> bool:
        """Whether the broker serves."""
        return answers_api_versions(self.port, host=self.host)

    def is_alive(self) -> bool:
        """Whether its process still runs."""
        return self.process is not None and self.process.poll() is None

    def stop(self, timeout: float = 30.0) -> int:
        """SIGTERM, wait; SIGKILL after ``timeout`` seconds. Returns the exit status."""
        return self._end(signal.SIGTERM, timeout)

    def kill(self) -> None:
        """SIGKILL: no flush, no goodbye."""
        self._end(signal.SIGKILL, 30.0)

    def _end(self, how: signal.Signals, timeout: float) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(how)
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)
            return -signal.SIGKILL

    def restart(self, *, hard: bool = False, timeout: float = 60.0) -> float:
        """Stop (or kill) and start with the same data and port. Seconds until ready."""
        if hard:
            self.kill()
        else:
            self.stop()
        return self.start(timeout)

    def rss_bytes(self) -> int:
        """Resident memory of the broker's process, in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found.group(1)) * 1024 if found else 0

    def tail(self, lines: int = 40) -> str:
        """The last lines the broker printed."""
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def partition_dir(self, topic: str, partition: int) -> Path:
        """Where the segments of a partition lie."""
        return self.data_dir / f"{topic}-{partition}"


class Kafkalite(Broker):
    """Our broker: ``python -m kafkalite serve``; it prints ``ready: HOST:PORT``."""

    kind = "kafkalite"

    def command(self) -> list[str]:
        """The port is given, so that a restart answers at the same address."""
        serve = [sys.executable, "-m", "kafkalite", "serve"]
        serve += ["--listen", self.bootstrap, "--data-dir", str(self.data_dir)]
        serve += ["--admin-port", "0"]
        for key, value in self.config.items():
            serve += ["--set", f"{key}={value}"]
        return serve

    def is_ready(self) -> bool:
        """The line on stdout comes once for each start, and the port answers."""
        text = self.log_path.read_text(errors="replace")
        said = len(re.findall(r"^ready: ", text, re.MULTILINE)) >= self.starts
        return said and answers_api_versions(self.port, host=self.host)

    def admin_url(self) -> str:
        """The URL of metrics and health, from the last ``admin:`` line."""
        found = re.findall(r"^admin: (\S+)", self.log_path.read_text(), re.MULTILINE)
        return found[-1] if found else ""


class ApacheKafka(Broker):
    """Apache Kafka from the jars of ``peers/pom.xml``: broker and controller in one JVM."""

    kind = "kafka"
    heap = "768m"

    def __init__(self, data_dir: Path, config: Mapping[str, str] | None = None) -> None:
        super().__init__(data_dir, config)
        self.controller_port = 0

    def prepare(self) -> None:
        """Write ``server.properties`` beside the data and format the directory once."""
        super().prepare()
        compile_receiver()
        self.controller_port = self.controller_port or free_port()
        properties = self._properties_path()
        listener = f"PLAINTEXT://{self.bootstrap}"
        lines = {
            **_KAFKA_ALONE,
            **self.config,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"{listener},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": listener,
            "log.dirs": str(self.data_dir),
        }
        properties.write_text("".join(f"{k}={v}\n" for k, v in lines.items()))
        if not (self.data_dir / "meta.properties").exists():
            tool = java_command("kafka.tools.StorageTool", heap="256m")
            format_dir = [*tool, "format", "-t", _CLUSTER_ID, "-c", str(properties)]
            subprocess.run(format_dir, check=True, capture_output=True, timeout=120)

    def _properties_path(self) -> Path:
        return self.data_dir.with_name(self.data_dir.name + ".properties")

    def command(self) -> list[str]:
        """One JVM; no launcher script lies between us and its process."""
        return [*java_command("kafka.Kafka", heap=self.heap), str(self._properties_path())]


class ExternalBroker(Broker):
    """A broker that is running already: tests can only talk to it."""

    kind = "external"
    can_restart = False

    def __init__(self, address: str) -> None:
        super().__init__(Path("/nonexistent"))
        self.address = address

    @property
    def bootstrap(self) -> str:
        """The address as it was given."""
        return self.address

    def command(self) -> list[str]:
        """There is none."""
        raise BrokerFailed("an external broker is not started here")

    def start(self, timeout: float = 60.0, pause: float = 0.02) -> float:
        """Nothing to start."""
        host, _, port = self.address.rpartition(":")
        self.port = int(port)
        if host not in ("127.0.0.1", "localhost"):
            raise BrokerFailed(f"only loopback is judged here, not {self.address}")
        return 0.0

    def stop(self, timeout: float = 30.0) -> int:
        """Nothing to stop."""
        return 0


def java_command(main: str, *, heap: str = "256m") -> list[str]:
    """The Java launcher with Kafka's class path and quiet logging."""
    launcher = places.java()
    if launcher is None or not places.clients_jar().exists():
        raise BrokerFailed("no JDK or no jars: python tests/conformance/prerequisites.py --install")
    return [
        launcher, f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
        f"-Dlog4j2.configurationFile={places.PEERS / 'log4j2.xml'}",
        "-cp", f"{places.JARS}/*:{places.RECEIVER}", main,
    ]  # fmt: skip


def compile_receiver() -> None:
    """Compile Kafka's plug-in for client metrics into the cache, once."""
    source = places.CONFORMANCE / "java" / "TelemetryReceiver.java"
    compiled = places.RECEIVER / "TelemetryReceiver.class"
    if compiled.exists() and compiled.stat().st_mtime >= source.stat().st_mtime:
        return
    javac = ["javac", "-nowarn", "-cp", f"{places.JARS}/*", "-d", str(places.RECEIVER), str(source)]
    subprocess.run(javac, check=True, capture_output=True, timeout=120)


def make(kind: str, data_dir: Path, config: Mapping[str, str] | None = None) -> Broker:
    """A broker of this kind, not started: ``kafkalite``, ``kafka`` or ``HOST:PORT``."""
    if kind == "kafkalite":
        return Kafkalite(data_dir, config)
    if kind == "kafka":
        return ApacheKafka(data_dir, config)
    return ExternalBroker(kind)


@contextmanager
def serving(kind: str, config: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """A broker of this kind for the length of a block; its data are gone with it."""
    with tempfile.TemporaryDirectory() as folder:
        broker = make(kind, Path(folder) / "data", config)
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()


def remove_data(broker: Broker) -> None:
    """Remove what a stopped broker left on disk."""
    if broker.can_restart:
        shutil.rmtree(broker.data_dir, ignore_errors=True)
