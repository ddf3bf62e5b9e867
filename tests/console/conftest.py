"""A browser, and brokers for its pages: one under load, one without anything."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from kafkalite import AdminClient, ConfigResource
from tests.conformance.differential.cases_telemetry import POINT, ask, client, field, push
from tests.conftest import processes as processes
from tests.harness.process import PATIENCE_S, Process, Processes
from tests.harness.session import Session

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".cache" / "console-tools" / "node_modules"

#: Nothing but the pages of the broker is fetched, and nothing is kept.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]

#: What no page may run, and no page may stumble over.
HOSTILE = (
    "<script>window.hacked=1</script>",
    '"><img src=x onerror=window.hacked=1>',
    "<svg/onload=window.hacked=1>",
    "javascript:window.hacked=1",
    "'; DROP TABLE topics; --",
    "${window.hacked=1}",
    "{{constructor.constructor('window.hacked=1')()}}",
    "</textarea><script>window.hacked=1</script>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'>",
    "<a href='javascript:window.hacked=1'>x</a>",
    "../../../etc/passwd",
    "%3Cscript%3Ewindow.hacked=1%3C/script%3E",
    "a/b?c=d&e#f;g",
    "‮right to left‬",
    "tab\tnew\nline",
    "null\x00and\x1b[31mred",
    "😀 é ñ 漢字 اَلْعَرَبِيَّةُ",
    "__proto__",
    "constructor",
    "w" * 4_000,
)


class Pages:
    """A tab, and what it complained about."""

    def __init__(self, page: Page, admin: str) -> None:
        self.page = page
        self.admin = admin
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE_S * 1_000)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()))

    def _heard(self, message: ConsoleMessage) -> None:
        # A refusal of the API is no mistake of the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def open(self, place: str) -> Page:
        """The page at a place behind ``#/``, with what it asked for."""
        self.page.goto(f"{self.admin}/console#/{place}")
        self.page.locator("main h1").first.wait_for()
        self.page.get_by_text("Asking the broker…").first.wait_for(state="detached")
        return self.page

    def flaws(self) -> list[str]:
        """What axe-core finds that is serious, with the elements."""
        self.page.evaluate((TOOLS / "axe-core" / "axe.min.js").read_text())
        found = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        return [
            f"{flaw['id']}: {[node['target'] for node in flaw['nodes']][:3]}"
            for flaw in found["violations"]
            if flaw["impact"] in ("serious", "critical")
        ]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's chromium with a profile of its own."""
    with sync_playwright() as playwright:
        path = os.environ.get("KAFKALITE_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def pages(browser: Browser) -> Iterator[Any]:
    """Makes tabs; in the end none of them complained, and none ran a foreign script."""
    made: list[Pages] = []
    with contextlib.ExitStack() as stack:

        def make(admin: str, width: int = 1280, dark: bool = False) -> Pages:
            context = browser.new_context(
                viewport={"width": width, "height": 900},
                color_scheme="dark" if dark else "light",
                bypass_csp=False,
            )
            stack.callback(context.close)
            made.append(Pages(context.new_page(), admin))
            return made[-1]

        yield make
        for one in made:
            assert one.complaints == []
            assert one.page.evaluate("window.hacked") is None


def produce(broker: Process, stopped: threading.Event) -> None:
    """Send records until the test session is over: at most 500 a second."""
    producer = Producer({"bootstrap.servers": broker.ready, "client.id": "orders-writer"})
    number = 0
    while not stopped.wait(0.02):
        for _ in range(10):
            number += 1
            producer.produce("orders", f'{{"order": {number}}}', key=f"customer {number % 7}")
        producer.poll(0)
    producer.flush(PATIENCE_S)


def consume(broker: Process, stopped: threading.Event) -> None:
    """Read them."""
    keys = {"bootstrap.servers": broker.ready, "group.id": "billing", "client.id": "billing-1"}
    consumer = Consumer({**keys, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    while not stopped.is_set():
        consumer.consume(500, timeout=0.1)
    consumer.close()


def write_hostile(broker: Process) -> None:
    """Keys, values, headers, client ids and groups that try to be code."""
    producer = Producer({"bootstrap.servers": broker.ready, "client.id": HOSTILE[0]})
    for text in HOSTILE:
        name = text.encode()[:200].decode(errors="ignore").replace("\x00", "")
        producer.produce("hostile", text.encode(), text.encode(), headers={name: text.encode()})
    assert producer.flush(PATIENCE_S) == 0
    for text in HOSTILE:
        if "\x00" in text:
            continue  # librdkafka ends a name there
        consumer = Consumer({"bootstrap.servers": broker.ready, "group.id": text})
        consumer.commit(offsets=[TopicPartition("hostile", 0, 1)], asynchronous=False)
        consumer.close()


def report_hostile(broker: Process) -> None:
    """Metrics whose names and labels try to be code, from one client each."""
    for number, text in enumerate(HOSTILE):
        session = Session(broker.ready, "hostile")
        words = text.encode()[:40].decode(errors="ignore").encode()
        label = field(1, words) + field(2, field(1, words))
        gauge = field(1, field(7, label) + POINT)
        report = field(1, field(2, field(2, field(1, words) + field(5, gauge))))
        instance = client(f"hostile {number}")
        granted = ask(session, instance)["SubscriptionId"]
        assert push(session, instance, granted, Metrics=report) == 0
        session.close()


@pytest.fixture(scope="session")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A broker under load, with records that try to be code."""
    started = Processes(tmp_path_factory.mktemp("busy"))
    broker = started.serve("--profile", "dev", "--topic", "orders:3", "--topic", "hostile:1")
    with AdminClient(bootstrap_servers=broker.ready) as admin:
        everything = {"metrics": "*", "interval.ms": "1000"}
        admin.alter_configs({ConfigResource("client_metrics", HOSTILE[0]): everything})
    write_hostile(broker)
    stopped = threading.Event()
    threads = [threading.Thread(target=run, args=(broker, stopped)) for run in (produce, consume)]
    for thread in threads:
        thread.start()
    yield broker
    stopped.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    started.close()


@pytest.fixture(scope="session")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A broker without topics, groups and clients."""
    started = Processes(tmp_path_factory.mktemp("idle"))
    yield started.serve("--profile", "dev")
    started.close()


def eventually(is_so: Any) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)
