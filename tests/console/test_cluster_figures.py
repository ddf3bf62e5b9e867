"""The console of a cluster: pages add up all brokers, or show the one that is chosen."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

import kafkalite as kl
from tests.harness.process import PATIENCE_S

PLACES = ("plane", "overview", "topics", "topics/orders/partitions", "groups", "clients")


@pytest.fixture(scope="module")
def cluster() -> Iterator[kl.Cluster]:
    """Three brokers of one process."""
    with kl.Cluster(topics={"orders": 3}, admin_port=0) as cluster:
        yield cluster


@pytest.mark.parametrize("place", PLACES)
def test_a_page_of_a_cluster_says_whose_figures_it_shows(
    cluster: kl.Cluster, pages: Any, place: str
) -> None:
    tab = pages(cluster.brokers[0].admin_url)
    page = tab.open(place)
    choice = page.get_by_role("combobox", name="Figures of")
    expect(choice).to_have_value("all")
    words = "leaders" if place.endswith("partitions") else "all 3 brokers together"
    expect(page.locator("main .whose").first).to_contain_text(words)
    assert page.locator(".trouble").count() == 0
    assert tab.flaws() == []
    choice.select_option("1")
    expect(page.locator("main .whose").first).to_contain_text("broker 1")
    expect(page.locator("header [role=status]")).to_have_text("live")


def test_pages_of_one_broker_have_no_choice(cluster: kl.Cluster, pages: Any) -> None:
    page = pages(cluster.brokers[0].admin_url).open("overview")
    choice = page.get_by_role("combobox", name="Figures of")
    choice.wait_for()
    page.get_by_role("link", name="Broker", exact=True).click()
    expect(choice).to_have_count(0)
    page.get_by_role("link", name="Topics", exact=True).click()
    expect(choice).to_have_value("all")


def told_live(broker: kl.Broker) -> Any:
    """The first event of a broker's own stream."""
    with urllib.request.urlopen(f"{broker.admin_url}/api/v1/live", timeout=PATIENCE_S) as answer:
        data = next(line for line in answer if line.startswith(b"data: "))
    return json.loads(data.removeprefix(b"data: "))


@pytest.mark.parametrize("chosen", ["all", "2"])
def test_the_threads_of_a_broker_are_its_own(cluster: kl.Cluster, pages: Any, chosen: str) -> None:
    """They were those of all brokers together, or of the one that another page had chosen."""
    page = pages(cluster.brokers[0].admin_url).open("plane")
    choice = page.get_by_role("combobox", name="Figures of")
    choice.select_option(chosen)
    page.evaluate("location.hash = '#/broker/threads'")
    own = told_live(cluster.brokers[0])
    (stage,) = (one for one in own["stages"] if one["name"] == "io_threads")
    expect(page.locator("main .whose")).to_have_text(
        f"Threads of broker {own['broker_id']}, in the last 0.2 s."
    )
    row = page.get_by_role("row", name="I/O threads")
    expect(row.locator("td").nth(1)).to_have_text(str(stage["threads"]))
    # The choice counts again on the pages that it is for.
    page.evaluate("location.hash = '#/plane'")
    expect(choice).to_have_value(chosen)
    words = "all 3 brokers together" if chosen == "all" else f"broker {chosen}"
    expect(page.locator("main .whose").first).to_contain_text(words)


def test_the_sum_fits_a_phone(cluster: kl.Cluster, pages: Any) -> None:
    tab = pages(cluster.brokers[1].admin_url, width=390)
    for place in PLACES:
        page = tab.open(place)
        page.get_by_role("combobox", name="Figures of").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, place


def test_a_dead_broker_is_named_on_the_page(pages: Any) -> None:
    with kl.Cluster(topics={"t": 3}, admin_port=0) as cluster:
        tab = pages(cluster.brokers[0].admin_url)
        page = tab.open("overview")
        expect(page.locator("main .whose").first).to_contain_text("all 3 brokers together")
        cluster.brokers[2].kill()
        note = page.locator(".trouble", has_text="Broker 2 does not answer")
        expect(note).to_contain_text(re.compile(r"its figures are missing.*last answered", re.S))
        expect(page.locator("main .whose").first).to_contain_text("2 of 3 brokers together")
        page.get_by_role("link", name="Data plane").click()
        expect(note).to_be_visible()
        assert tab.flaws() == []
        page.get_by_role("combobox", name="Figures of").select_option("2")
        page.get_by_role("link", name="Topics").click()
        expect(page.get_by_role("alert")).to_contain_text("broker 2 does not answer")
