"""The load of ``load.py`` from two other producers: our own, and Kafka's VerifiableProducer."""

from __future__ import annotations

import atexit
import json
import subprocess
import threading
import time
from pathlib import Path

import kafkalite as kl
from tests.harness.brokers import java_command
from tests.harness.checker import Outcome, Send
from tests.harness.load import Load
from tests.harness.patience import ended

#: The tool sets no retries of its own; a producer of an application has these.
_JAVA_CONFIG = {
    "retries": "2147483647",
    "enable.idempotence": "true",
    "delivery.timeout.ms": "120000",
    "request.timeout.ms": "10000",
    "reconnect.backoff.max.ms": "200",
    "retry.backoff.ms": "20",
    "retry.backoff.max.ms": "200",
}


class OwnLoad(Load):
    """Our own idempotent producer at a steady rate until told to stop."""

    def __init__(self, name: str, bootstrap: str, topic: str, *, per_second: int) -> None:
        super().__init__(name)
        self.topic = topic
        self.per_second = per_second
        self.ended = threading.Event()
        self.producer = kl.Producer(
            bootstrap_servers=bootstrap, delivery_timeout_ms=120_000, request_timeout_ms=10_000
        )

    def run(self) -> None:
        """Send in small steps, so that the rate is steady."""
        started = time.monotonic()
        while not self.ended.is_set():
            due = int((time.monotonic() - started) * self.per_second)
            while self.sent < due:
                self._send_one()
            time.sleep(0.005)

    def _send_one(self) -> None:
        number = self.sent
        value = f"{self.name}:{number}"

        def told(error: kl.KafkaliteError | None, metadata: kl.RecordMetadata | None) -> None:
            if metadata is not None:
                self.acknowledged(number, value, metadata.partition, metadata.offset)
            else:
                self.errors.append(repr(error))
                self.sends.append(Send(value, 0, Outcome.UNKNOWN))

        key = f"{self.name}-{number % 97}".encode()
        self.producer.produce(self.topic, value.encode(), key=key, on_delivery=told)
        self.sent += 1

    def finish(self, seconds: float = 130) -> None:
        """Stop sending and wait until every record has its answer."""
        self.ended.set()
        ended(self)
        self.producer.flush(seconds)
        self.producer.close()
        assert len(self.sends) == self.sent


class JavaLoad(Load):
    """VerifiableProducer, which prints a line for each answer. Its values are ``PREFIX.NUMBER``."""

    def __init__(
        self, prefix: int, bootstrap: str, topic: str, *, per_second: int, folder: Path
    ) -> None:
        super().__init__(f"java-{prefix}")
        config = folder / f"producer-{prefix}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in _JAVA_CONFIG.items()))
        command = java_command("org.apache.kafka.tools.VerifiableProducer")
        self.command = [
            *command, "--bootstrap-server", bootstrap, "--topic", topic, "--acks", "-1",
            "--max-messages", "-1", "--throughput", str(per_second),
            "--value-prefix", str(prefix), "--command-config", str(config),
        ]  # fmt: skip
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the tool, and read what it prints."""
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        # A test that fails does not come to `finish`, and the tool would run on without an end.
        atexit.register(self.process.kill)
        super().start()

    def run(self) -> None:
        """Note the answers until the tool ends."""
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            if told["name"] not in ("producer_send_success", "producer_send_error"):
                continue
            number = int(told["value"].partition(".")[2])
            self.sent = max(self.sent, number + 1)
            if told["name"] == "producer_send_success":
                self.acknowledged(number, told["value"], told["partition"], told["offset"])
            else:
                self.errors.append(line.strip())
                self.sends.append(Send(told["value"], 0, Outcome.UNKNOWN))

    def finish(self, seconds: float = 130) -> None:
        """Have the tool deliver what it has, and end."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(seconds)
        ended(self)
