"""Each page while its broker is dead, and while another broker of its cluster is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

import kafkalite as kl
from tests.console.test_cluster_figures import PLACES as OF_ALL
from tests.console.test_console import PLACES
from tests.harness.process import Processes

#: Pages of figures of the stream alone: the frame says that they are old.
OF_THE_STREAM = {"plane", "broker/threads"}


@pytest.mark.parametrize("place", PLACES)
def test_a_page_says_that_its_broker_is_dead(processes: Processes, pages: Any, place: str) -> None:
    broker = processes.serve("--profile", "dev", "--topic", "orders:1")
    tab = pages(broker.admin)
    page = tab.open(place)
    status = page.locator("header [role=status]")
    expect(status).to_have_text("live")
    broker.popen.kill()
    expect(status).to_contain_text("does not answer")
    assert tab.flaws() == []
    # The page is left, and opened again.
    page.get_by_role("link", name="Data plane" if place != "plane" else "Overview").click()
    page.evaluate("place => { location.hash = `#/${place}`; }", place)
    if place == "plane":
        expect(page.locator(".picture.is-old")).to_be_visible()
        assert page.get_by_role("button", name="Stall").count() == 0
    if place in OF_THE_STREAM:
        expect(status).to_contain_text("figures are old")
    else:
        expect(page.get_by_role("alert").first).to_contain_text("The broker does not answer")
    assert page.locator("main h1").count() == 1
    assert tab.flaws() == []


@pytest.fixture(scope="module")
def shortened() -> Iterator[kl.Cluster]:
    """Two of three brokers."""
    with kl.Cluster(topics={"orders": 3}, admin_port=0) as cluster:
        cluster.brokers[2].kill()
        yield cluster


@pytest.mark.parametrize("place", [*OF_ALL, "cluster"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_page_of_all_brokers_names_the_dead_one(
    shortened: kl.Cluster, pages: Any, place: str, width: int
) -> None:
    tab = pages(shortened.brokers[0].admin_url, width=width)
    page = tab.open(place)
    expect(page.locator(".trouble").first).to_contain_text("Broker 2 does not answer")
    # What the others tell is shown.
    expect(page.locator("main .whose, main .card").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert tab.flaws() == []


@pytest.mark.parametrize("place", ["broker/configuration", "broker/threads", "broker/log"])
def test_a_page_of_one_broker_is_shown_beside_a_dead_one(
    shortened: kl.Cluster, pages: Any, place: str
) -> None:
    tab = pages(shortened.brokers[0].admin_url)
    page = tab.open(place)
    expect(page.locator("header [role=status]")).to_have_text("live")
    page.locator("main table, main .empty").first.wait_for()
    assert page.locator(".trouble").count() == 0
    assert tab.flaws() == []
