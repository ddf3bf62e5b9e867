"""Programs with clients of other languages: what they see here beside what they saw on Kafka.

Each program goes through the same steps and prints one JSON object a line, ``{"step", "saw"}``.
``python -m tests.conformance.scripts --broker kafka --record`` writes down what Apache Kafka let
them see.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness import brokers, places

GOLDEN_FILE = places.GOLDEN / "scripts.json"

#: What a program saw at one of its steps.
Step = dict[str, Any]


@dataclass(frozen=True)
class Script:
    """A program, and whatever must be there to run it."""

    command: tuple[str, ...]
    needs: Path
    tool: str

    def is_missing(self) -> str:
        """What is not there; empty if everything is."""
        if shutil.which(self.tool) is None:
            return self.tool
        return "" if self.needs.exists() else self.needs.name

    def play(self, bootstrap: str) -> list[Step]:
        """All steps; an error of the program is an error here."""
        words = {"{broker}": bootstrap, "{prefix}": f"s{uuid.uuid4().hex[:6]}"}
        modules = str(places.KAFKAJS_INSTALLED / "node_modules")
        done = subprocess.run(
            [words.get(word, word) for word in self.command],
            env=dict(os.environ, NODE_PATH=modules),
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, f"{self.command}\n{done.stdout[-2000:]}\n{done.stderr}"
        return [json.loads(line) for line in done.stdout.splitlines()]


def _go(program: str, *words: str) -> Script:
    binary = places.GO_BINARIES / program
    command = (str(binary), "-brokers", "{broker}", "-prefix", "{prefix}", *words)
    return Script(command, binary, "go")


SCRIPTS: dict[str, Script] = {
    "sarama as 2.1.0": _go("sarama", "-version", "2.1.0"),
    "sarama as 2.4.0": _go("sarama", "-version", "2.4.0"),
    "sarama as 3.6.0": _go("sarama", "-version", "3.6.0"),
    "kafka-go": _go("kafkago"),
    "kadm": _go("kadm"),
    "kafkajs": Script(
        ("node", str(places.KAFKAJS / "script.js"), "{broker}", "{prefix}"),
        places.KAFKAJS_INSTALLED / "node_modules",
        "node",
    ),
}


def golden() -> dict[str, list[Step]]:
    """What each program saw of Apache Kafka."""
    saw: dict[str, list[Step]] = json.loads(GOLDEN_FILE.read_text())["scripts"]
    return saw


def main(arguments: list[str] | None = None) -> int:
    """Play them all; record, or print which saw something else. 0: none did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", default="kafkalite", help="kafkalite, kafka or HOST:PORT")
    parser.add_argument("--record", action="store_true", help="write the golden steps")
    options = parser.parse_args(arguments)
    with brokers.serving(options.broker) as broker:
        seen = {name: script.play(broker.bootstrap) for name, script in SCRIPTS.items()}
    if options.record:
        captured = {
            "broker": f"Apache Kafka {places.KAFKA_VERSION}, broker and controller in one JVM",
            "command": "python -m tests.conformance.scripts --broker kafka --record",
        }
        text = {"captured": captured, "scripts": seen}
        GOLDEN_FILE.write_text(json.dumps(text, indent=1) + "\n")
        return 0
    others = [name for name, steps in seen.items() if steps != golden()[name]]
    print("\n".join(f"{name} saw something else" for name in others))
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
