"""Every field of every page is filled with what tries to be code, and every form is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from playwright.sync_api import expect

from tests.console.conftest import HOSTILE, report_hostile
from tests.console.test_console import PLACES as ALL
from tests.harness.process import Process, Processes

#: Where there are fields, with how many of them there are at least.
PLACES = {
    "topics": 4,
    "topics/orders/messages": 5,
    "topics/orders/partitions": 1,
    "topics/orders/configuration": 3,
    "topics/orders/segments": 1,
    "groups": 1,
    "groups/billing": 3,
    "clients": 1,
    "clients/metrics": 1,
    "broker/configuration": 3,
    "broker/log": 1,
    "faults": 8,
}

#: Fills all fields with each text in turn, and sends all forms.
FILL = (Path(__file__).parent / "fill_fields.js").read_text()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A broker that takes changes and faults, with a topic, a group and reports of clients."""
    started = Processes(tmp_path_factory.mktemp("fields"))
    process = started.serve("--profile", "dev", "--console-write", "--topic", "orders:1")
    consumer = Consumer({"bootstrap.servers": process.ready, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    consumer.close()
    report_hostile(process)
    yield process
    started.close()


@pytest.mark.parametrize("part", [0, 1])
def test_no_field_runs_what_is_typed_into_it(broker: Process, pages: Any, part: int) -> None:
    # Tabs at a time: few enough for the streams of a broker.
    tabs = {place: pages(broker.admin) for place in list(PLACES)[part::2]}
    for place, tab in tabs.items():
        page = tab.open(place)
        page.locator("main input").first.wait_for(state="attached")
        page.evaluate(f"texts => {{ window.filled = ({FILL}\n)(texts); }}", list(HOSTILE))
    for place, tab in tabs.items():
        fields = tab.page.evaluate("() => window.filled")
        assert len(fields) >= PLACES[place], (place, fields)
        expect(tab.page.locator("main h1")).to_have_count(1)
        assert tab.page.locator("main script, main iframe").count() == 0


def test_every_page_with_fields_is_in_the_list(broker: Process, pages: Any) -> None:
    tab = pages(broker.admin)
    for place in ALL:
        fields = tab.open(place).locator("main input:not([type=range]), main textarea")
        if place in PLACES:
            fields.first.wait_for(state="attached")
        assert (place in PLACES) == (fields.count() > 0), place


def test_no_token_runs_or_locks_the_console(processes: Processes, pages: Any) -> None:
    broker = processes.serve("--set", "kafkalite.admin.token=secret")
    tab = pages(broker.admin)
    page = tab.page
    page.goto(f"{broker.admin}/console")
    for text in HOSTILE:
        page.get_by_label("Token").fill(text)
        with page.expect_navigation():
            page.get_by_role("button", name="Open the console").click()
        page.get_by_label("Token").wait_for()
    page.get_by_label("Token").fill("secret")
    page.get_by_role("button", name="Open the console").click()
    expect(page.locator("header [role=status]")).to_have_text("live")
