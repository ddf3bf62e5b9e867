"""Forms that change the cluster: what a person does in the browser, a stranger's client sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from playwright.sync_api import expect

from tests.console.conftest import HOSTILE, eventually
from tests.harness.process import PATIENCE_S, Process, Processes


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A broker that takes changes, with a topic of ten records."""
    started = Processes(tmp_path_factory.mktemp("changes"))
    process = started.serve("--console-write", "--topic", "orders:1", "--topic", "gone:1")
    producer = Producer({"bootstrap.servers": process.ready})
    for _ in range(10):
        producer.produce("orders", b"x")
    assert producer.flush(PATIENCE_S) == 0
    yield process
    started.close()


def topics(broker: Process) -> dict[str, Any]:
    admin = AdminClient({"bootstrap.servers": broker.ready})
    return dict(admin.list_topics(timeout=PATIENCE_S).topics)


def opened(page: Any, title: str) -> Any:
    """The form under this title."""
    form = page.locator("details", has=page.get_by_text(title, exact=True))
    form.locator("summary").click()
    return form


def test_a_topic_is_created_and_the_refusal_of_a_bad_name_is_shown(
    broker: Process, pages: Any
) -> None:
    form = opened(pages(broker.admin).open("topics"), "New topic")
    for text in HOSTILE[:8]:
        form.get_by_role("textbox", name="Name").fill(text)
        form.get_by_role("button", name="Create the topic").click()
        expect(form.get_by_role("alert")).to_be_visible()
    form.get_by_role("textbox", name="Name").fill("made")
    form.get_by_role("spinbutton", name="Partitions").fill("3")
    form.get_by_role("button", name="Create the topic").click()
    expect(form.get_by_role("status")).to_contain_text("made has 3 partitions")
    expect(form.get_by_role("alert")).to_have_count(0)
    assert len(topics(broker)["made"].partitions) == 3


def test_a_topic_is_deleted_once_its_name_is_typed(broker: Process, pages: Any) -> None:
    page = pages(broker.admin).open("topics/gone/configuration")
    form = opened(page, "Delete the topic")
    button = form.get_by_role("button", name="Delete the topic")
    expect(button).to_be_disabled()
    form.get_by_role("textbox", name="Type its name").fill("gone")
    button.click()
    eventually(lambda: "gone" not in topics(broker))
    expect(page.get_by_role("heading", name="Topics")).to_be_visible()


def test_a_message_is_appended_and_shown(broker: Process, pages: Any) -> None:
    page = pages(broker.admin).open("topics/orders/messages")
    form = opened(page, "New message")
    form.get_by_role("textbox", name="Key").fill("a key")
    form.get_by_role("textbox", name="Value").fill(HOSTILE[0])
    form.get_by_role("button", name="Append the message").click()
    expect(form.get_by_role("status")).to_contain_text("Partition 0 has it at 10")
    expect(page.locator(".messages")).to_contain_text(HOSTILE[0])


def test_a_key_is_changed(broker: Process, pages: Any) -> None:
    page = pages(broker.admin).open("topics/orders/configuration")
    form = opened(page, "Change a key")
    form.get_by_role("textbox", name="Key").fill("retention.ms")
    form.get_by_role("textbox", name="Value").fill("123456")
    form.get_by_role("button", name="Change the key").click()
    expect(form.get_by_role("status")).to_contain_text("retention.ms is set")
    expect(page.locator("tbody")).to_contain_text("123456")


def test_partitions_are_added(broker: Process, pages: Any) -> None:
    form = opened(pages(broker.admin).open("topics/orders/partitions"), "Add partitions")
    form.get_by_role("spinbutton", name="Partitions afterwards").fill("2")
    form.get_by_role("button", name="Add partitions").click()
    expect(form.get_by_role("status")).to_contain_text("has 2 partitions")
    assert len(topics(broker)["orders"].partitions) == 2


