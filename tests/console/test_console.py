"""The console in a browser: under load, empty, attacked, left alone by its broker."""

from __future__ import annotations

import re
import urllib.parse
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from playwright.sync_api import Error, expect

from tests.conformance.differential.cases_telemetry import client, kafka_id
from tests.console.conftest import HOSTILE, report_hostile
from tests.harness.process import PATIENCE_S, Process, Processes, port_of

PLACES = (
    "plane",
    "overview",
    "topics",
    "topics/orders/messages",
    "topics/orders/partitions",
    "topics/orders/groups",
    "topics/orders/configuration",
    "topics/orders/segments",
    "groups",
    "groups/billing",
    "clients",
    "clients/metrics",
    "clients/recent",
    "clients/slow",
    "clients/waiting",
    "broker/configuration",
    "broker/threads",
    "broker/log",
    "cluster",
    "faults",
)

expect.set_options(timeout=PATIENCE_S * 1_000)


def quoted(*parts: str) -> str:
    return "/".join(urllib.parse.quote(part, safe="") for part in parts)


@pytest.mark.parametrize("place", PLACES)
def test_a_page_under_load_is_for_everyone(busy: Process, pages: Any, place: str) -> None:
    tab = pages(busy.admin)
    page = tab.open(place)
    if place == "plane":
        page.locator("svg.plane .stage").first.wait_for()
    expect(page.get_by_role("status").filter(has_text="live")).to_have_count(1)
    assert page.locator(".trouble").count() == 0
    assert tab.flaws() == []


@pytest.mark.parametrize("place", ["plane", "overview", "topics/orders/messages", "groups/billing"])
def test_a_dark_page_has_contrast(busy: Process, pages: Any, place: str) -> None:
    tab = pages(busy.admin, dark=True)
    tab.open(place)
    assert tab.flaws() == []


def test_each_page_fits_a_phone(busy: Process, pages: Any) -> None:
    tab = pages(busy.admin, width=390)
    width = "document.documentElement.scrollWidth - innerWidth"
    beyond = {place: tab.open(place).evaluate(width) for place in PLACES}
    assert {place: pixels for place, pixels in beyond.items() if pixels > 0} == {}


@pytest.mark.parametrize("place", [place for place in PLACES if "orders" not in place])
def test_a_page_without_anything_to_show_says_so(idle: Process, pages: Any, place: str) -> None:
    if place == "groups/billing":
        pytest.skip("there is no such group")
    tab = pages(idle.admin)
    page = tab.open(place)
    if place in ("topics", "groups"):
        expect(page.get_by_text(re.compile("There are no .* yet"))).to_be_visible()
    assert page.locator(".trouble").count() == 0
    assert tab.flaws() == []


def test_requests_travel_and_one_opens_as_a_waterfall(busy: Process, pages: Any) -> None:
    page = pages(busy.admin).open("plane")
    page.locator("svg.plane circle.dot").first.wait_for(state="attached")
    row = page.get_by_role("button", name=re.compile("^(Produce|Fetch)$")).first
    row.wait_for()
    # The list stands still below the pointer.
    page.get_by_role("heading", name="Sampled requests").hover()
    api = row.inner_text()
    row.click()
    opened = page.get_by_role("region", name="A request and its stages")
    expect(opened.get_by_role("listitem")).to_have_count(5)
    expect(opened.get_by_role("heading")).to_contain_text(api)
    expect(opened).to_contain_text(re.compile("orders-writer|billing-1"))
    opened.get_by_role("button", name="Close").click()
    expect(opened).to_have_count(0)


def test_the_picture_moves_with_the_load(busy: Process, pages: Any) -> None:
    page = pages(busy.admin).open("plane")
    log = page.locator("svg.plane .stage", has_text="Commit log")
    expect(log).not_to_have_class(re.compile("is-idle"))
    expect(log).to_contain_text(re.compile(r"[1-9][\d.]*K? ?appends/s"))
    page.get_by_text("The stages as a table").click()
    row = page.get_by_role("row", name=re.compile("^Commit log"))
    expect(row).to_contain_text(re.compile(r"\d (µs|ms)"))


def test_a_page_is_used_with_keys_alone(busy: Process, pages: Any) -> None:
    page = pages(busy.admin).open("plane")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.get_by_role("link", name="Topics").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Topics")).to_be_visible()
    expect(page.locator("main")).to_be_focused()


def test_a_list_is_searched_and_leads_to_its_rows(busy: Process, pages: Any) -> None:
    page = pages(busy.admin).open("topics")
    page.get_by_label("Search topics").fill("ORD")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="orders").click()
    expect(page.locator(".message").first).to_contain_text("customer")


