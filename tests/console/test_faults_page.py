"""The page of faults: stages that stand still, faults, and the clock of a broker under test."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
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


def test_a_fault_has_every_condition_of_its_kind(broker: Process, pages: Any) -> None:
    tab = pages(broker.admin)
    page = tab.open("faults")
    form = page.locator("form", has=page.get_by_role("button", name="Add the fault"))

    def add(kind: str, **members: str) -> dict[str, Any]:
        form.get_by_role("combobox", name="Kind").select_option(kind)
        for name, value in members.items():
            field = form.locator(f"[name={name}]")
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
        form.get_by_role("button", name="Add the fault").click()
        page.get_by_role("button", name="Remove fault").wait_for()
        (fault,) = told(broker, "/faults")["faults"]
        page.get_by_role("button", name="Remove fault").click()
        page.get_by_text("There are no faults.").wait_for()
        return {name: fault[name] for name in ("kind", *members)}

    of_disk = {"disk": "slow", "operation": "sync", "ms": "20", "topic": "orders", "partition": "0"}
    assert add("disk", **of_disk) == {"kind": "disk", **of_disk, "ms": 20, "partition": 0}
    chance = {"on_call": "2", "times": "3", "probability": "0.5", "seed": "7"}
    whole = {"on_call": 2, "times": 3, "probability": 0.5, "seed": 7}
    assert add("corrupt", topic="orders", **chance) == {
        "kind": "corrupt",
        "topic": "orders",
        **whole,
    }
    late = {"api": "OffsetCommit", "group": "billing", "side": "before", "ms": "5"}
    assert add("delay", **late) == {"kind": "delay", **late, "ms": 5}
    assert tab.flaws() == []


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


def test_a_fork_of_a_snapshot_is_made_and_closed(broker: Process, pages: Any) -> None:
    send(broker.ready, b"before")
    tab = pages(broker.admin)
    page = tab.open("faults")
    page.get_by_role("button", name="Take a snapshot").click()
    page.get_by_role("button", name="Fork snapshot").wait_for()
    send(broker.ready, b"after")
    page.get_by_role("button", name="Fork snapshot").click()
    close = page.get_by_role("button", name="Close fork")
    close.wait_for()
    assert tab.flaws() == []
    (fork,) = told(broker, "/forks")["forks"]
    row = page.get_by_role("table", name="Forks").locator("tbody tr")
    expect(row).to_contain_text(fork["bootstrap_servers"])
    expect(row.get_by_role("link")).to_have_attribute("href", f"{fork['admin_url']}/console")
    assert end_of(fork["bootstrap_servers"]) == 1
    assert end_of(broker.ready) == 2
    close.click()
    expect(page.get_by_text("There are no forks.")).to_be_visible()
    page.get_by_role("button", name="Delete snapshot").click()
    expect(page.get_by_text("There are no snapshots.")).to_be_visible()
    assert told(broker, "/snapshots") == {"snapshots": []}


def test_a_leader_moves_and_its_epoch_is_shown(broker: Process, pages: Any) -> None:
    page = pages(broker.admin).open("faults")
    form = page.get_by_role("form", name="Move a leader")
    form.get_by_role("textbox", name="Topic").fill("orders")
    form.get_by_role("button", name="Move the leader").click()
    expect(page.get_by_text("orders-0: broker 1 → 1, epoch 1")).to_be_visible()
    # What a client of that leader gets meanwhile.
    expect(page.locator("tbody tr")).to_have_count(3)
    assert {one["error"] for one in told(broker, "/faults")["faults"]} == {"NOT_LEADER_OR_FOLLOWER"}
    send(broker.ready, b"follows")


def test_a_coordinator_moves_with_its_group(broker: Process, pages: Any) -> None:
    page = pages(broker.admin).open("faults")
    form = page.get_by_role("form", name="Move a coordinator")
    form.get_by_role("textbox", name="Group").fill("billing")
    form.get_by_role("button", name="Move the coordinator").click()
    expect(page.get_by_role("alert")).to_contain_text("no group has a coordinator yet")
    commit(broker.ready, "billing")
    form.get_by_role("button", name="Move the coordinator").click()
    expect(page.get_by_text("__consumer_offsets-")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def send(servers: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("orders", value)
    assert producer.flush(PATIENCE_S) == 0


def consumer(servers: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": servers, "group.id": group})


def end_of(servers: str) -> int:
    """The offset of the next record of the topic."""
    reader = consumer(servers, "end")
    try:
        return int(reader.get_watermark_offsets(TopicPartition("orders", 0), PATIENCE_S)[1])
    finally:
        reader.close()


def commit(servers: str, group: str) -> None:
    """Commit an offset of a group."""
    writer = consumer(servers, group)
    writer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    writer.close()