def test_offsets_move_after_a_look_at_them(broker: Process, pages: Any) -> None:
    consumer = Consumer({"bootstrap.servers": broker.ready, "group.id": "readers"})
    first = TopicPartition("orders", 0, 4)
    try:
        consumer.commit(offsets=[first], asynchronous=False)
        form = opened(pages(broker.admin).open("groups/readers"), "Move the offsets")
        form.get_by_role("combobox", name="To").select_option("offset")
        form.get_by_role("spinbutton", name="Number").fill("7")
        form.get_by_role("button", name="Show what would move").click()
        expect(form.locator("tbody tr")).to_contain_text("4")
        expect(form.locator("tbody tr")).to_contain_text("7")
        assert consumer.committed([first], timeout=PATIENCE_S)[0].offset == 4
        form.get_by_role("button", name="Move the offsets").click()
        expect(form.get_by_role("status")).to_contain_text("1 partitions were moved")
        assert consumer.committed([first], timeout=PATIENCE_S)[0].offset == 7
    finally:
        consumer.close()


def test_an_offset_beyond_the_digits_of_a_number_is_shown_and_not_sent(
    broker: Process, pages: Any
) -> None:
    """It was shown as another one, and the other one was committed."""
    far = TopicPartition("orders", 0, 2**53 + 1)
    consumer = Consumer({"bootstrap.servers": broker.ready, "group.id": "far"})
    try:
        consumer.commit(offsets=[far], asynchronous=False)
        page = pages(broker.admin).open("groups/far")
        offsets = page.get_by_role("table", name="Committed offsets")
        expect(offsets).to_contain_text("9,007,199,254,740,993")
        form = opened(page, "Move the offsets")
        form.get_by_role("combobox", name="To").select_option("offset")
        form.get_by_role("spinbutton", name="Number").fill(str(2**53 + 3))
        form.get_by_role("button", name="Show what would move").click()
        expect(form.locator("input:invalid")).to_have_count(1)
        assert form.locator("tbody tr").count() == 0
        assert consumer.committed([far], timeout=PATIENCE_S)[0].offset == far.offset
    finally:
        consumer.close()


def test_another_group_begins_at_its_first_page(broker: Process, pages: Any) -> None:
    """It was shown from the page of the group before, with that one's form."""
    admin = AdminClient({"bootstrap.servers": broker.ready})
    (made,) = admin.create_topics([NewTopic("wide", 120, 1)]).values()
    made.result(PATIENCE_S)
    for group in ("one", "two"):
        consumer = Consumer({"bootstrap.servers": broker.ready, "group.id": group})
        at = [TopicPartition("wide", index, 0) for index in range(120)]
        consumer.commit(offsets=at, asynchronous=False)
        consumer.close()
    page = pages(broker.admin).open("groups/one")
    page.get_by_role("button", name="More →").click()
    expect(page.locator(".pager")).to_contain_text("Page 2")
    opened(page, "Move the offsets")
    page.evaluate("location.hash = '#/groups/two'")
    expect(page.get_by_role("heading", name="two")).to_be_visible()
    expect(page.locator(".pager")).to_contain_text("Page 1")
    assert page.locator("details[open]").count() == 0


def test_a_broker_for_reading_has_no_forms(processes: Processes, pages: Any) -> None:
    broker = processes.serve("--topic", "orders:1")
    page = pages(broker.admin).open("topics")
    page.get_by_role("link", name="orders").wait_for()
    assert page.locator("details").count() == 0


def test_messages_are_shown_in_the_form_that_is_chosen(broker: Process, pages: Any) -> None:
    page = pages(broker.admin).open("topics/orders/messages")
    page.get_by_role("combobox", name="Show as").select_option(label="hex")
    expect(page.locator(".message").last).to_contain_text("78 hex, 1 B")


def test_lines_of_the_log_are_those_of_the_level_that_is_chosen(
    broker: Process, pages: Any
) -> None:
    page = pages(broker.admin).open("broker/log")
    page.locator("tbody tr").first.wait_for()
    page.get_by_role("combobox", name="Level").select_option(label="error")
    expect(page.get_by_text("There are no lines.")).to_be_visible()
