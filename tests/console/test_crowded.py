"""The console of a broker with 10,000 partitions: lists come in pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.harness.process import Process, Processes

TOPICS, PARTITIONS = 10, 1_000
PLACES = (
    "plane",
    "overview",
    "topics",
    "topics/many-3/messages",
    "topics/many-3/partitions",
    "topics/many-3/groups",
    "topics/many-3/configuration",
    "topics/many-3/segments",
    "groups",
    "clients",
    "broker/threads",
    "cluster",
    "faults",
)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A broker with ten topics of 1,000 partitions each."""
    started = Processes(tmp_path_factory.mktemp("crowded"))
    topics = [f"many-{number}:{PARTITIONS}" for number in range(TOPICS)]
    words = [word for topic in topics for word in ("--topic", topic)]
    yield started.serve("--profile", "dev", *words)
    started.close()


@pytest.mark.parametrize("place", PLACES)
def test_each_page_is_shown_beside_ten_thousand_partitions(
    crowded: Process, pages: Any, place: str
) -> None:
    tab = pages(crowded.admin)
    page = tab.open(place)
    assert page.locator(".trouble").count() == 0
    assert page.locator("tbody tr").count() <= 100
    assert tab.flaws() == []


def test_the_partitions_of_a_topic_come_in_pages(crowded: Process, pages: Any) -> None:
    page = pages(crowded.admin).open("topics/many-3/partitions")
    rows = page.locator("tbody tr")
    expect(rows.first).to_contain_text("0")
    shown = rows.count()
    page.get_by_role("button", name="More").click()
    expect(rows.first).to_contain_text(str(shown))
