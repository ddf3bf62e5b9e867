"""Results of the suites, kept in ``results.json``: the counts of a run for each broker and suite.

``python -m tests.conformance.run --results FILE`` adds the suites that it ran to the file, and
``make scorecard`` draws ``docs/scorecard.md`` from the one that is checked in.

A test counts as one. A test changes that with ``record_property``:

- ``passed`` is the number of its steps;
- ``left_out`` is the number of steps that a file beside it excludes with reasons;
- ``differing`` is the number of cases whose answer differs from Kafka's on purpose.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.harness import places

FILE = places.CONFORMANCE / "results.json"

#: Where the versions of a suite's clients are pinned.
_PYTHON = places.CONFORMANCE / "requirements.txt"
_FRAMEWORKS = places.CHECKOUT / "tests" / "frameworks" / "requirements.txt"
_PINNED: dict[str, tuple[Path, tuple[str, ...]]] = {
    "python": (_PYTHON, ("confluent-kafka", "aiokafka", "kafka-python")),
    "interop": (_PYTHON, ("confluent-kafka", "kafka-python")),
    "segments": (_PYTHON, ("confluent-kafka",)),
    "flights": (_PYTHON, ("confluent-kafka", "aiokafka", "kafka-python")),
    "frameworks": (_FRAMEWORKS, ("faststream", "quixstreams", "faust-streaming")),
    "kgo": (places.GO_MODULE / "go.mod", ("franz-go",)),
    "go-clients": (places.GO_CLIENTS / "go.mod", ("sarama", "kafka-go")),
    "sarama": (places.GO_FUNCTIONAL / "go.mod", ("sarama",)),
    "kafkajs": (places.KAFKAJS / "package.json", ("kafkajs",)),
}
_OF_KAFKA = {"differential", "java", "streams", "interop", "segments"}


#: The columns of a row.
COUNTS = ("passed", "failed", "left_out")


@dataclass(frozen=True)
class Counts:
    """The counts of one run of one suite."""

    passed: int
    failed: int
    left_out: int


def counts_of(report: Path) -> Counts:
    """The counts of a report in JUnit's format, as pytest writes it."""
    passed = failed = left_out = 0
    for case in ElementTree.parse(report).iter("testcase"):
        said = {one.get("name"): int(one.get("value", "0")) for one in case.iter("property")}
        differing = said.get("differing", 0)
        passed -= differing
        left_out += said.get("left_out", 0) + differing
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            left_out += 1
        else:
            passed += said.get("passed", 1)
    return Counts(passed, failed, left_out)


def versions_of(suite: str) -> dict[str, str]:
    """The versions of a suite's clients, from the files that pin them."""
    found = {"Apache Kafka": places.KAFKA_VERSION} if suite in _OF_KAFKA else {}
    if suite == "kcat":
        done = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=False)
        for name, version in re.findall(r"(kcat|librdkafka) ?-? ?v?([\d.]+)", done.stdout):
            found.setdefault(name, version)
    file, names = _PINNED.get(suite, (None, ()))
    text = file.read_text() if file else ""
    for name in names:
        version = re.search(rf"\b{re.escape(name)}\"?(?:==|: \"| v)([\w.]+)", text)
        found[name] = version[1] if version else "unknown"
    return found


def load(file: Path = FILE) -> dict[str, dict[str, Any]]:
    """The results by broker, then by suite; empty if there are none."""
    found: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
    return found


def add(file: Path, broker: str, suite: str, report: Path, *, is_slice: bool) -> None:
    """Replace the counts that the file has for this broker and suite."""
    results = load(file)
    results.setdefault(broker, {})[suite] = {
        **asdict(counts_of(report)),
        "run": "slice" if is_slice else "full",
        "date": datetime.date.today().isoformat(),
        "versions": versions_of(suite),
    }
    ordered = {one: dict(sorted(results[one].items())) for one in sorted(results)}
    file.write_text(json.dumps(ordered, indent=1) + "\n")
