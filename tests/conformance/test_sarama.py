"""sarama's own functional tests, which want five brokers behind toxiproxy.

They run unmodified, unless ``sarama_excluded.toml`` names one with a reason. The addresses of the
proxies are fixed in sarama; the brokers advertise them, so that cut connections are cut for all.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.conformance.budget import Budget
from tests.harness import brokers, places
from tests.harness.cluster import Cluster, Member
from tests.harness.patience import eventually

BROKERS = 5
#: Broker 1 is behind the next port, and so on: as in sarama's ``functional_test.go``.
PORTS_FROM = 29_090
CONFIG = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
#: They expect at least so many batches of sarama, which makes fewer on a busy machine. They are
#: tried twice.
COUNT_BATCHES = frozenset({"TestFuncProducing", "TestFuncProducingFlushing"})
_TEST = re.compile(r"^func (Test\w+)\(t \*testing\.T", re.MULTILINE)
_VERDICT = re.compile(r"^--- (PASS|FAIL|SKIP): (Test\w+) \(", re.MULTILINE)


class Proxied(Member):
    """A broker that is known by the address of its proxy, and in a rack of its own."""

    number = 0

    def command(self) -> list[str]:
        """With its address and its rack."""
        advertised = f"PLAINTEXT://127.0.0.1:{PORTS_FROM + self.number}"
        own = {"advertised.listeners": advertised, "broker.rack": str(self.number)}
        return [
            *super().command(),
            *(word for key, value in own.items() for word in ("--set", f"{key}={value}")),
        ]


class FiveBrokers(Cluster):
    """Brokers behind a toxiproxy."""

    def __init__(self, folder: Path, toxiproxy: str) -> None:
        super().__init__(folder, CONFIG, BROKERS)
        self.toxiproxy = toxiproxy

    def make(self, data_dir: Path, join: str | None) -> Member:
        """The next broker, with its proxy."""
        member = Proxied(data_dir, self.config, join)
        member.number = len(self.members) + 1
        member.port = brokers.free_port()
        proxy = {
            "name": f"kafka{member.number}",
            "listen": f"127.0.0.1:{PORTS_FROM + member.number}",
            "upstream": member.bootstrap,
            "enabled": True,
        }
        asked = urllib.request.Request(f"{self.toxiproxy}/proxies", json.dumps(proxy).encode())
        with urllib.request.urlopen(asked, timeout=10) as answer:
            assert answer.status == 201
        return member


class Compose(HTTPServer):
    """Takes the place of ``docker compose``, by which a few tests stop and start a broker."""

    def __init__(self, five: FiveBrokers, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Composed)
        self.five = five
        self.bin = folder / "bin"
        self.bin.mkdir()
        docker = self.bin / "docker"
        docker.write_text(
            f"#!{sys.executable}\nimport sys, urllib.request\n_, _, what, service = sys.argv\n"
            f"url = f'http://127.0.0.1:{self.server_port}/{{what}}/{{service}}'\n"
            "urllib.request.urlopen(url, timeout=60).read()\n"
        )
        docker.chmod(0o755)


class Composed(BaseHTTPRequestHandler):
    """One call of ``docker compose stop kafka-2``."""

    def do_GET(self) -> None:
        """Stop or start the broker, and answer once that is done."""
        assert isinstance(self.server, Compose)
        _, what, service = self.path.split("/")
        member = self.server.five.members[int(service.removeprefix("kafka-"))]
        if what == "stop":
            member.stop()
        else:
            member.start()
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: the tests say what they do."""


@functools.cache
def source() -> Path:
    """sarama in the Go module cache."""
    listing = ["go", "list", "-m", "-f", "{{.Dir}}", "github.com/IBM/sarama"]
    done = subprocess.run(
        listing, cwd=places.GO_FUNCTIONAL, capture_output=True, text=True, check=True, timeout=120
    )
    return Path(done.stdout.strip())


@functools.cache
def functional_tests() -> frozenset[str]:
    """Names of all functional tests."""
    found = (_TEST.findall(path.read_text()) for path in source().glob("functional_*test.go"))
    return frozenset(name for names in found for name in names)


def excluded_tests() -> dict[str, str]:
    """Excluded names and their reasons."""
    table = tomllib.loads((places.CONFORMANCE / "sarama_excluded.toml").read_text())
    return {name: group["reason"] for group in table.values() for name in group["tests"]}


@pytest.fixture(scope="module", autouse=True)
def binaries() -> None:
    """The compiled tests and toxiproxy, or a skip that says how to get them."""
    needed = [places.GO_BINARIES / name for name in ("sarama.test", "toxiproxy")]
    if not all(path.exists() for path in needed) or shutil.which("go") is None:
        pytest.skip("sarama.test is missing: python tests/conformance/prerequisites.py --install")


@contextmanager
def toxiproxy_at(port: int) -> Iterator[str]:
    """A toxiproxy without proxies; its URL."""
    command = [str(places.GO_BINARIES / "toxiproxy"), "-host", "127.0.0.1", "-port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{url}/version", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        eventually(answers)
        yield url
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def five(broker_kind: str, tmp_path: Path) -> Iterator[FiveBrokers]:
    """Five brokers of ours behind a toxiproxy."""
    if broker_kind != "kafkalite":
        pytest.skip("five brokers are started of ours only")
    with toxiproxy_at(brokers.free_port()) as url:
        running = FiveBrokers(tmp_path, url)
        try:
            running.start()
            yield running
        finally:
            running.close()


def run(
    url: str, names: set[str], release: str, seconds: int, path: Path
) -> tuple[dict[str, str], str]:
    """Run these tests; the verdict of each and the whole output."""
    pattern = "^(" + "|".join(sorted(names)) + ")$"
    command = [str(places.GO_BINARIES / "sarama.test"), "-test.v", f"-test.timeout={seconds}s"]
    done = subprocess.run(
        [*command, f"-test.run={pattern}"],
        cwd=source(),
        env=dict(
            os.environ,
            TOXIPROXY_ADDR=url,
            KAFKA_VERSION=release,
            PATH=f"{path}:{os.environ['PATH']}",
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds + 10,
        check=False,
    )
    verdicts = {name: verdict for verdict, name in _VERDICT.findall(done.stdout)}
    return verdicts, done.stdout


def test_every_excluded_name_is_a_functional_test() -> None:
    assert set(excluded_tests()) <= functional_tests()


def test_sarama_passes_its_functional_tests_on_five_brokers(
    five: FiveBrokers,
    budget: Budget,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    names = set(functional_tests() - set(excluded_tests()))
    if budget.sarama_tests:
        names &= set(budget.sarama_tests.split(","))
    record_property("passed", len(names))
    record_property("left_out", len(excluded_tests()))
    compose = Compose(five, tmp_path)
    threading.Thread(target=compose.serve_forever, daemon=True).start()
    counts = (budget.sarama_release, budget.sarama_seconds)
    verdicts, output = run(five.toxiproxy, names, *counts, path=compose.bin)
    if again := {name for name in names & COUNT_BATCHES if verdicts.get(name) != "PASS"}:
        second, said = run(five.toxiproxy, again, *counts, path=compose.bin)
        verdicts, output = verdicts | second, output + said
    compose.shutdown()
    compose.server_close()
    wrong = {name: verdicts.get(name, "NOT RUN") for name in sorted(names)}
    wrong = {name: verdict for name, verdict in wrong.items() if verdict != "PASS"}
    assert not wrong, f"{wrong}\n{output[-6000:]}"
    print(f"{len(names)} tests passed on {BROKERS} brokers")
