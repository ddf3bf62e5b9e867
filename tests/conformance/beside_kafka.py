"""Runs a command while Apache Kafka runs; ``{broker}`` in it becomes Kafka's address.

``python -m tests.conformance.beside_kafka pytest tests/clients --kafkalite-external {broker}``
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.conformance import brokers


def main(command: list[str]) -> int:
    """Return the command's exit status."""
    with tempfile.TemporaryDirectory() as directory:
        kafka = brokers.make("kafka", Path(directory) / "data")
        kafka.start()
        try:
            words = [word.replace("{broker}", kafka.bootstrap) for word in command]
            return subprocess.run(words, check=False).returncode
        finally:
            kafka.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
