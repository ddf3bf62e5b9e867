"""The page of faults: stages that stand still, faults, and the clock of a broker under test."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import expect

from tests.console.conftest import HOSTILE, eventually
from tests.harness.process import PATIENCE_S, Process, Processes


@pytest.fixture
def broker(processes: Processes) -> Process:
    """A broker under test of its own."""
    return processes.serve("--profile", "dev", "--topic", "orders:1")


def told(broker: Process, path: str) -> Any:
    """What the admin API answers."""
    with urllib.request.urlopen(f"{broker.admin}/api/v1{path}", timeout=PATIENCE_S) as answer:
        return json.load(answer)


def test_a_button_stalls_a_stage_and_lets_it_go_on(broker: Process, pages: Any) -> None:
    page = pages(broker.admin).open("faults")
    button = page.get_by_role("button", name="Request queue")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    producer = Producer({"bootstrap.servers": broker.ready})
    producer.produce("orders", b"held")
    eventually(lambda: producer.poll(0.05) == 0 and told(broker, "/faults")["faults"][0]["fired"])
    assert len(producer) == 1
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    assert producer.flush(PATIENCE_S) == 0


def test_a_fault_is_added_counted_and_removed(broker: Process, pages: Any) -> None:
    page = pages(broker.admin).open("faults")
    page.get_by_role("textbox", name="API").fill("Produce")
    page.get_by_role("textbox", name="Error").fill("NOT_LEADER_OR_FOLLOWER")
    page.get_by_role("spinbutton", name="Times").fill("1")
    page.get_by_role("button", name="Add the fault").click()
    row = page.locator("tbody tr")
    expect(row).to_contain_text("error=NOT_LEADER_OR_FOLLOWER")
    producer = Producer({"bootstrap.servers": broker.ready})
    producer.produce("orders", b"once")
    assert producer.flush(PATIENCE_S) == 0
    expect(row).to_contain_text("spent")
    page.get_by_role("button", name="Remove fault").click()
    expect(page.get_by_text("There are no faults.")).to_be_visible()


def test_what_the_broker_refuses_is_shown_in_words(broker: Process, pages: Any) -> None:
    page = pages(broker.admin).open("faults")
    for text in HOSTILE[:8]:
        page.get_by_role("textbox", name="API").fill(text)
        page.get_by_role("textbox", name="Error").fill(text)
        page.get_by_role("button", name="Add the fault").click()
        expect(page.get_by_role("alert")).to_be_visible()
    assert told(broker, "/faults") == {"faults": []}


def test_the_clock_moves_forward(broker: Process, pages: Any) -> None:
    page = pages(broker.admin).open("faults")
    page.get_by_role("button", name="Forward 8 days").click()
    eventually(lambda: told(broker, "/clock")["wall_ahead_ms"] == 8 * 86_400_000)


def test_a_broker_that_is_not_under_test_has_no_such_page(processes: Processes, pages: Any) -> None:
    broker = processes.serve("--topic", "orders:1")
    page = pages(broker.admin).open("overview")
    page.get_by_role("link", name="Cluster").wait_for()
    assert page.get_by_role("link", name="Faults").count() == 0
    page = pages(broker.admin).open("faults")
    expect(page.get_by_role("alert")).to_contain_text("test control is off")
