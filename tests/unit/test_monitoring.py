"""The dashboard and the alert rules name metrics, and labels, that a broker exports."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.harness.process import PATIENCE_S, Process, Processes

FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana-dashboard.json").read_text())
ALERTS = (FOLDER / "alerts.yml").read_text()
#: What Prometheus itself makes.
OF_PROMETHEUS = {"up"}
_NAME = re.compile(r"\b((?:kafka|kafkalite|process)_\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")


def expressions() -> list[str]:
    """Every expression of both files."""
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    folded = re.sub(r">-\n\s+", "", re.sub(r"\n {10}(?=\S)", " ", ALERTS))
    return queries + re.findall(r"^ +expr: (.*)$", folded, re.MULTILINE)


def named() -> set[str]:
    """Every metric that an expression of them names."""
    return {name for expression in expressions() for name, _ in _NAME.findall(expression)}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The names that a broker exports after some work, each with its labels."""
    started = Processes(tmp_path_factory.mktemp("monitored"))
    try:
        yield samples(worked(started))
    finally:
        started.close()


def worked(started: Processes) -> Process:
    """A broker that has served a producer and a group."""
    broker = started.serve("--profile", "dev", "--topic", "orders:1")
    producer = Producer({"bootstrap.servers": broker.ready})
    producer.produce("orders", b"v")
    assert producer.flush(PATIENCE_S) == 0
    keys = {"bootstrap.servers": broker.ready, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(keys)
    consumer.subscribe(["orders"])
    assert len(consumer.consume(1, timeout=PATIENCE_S)) == 1
    consumer.commit(asynchronous=False)
    consumer.close()
    return broker


def samples(broker: Process) -> dict[str, set[str]]:
    """The labels of each name on the pages."""
    found: dict[str, set[str]] = {}
    for page in ("/metrics", "/metrics/topics", "/metrics/groups", "/metrics/clients"):
        with urllib.request.urlopen(broker.admin + page, timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
        for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
            found.setdefault(name, set()).update(_LABEL.findall(labels))
    return found


def test_there_are_expressions_in_both_files() -> None:
    assert len(expressions()) >= 25
    assert len(re.findall(r"- alert:", ALERTS)) == ALERTS.count("action:") == 11


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_names_what_is_exported(
    exported: dict[str, set[str]], expression: str
) -> None:
    named = _NAME.findall(expression)
    assert named or expression.startswith(tuple(OF_PROMETHEUS)), expression
    for name, labels in named:
        assert name in exported
        # Prometheus adds the instance and the job.
        asked = set(_LABEL.findall(re.sub(r'"[^"]*"', '""', labels)))
        assert asked - {"instance", "job"} <= exported[name]


def test_panels_do_not_cover_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
