"""Draws ``docs/images/data-plane.png``: the console's first page in a browser, under load.

    make screenshots

A broker, producers and consumers run for some seconds. The picture is what chromium shows then.
"""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer
from playwright.sync_api import sync_playwright

import kafkalite as kl

IMAGE = Path(__file__).parent / "images" / "data-plane.png"
SIZE = {"width": 1280, "height": 770}
#: How long the load runs before the picture, in seconds.
WARM_UP = 12.0
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def produce(servers: str, name: str, stopped: threading.Event) -> None:
    """Send small batches until the picture is there."""
    producer = Producer({"bootstrap.servers": servers, "client.id": name, "linger.ms": 2})
    while not stopped.wait(0.004):
        for number in range(60):
            producer.produce("orders", b"v" * 900, key=f"customer {number}")
        producer.poll(0)
    producer.flush(10)


def consume(servers: str, group: str, stopped: threading.Event) -> None:
    """Read until the picture is there."""
    keys = {"bootstrap.servers": servers, "group.id": group, "client.id": group}
    consumer = Consumer({**keys, "auto.offset.reset": "latest", "fetch.wait.max.ms": 100})
    consumer.subscribe(["orders"])
    while not stopped.is_set():
        consumer.consume(1_000, timeout=0.1)
    consumer.close()


def picture(admin_url: str) -> None:
    """Open the page and keep what it shows."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport=SIZE)
        page.goto(f"{admin_url}/console")
        page.locator("svg.plane circle.dot").first.wait_for(state="attached")
        page.wait_for_timeout(WARM_UP * 1_000)
        page.screenshot(path=IMAGE)
        browser.close()


def main() -> None:
    """Run the load, and draw."""
    stopped = threading.Event()
    with kl.Broker(topics={"orders": 6}, admin_port=0) as broker:
        servers = broker.bootstrap_servers
        works = [(produce, name) for name in ("shop", "checkout")]
        works += [(consume, group) for group in ("billing", "search", "audit")]
        threads = [
            threading.Thread(target=run, args=(servers, name, stopped)) for run, name in works
        ]
        for thread in threads:
            thread.start()
        try:
            time.sleep(1)
            picture(broker.admin_url or "")
        finally:
            stopped.set()
            for thread in threads:
                thread.join(20)
    print(f"{IMAGE.name}: {IMAGE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
