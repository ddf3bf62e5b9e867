"""Runs Kafka's own command line tools out of the jars."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from tests.harness.brokers import java_command

TOOLS = "org.apache.kafka.tools."
TOPICS = TOOLS + "TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = TOOLS + "consumer.group.ConsumerGroupCommand"
CONSOLE_PRODUCER = TOOLS + "ConsoleProducer"
CONSOLE_CONSUMER = TOOLS + "consumer.ConsoleConsumer"
DUMP = TOOLS + "DumpLogSegments"


@dataclass(frozen=True)
class Outcome:
    """What a tool printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of stdout that are not empty."""
        return [line for line in self.out.splitlines() if line.strip()]


def run(main: str, *arguments: str, stdin: str = "", timeout: float = 90) -> Outcome:
    """Run a tool to its end, whatever the end is."""
    done = subprocess.run(
        [*java_command(main), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def succeed(main: str, *arguments: str, stdin: str = "", timeout: float = 90) -> Outcome:
    """Run a tool that has to exit with 0."""
    outcome = run(main, *arguments, stdin=stdin, timeout=timeout)
    said = f"{main} {' '.join(arguments)}\n{outcome.out[-3000:]}\n{outcome.err[-3000:]}"
    assert outcome.status == 0, said
    return outcome
