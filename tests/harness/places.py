"""Where things lie: the checkout, the cache of downloaded peers, the jars of Apache Kafka."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
GOLDEN = CHECKOUT / "tests" / "golden"
CONFORMANCE = CHECKOUT / "tests" / "conformance"
PEERS = CONFORMANCE / "peers"
GO_MODULE = PEERS / "go"
GO_CLIENTS = PEERS / "go-clients"
GO_FUNCTIONAL = PEERS / "go-functional"
KAFKAJS = PEERS / "js"
EXAMPLES = CHECKOUT / "examples" / "faults"

#: Downloads live below the checkout, never in the user's home, and git ignores them.
CACHE = Path(os.environ.get("KAFKALITE_CONFORMANCE_CACHE", str(CHECKOUT / ".cache")))
JARS = CACHE / "kafka" / "libs"
RECEIVER = CACHE / "kafka" / "receiver"
GO_BINARIES = CACHE / "go-bin"
RUST_EXAMPLES = CACHE / "rust-examples"
KAFKAJS_INSTALLED = CACHE / "kafkajs"

#: `make frameworks` fills it; the binding is read from the checkout, it fits any CPython.
FRAMEWORKS_PYTHON = CHECKOUT / ".venv" / "frameworks" / "bin" / "python"

KAFKA_VERSION = "4.3.0"


def clients_jar() -> Path:
    """The jar that holds Kafka's message schemas as JSON."""
    return JARS / f"kafka-clients-{KAFKA_VERSION}.jar"


def streams_jar() -> Path:
    """Kafka Streams, which the broker and its tools do without."""
    return JARS / f"kafka-streams-{KAFKA_VERSION}.jar"


def junit_jar() -> Path:
    """JUnit with its launcher, for an example."""
    return JARS / "junit-platform-console-standalone-1.11.4.jar"


def java() -> str | None:
    """The Java launcher, from ``JAVA_HOME`` first and ``PATH`` second."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")
