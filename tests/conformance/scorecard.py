"""Draws ``docs/scorecard.md``: foreign suites, and ratios beside Apache Kafka.

    python -m tests.conformance.scorecard            # writes the page and the README's rows
    make scorecard                                   # the same

The counts come from ``results.json``, the ratios from ``benches/results/ratios.json``. The page has
no figure that is not in one of these files.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from tests.conformance import results
from tests.harness import places

PAGE = places.CHECKOUT / "docs" / "scorecard.md"
README = places.CHECKOUT / "README.md"
RATIOS = places.CHECKOUT / "benches" / "results" / "ratios.json"

#: The foreign suites and what each of them checks, in the order of the page.
SUITES = {
    "differential": "raw requests, each answer compared with a recorded answer of Apache Kafka",
    "java": "Kafka's own command-line tools and self-checking clients",
    "streams": "Kafka Streams: state, changelogs, joins, windows, restored instances",
    "python": "confluent-kafka, aiokafka, kafka-python",
    "kcat": "librdkafka's command line, every codec",
    "kgo": "franz-go's own tests of its client",
    "go-clients": "sarama, kafka-go and kadm, step by step as on Apache Kafka",
    "sarama": "sarama's own functional tests, on five brokers",
    "kafkajs": "kafkajs, step by step as on Apache Kafka",
    "interop": "records of our clients read by others, and the other way round",
    "segments": "a partition carried from Kafka to kafkalite and back",
    "flights": "336,776 real rows, five codecs, through kills of the broker",
    "frameworks": "FastStream, Quix Streams, Faust, OpenTelemetry",
}

HEAD = """\
# Scorecard: kafkalite beside Apache Kafka

`make scorecard` draws this page from recorded runs. Do not edit the page.

## Foreign suites

Clients and tools of other projects judge the broker. This command runs them and records the counts:

```console
python -m tests.conformance.run --slice --results tests/conformance/results.json
```

With `--broker kafka` the same suites judge Apache Kafka. "Left out" counts skipped tests, excluded
tests, and cases with an answer that differs from Kafka's on purpose. `tests/conformance` has the
reasons.

"""

#: The columns of the first table.
COLUMNS = ["suite", "what judges", "versions", "kafkalite: passed", "failed", "left out"]
COLUMNS += ["Apache Kafka: passed", "failed", "left out", "run"]

RATIO_HEAD = """
## Beside Apache Kafka

Each row is one measurement of both sides on one machine, in turns. A ratio above 1 is in favour of
kafkalite. `benches/beside_kafka.py` ran beside other work on two shared cores, with a kafkalite
that has debug assertions and few optimisations.

| what | theirs | kafkalite | ratio | command | measured |
|---|---|---|---|---|---|
"""


def clients_of(run: dict[str, Any]) -> str:
    """The clients of a run with their versions."""
    return ", ".join(f"{who} {version}" for who, version in run["versions"].items())


def table_head(columns: list[str]) -> str:
    """The first two lines of a table."""
    return f"| {' | '.join(columns)} |\n" + "|---" * len(columns) + "|\n"


def suite_row(
    name: str, what: str, ours: dict[str, Any] | None, kafka: dict[str, Any] | None
) -> str:
    """One suite; a suite that was not recorded says so."""
    cells = [f"`{name}`", what, clients_of(ours) if ours else ""]
    for run in (ours, kafka):
        cells += [str(run[one]) if run else "not run" for one in results.COUNTS]
    return "| " + " | ".join([*cells, f"{ours['run']}, {ours['date']}" if ours else ""]) + " |\n"


def page() -> str:
    """The whole page."""
    found = results.load()
    ours, kafka = found["kafkalite"], found.get("kafka", {})
    rows = [suite_row(one, what, ours.get(one), kafka.get(one)) for one, what in SUITES.items()]
    ratios = json.loads(RATIOS.read_text())
    ratio_rows = [
        f"| {one['what']} | {one['who']}: {one['theirs']} | {one['ours']} | {one['ratio']} "
        f"| `{one['command']}` | {one['measured']} |\n"
        for one in ratios
    ]
    return HEAD + table_head(COLUMNS) + "".join(rows) + RATIO_HEAD + "".join(ratio_rows)


def readme_blocks() -> dict[str, str]:
    """The blocks of the README that are drawn, by their names."""
    ours = results.load()["kafkalite"]
    clients = [
        f"| {clients_of(ours[one])} | {ours[one]['passed']} | {ours[one]['failed']} |\n"
        for one in ("python", "java", "kcat", "kgo", "go-clients", "kafkajs", "frameworks")
        if one in ours
    ]
    numbers = [
        f"| {one['what']} | {one['theirs']} | {one['ours']} | {one['ratio']} |\n"
        for one in json.loads(RATIOS.read_text())
        if one.get("readme")
    ]
    return {
        "clients": table_head(["client", "tests passed", "failed"]) + "".join(clients),
        "numbers": table_head(["", "Apache Kafka", "kafkalite", "ratio"]) + "".join(numbers),
    }


def readme() -> str:
    """The README with its drawn blocks."""
    text = README.read_text()
    for name, block in readme_blocks().items():
        marks = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        text, count = re.subn(marks, rf"\1{block}\2", text, flags=re.DOTALL)
        assert count == 1, f"README.md has no block {name}"
    return text


def main() -> int:
    """Write both files."""
    for path, text in ((PAGE, page()), (README, readme())):
        Path(path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
