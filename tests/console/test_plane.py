"""The picture of the data plane: what one does with it, and what it shows of a stalled stage."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import expect

from tests.console.conftest import eventually
from tests.harness.process import PATIENCE_S, Process, Processes

#: The stages that can stand still, each with the title of its box.
STALLS = {
    "Request queue": "Request queue",
    "I/O threads": "I/O threads",
    "Commit log": "Commit log",
    "Response queue": "Response queues",
}

#: Keeps how long each dot was on its way, in ms.
WATCH = (Path(__file__).parent / "watch_dots.js").read_text()

#: A dot that rests in a stage, below nothing else: the middle of it.
RESTING = (Path(__file__).parent / "resting_dot.js").read_text()


@pytest.fixture
def broker(processes: Processes) -> Process:
    """A broker under test of its own."""
    return processes.serve("--profile", "dev", "--topic", "orders:1")


@pytest.fixture
def producers(broker: Process) -> Any:
    """Makes clients that send one record each at once; in the end all are answered."""
    made: list[Producer] = []

    def send(count: int) -> None:
        for _ in range(count):
            producer = Producer({"bootstrap.servers": broker.ready, "linger.ms": 0})
            producer.produce("orders", b"held")
            made.append(producer)

    yield send
    threads = [threading.Thread(target=one.flush, args=(PATIENCE_S,)) for one in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(one) for one in made] == [0] * len(made)


def depth(page: Any, name: str) -> int:
    """How many requests wait in a stage, as the picture says."""
    value = page.locator("svg.plane .stage", has_text=name).locator(".value").first
    return int((value.text_content() or "").split("queued")[0].replace(",", ""))


def test_a_stage_that_stands_still_shows_back_pressure(
    broker: Process, pages: Any, producers: Any
) -> None:
    tab = pages(broker.admin)
    page = tab.open("plane")
    page.get_by_role("button", name="Stall Request queue of broker 1").click()
    release = page.get_by_role("button", name="Release Request queue of broker 1")
    release.wait_for()
    producers(1)
    eventually(lambda: depth(page, "Request queue") >= 1)
    first = depth(page, "Request queue")
    producers(3)
    eventually(lambda: depth(page, "Request queue") >= first + 3)
    queue = page.locator("svg.plane .stage", has_text="Request queue")
    assert "is-idle" not in (queue.get_attribute("class") or "")
    assert tab.flaws() == []
    release.click()
    eventually(lambda: depth(page, "Request queue") == 0)
    page.get_by_role("button", name="Stall Request queue of broker 1").wait_for()


@pytest.mark.parametrize("width", [1280, 390])
def test_each_stall_stands_at_its_stage_and_is_used_with_keys(
    broker: Process, pages: Any, width: int
) -> None:
    page = pages(broker.admin, width=width).open("plane")
    for name, title in STALLS.items():
        button = page.get_by_role("button", name=f"Stall {name} of broker 1")
        box = page.locator("svg.plane .stage", has_text=title).locator("rect.box").first
        at, around = button.bounding_box(), box.bounding_box()
        assert at is not None
        assert around is not None
        assert around["x"] < at["x"]
        assert at["x"] + at["width"] < around["x"] + around["width"]
        assert abs(at["y"] + at["height"] / 2 - around["y"]) < 3
        assert at["height"] >= 24
        button.focus()
        page.keyboard.press("Enter")
        release = page.get_by_role("button", name=f"Release {name} of broker 1")
        release.wait_for()
        release.focus()
        page.keyboard.press("Space")
        button.wait_for()


def test_a_broker_that_is_not_under_test_has_no_stalls(processes: Processes, pages: Any) -> None:
    page = pages(processes.serve("--topic", "orders:1").admin).open("plane")
    page.locator("svg.plane .stage").first.wait_for()
    assert page.get_by_role("button", name="Stall").count() == 0


def test_slow_motion_keeps_requests_longer_in_their_stages(busy: Process, pages: Any) -> None:
    page = pages(busy.admin).open("plane")
    slider = page.get_by_role("slider", name="Slow motion")
    page.locator("svg.plane circle.dot").first.wait_for(state="attached")

    def median(key: str, words: str) -> float:
        slider.press(key)
        expect(page.locator("output")).to_have_text(f"1 ms takes {words}")
        expect(slider).to_have_attribute("aria-valuetext", f"1 ms takes {words}")
        # The dots that are on their way keep their pace.
        old = page.locator("svg.plane circle.dot").element_handles()
        page.wait_for_function("dots => !dots.some((dot) => dot.isConnected)", arg=old)
        page.evaluate(WATCH)
        page.wait_for_function("() => lifetimes.length >= 60")
        return float(page.evaluate("() => lifetimes.sort((a, b) => a - b)[lifetimes.length >> 1]"))

    fast = median("Home", "1.00 ms")
    slow = median("End", "3.2 s")
    # Each request is in several stages, and in each of them for some hundred µs.
    assert slow > fast + 500


def test_a_click_on_a_dot_opens_its_waterfall(busy: Process, pages: Any) -> None:
    page = pages(busy.admin).open("plane")
    page.get_by_role("slider", name="Slow motion").press("End")
    opened = page.get_by_role("region", name="A request and its stages")

    def is_open() -> bool:
        place = page.evaluate(RESTING)
        if place is not None:
            page.mouse.click(*place)
        return bool(opened.count())

    eventually(is_open)
    expect(opened.get_by_role("listitem")).to_have_count(5)
    expect(opened).to_contain_text("from 127.0.0.1")
    opened.get_by_role("button", name="Close").press("Enter")
    expect(opened).to_have_count(0)
