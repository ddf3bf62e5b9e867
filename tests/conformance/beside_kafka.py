"""Runs a command while Apache Kafka runs; ``{broker}`` in it becomes Kafka's address.

``python -m tests.conformance.beside_kafka --set num.partitions=1 pytest tests/clients
--kafkalite-external {broker}``: keys of Kafka come first.
"""

from __future__ import annotations

import subprocess
import sys

from tests.harness import brokers


def main(command: list[str]) -> int:
    """Return the command's exit status."""
    config: dict[str, str] = {}
    while command[:1] == ["--set"]:
        key, _, value = command[1].partition("=")
        config[key] = value
        command = command[2:]
    with brokers.serving("kafka", config) as kafka:
        words = [word.replace("{broker}", kafka.bootstrap) for word in command]
        return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