@pytest.mark.parametrize("kind", ["topics", "groups"])
def test_a_hostile_name_in_the_address_runs_nothing(idle: Process, pages: Any, kind: str) -> None:
    tab = pages(idle.admin)
    for text in HOSTILE:
        page = tab.open(quoted(kind, text))
        page.wait_for_function(
            "text => document.querySelector('h1').textContent === text", arg=text
        )
        page.get_by_role("alert").first.wait_for()


def test_hostile_records_and_groups_are_shown_as_they_are(busy: Process, pages: Any) -> None:
    page = pages(busy.admin).open("topics/hostile/messages")
    expect(page.locator(".message")).to_have_count(len(HOSTILE))
    shown = page.locator(".message dd:nth-of-type(2) code").all_inner_texts()
    plain = [text for text in HOSTILE if text.isprintable() and "‮" not in text]
    assert set(plain) <= set(shown)
    page = pages(busy.admin).open("groups")
    page.get_by_label("Search groups").fill("<script>")
    page.get_by_role("link", name=HOSTILE[0], exact=True).click()
    expect(page.locator("main h1")).to_have_text(HOSTILE[0])
    pages(busy.admin).open("clients")


def test_the_groups_of_a_topic_come_in_pages(processes: Processes, pages: Any) -> None:
    broker = processes.serve("--profile", "dev", "--topic", "orders:1", "--topic", "other:1")
    for number in range(51):
        keys = {"bootstrap.servers": broker.ready, "group.id": f"group-{number:02}"}
        consumer = Consumer(keys)
        committed = TopicPartition("orders" if number == 50 else "other", 0, 0)
        consumer.commit(offsets=[committed], asynchronous=False)
        consumer.close()
    page = pages(broker.admin).open("topics/orders/groups")
    expect(page.get_by_text("50 are looked into at a time")).to_be_visible()
    page.get_by_role("button", name="More").click()
    expect(page.get_by_role("link", name="group-50")).to_be_visible()


def test_a_client_shows_what_it_reports(busy: Process, pages: Any) -> None:
    tab = pages(busy.admin)
    page = tab.open("clients/metrics")
    page.get_by_label("Search clients").fill("orders-writer")
    page.get_by_role("link", name="orders-writer").click()
    page.get_by_label("Search metrics").fill("producer.record.queue")
    rows = page.get_by_role("table", name="Values of the last report").locator("tbody tr")
    expect(rows.first).to_contain_text("org.apache.kafka.producer.record.queue.time")
    assert tab.flaws() == []


def test_hostile_reports_are_shown_as_they_are(busy: Process, pages: Any) -> None:
    # The broker forgets them after a minute.
    report_hostile(busy)
    for number in range(len(HOSTILE)):
        page = pages(busy.admin).open(f"clients/metrics/{kafka_id(client(f'hostile {number}'))}")
        row = page.get_by_role("table", name="Values of the last report").locator("tbody tr")
        expect(row).to_have_count(1)


def test_a_broker_that_dies_is_noticed_and_comes_back(processes: Processes, pages: Any) -> None:
    broker = processes.serve("--profile", "dev", "--topic", "orders:1")
    page = pages(broker.admin).open("plane")
    status = page.locator("header [role=status]")
    expect(status).to_have_text("live")
    page.locator("svg.plane .stage").first.wait_for()
    broker.popen.kill()
    expect(status).to_contain_text("does not answer")
    expect(page.locator(".picture.is-old")).to_be_visible()
    page.get_by_role("link", name="Topics").click()
    expect(page.get_by_role("alert")).to_contain_text("The broker does not answer")
    port = str(port_of(broker.admin))
    words = ("--profile", "dev", "--topic", "orders:1", "--admin-port", port)
    processes.serve(*words)
    expect(status).to_have_text("live")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_token_opens_the_console(processes: Processes, pages: Any) -> None:
    secret = uuid.uuid4().hex
    broker = processes.serve("--set", f"kafkalite.admin.token={secret}")
    tab = pages(broker.admin)
    tab.page.goto(f"{broker.admin}/console")
    tab.page.get_by_label("Token").fill(secret)
    assert tab.flaws() == []
    tab.page.get_by_role("button", name="Open the console").click()
    expect(tab.page.locator("header [role=status]")).to_have_text("live")
    assert secret not in tab.page.url


def test_the_files_allow_no_foreign_code(idle: Process, pages: Any) -> None:
    tab = pages(idle.admin)
    answer = tab.page.goto(f"{idle.admin}/console")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    tab.page.locator("main h1").first.wait_for()
    with pytest.raises(Error, match="TrustedScriptURL"):
        tab.page.evaluate("document.createElement('script').src = 'data:,window.hacked=1'")
    assert all("TrustedScriptURL" in complaint for complaint in tab.complaints)
    tab.complaints.clear()
