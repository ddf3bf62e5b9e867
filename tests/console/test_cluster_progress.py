"""The console of a cluster shows moves under way, and how far replicas are."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

import kafkalite as kl
from tests.harness.held_move import RECORDS, held_move, send


def test_a_move_that_is_held_up_is_shown_until_it_ends(pages: Any) -> None:
    with held_move() as move:
        before, after = move.before, move.after
        tab = pages(move.cluster.brokers[after].admin_url)
        page = tab.open("cluster")
        expect(page.get_by_text("No partition moves to other brokers.")).to_be_visible()
        move.begin()
        row = page.get_by_role("table", name="Reassignments").locator("tbody tr")
        expect(row).to_contain_text(f"broker {after}: 0 %, {RECORDS} records behind")
        expect(row.locator("td").first).to_have_text("slow-0")
        expect(row.locator("td").last).to_have_text(str(before))
        assert tab.flaws() == []
        page.set_viewport_size({"width": 390, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        move.let_go()
        expect(page.get_by_text("No partition moves to other brokers.")).to_be_visible()


@pytest.fixture
def shortened(pages: Any) -> Any:
    """Three brokers of which one is dead and lacks records: the tab of the leader, and its id."""
    with kl.Cluster(topics={"orders": 1}, admin_port=0) as cluster:
        leader = cluster.leader_of("orders", 0)
        dead = (cluster.brokers.index(leader) + 1) % 3
        tab = pages(leader.admin_url)
        page = tab.open("plane")
        expect(page.locator(".stage", has_text="Replication")).to_contain_text("all in sync")
        cluster.brokers[dead].kill()
        send(cluster, "orders")
        yield tab, dead


def test_replicas_that_lack_records_stand_beside_the_log(shortened: Any) -> None:
    tab, dead = shortened
    page = tab.page
    replication = page.locator(".stage", has_text="Replication")
    expect(replication).to_contain_text(f"broker {dead}: {RECORDS} records behind")
    expect(page.locator(".way-label", has_text="high watermark")).to_have_text(
        re.compile(rf"\s*high watermark {RECORDS}\s*")
    )
    expect(page.locator(".way-label", has_text="log end")).to_contain_text(f"log end {RECORDS}")
    # Those who do not see the picture read it below.
    page.get_by_text("The stages as a table").click()
    row = page.get_by_role("table", name="Replicas that follow").locator("tbody tr").first
    expect(row).to_have_text(re.compile(rf"{dead}\s*1\s*[01]\s*1\s*{RECORDS}"))
    expect(page.get_by_text(f"high watermark {RECORDS}, log end {RECORDS}")).to_be_visible()
    assert tab.flaws() == []
    page.set_viewport_size({"width": 390, "height": 900})
    expect(replication).to_contain_text(f"broker {dead}: {RECORDS} records behind")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_partitions_that_lack_a_replica_are_listed(shortened: Any) -> None:
    tab, dead = shortened
    page = tab.open("cluster")
    row = page.get_by_role("table", name="Not in sync").locator("tbody tr")
    expect(row).to_contain_text(re.compile(rf"broker {dead}: \d+ %, {RECORDS} records behind"))
    row.get_by_role("link", name="orders").click()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
