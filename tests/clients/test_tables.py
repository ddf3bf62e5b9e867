"""``kafkalite.read``: the records of topics as tables of pyarrow, pandas and polars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

import pytest

import kafkalite as kl

pa = pytest.importorskip("pyarrow")

PATIENCE_S = 30.0

#: In the year 2096: no record is so new.
LATER_MS = 4_000_000_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[kl.Broker]:
    """A broker with a topic of three records, one that is empty, and one of two partitions."""
    with kl.Broker(topics={"t": 1, "empty": 2, "wide": 2}) as broker:
        with kl.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("t", b"one", key=b"k", headers={"h": b"x"}, timestamp_ms=1_000)
            producer.send("t", None, timestamp_ms=2_000)
            producer.send("t", b"three", timestamp_ms=3_000)
            for number in range(20):
                producer.send("wide", b"%d" % number, partition=number % 2)
        yield broker


def test_topics_are_read_as_one_table(broker: kl.Broker) -> None:
    table = kl.read("t", "wide", bootstrap_servers=broker.bootstrap_servers).to_arrow()
    assert table.column_names == [
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        "headers",
    ]
    assert table.num_rows == 23
    of_t = table.filter(pa.compute.equal(table["topic"], "t"))
    assert of_t["value"].to_pylist() == [b"one", None, b"three"]
    assert of_t["headers"].to_pylist()[0] == [{"key": "h", "value": b"x"}]


def test_a_reading_is_read_in_batches_and_again(broker: kl.Broker) -> None:
    reading = kl.read("wide", bootstrap_servers=broker.bootstrap_servers, columns=["value"])
    for _ in range(2):
        assert sum(len(batch) for batch in reading) == 20
    assert repr(reading) == "<kafkalite.Reading of wide: 20 offsets>"


def test_a_reading_is_a_data_frame(broker: kl.Broker) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    reading = kl.read("t", bootstrap_servers=broker.bootstrap_servers)
    assert list(reading.to_pandas()["offset"]) == [0, 1, 2]
    assert reading.to_polars()["offset"].to_list() == [0, 1, 2]
    assert pa.table(reading).num_rows == 3


def test_an_empty_topic_has_the_columns_of_a_full_one(broker: kl.Broker) -> None:
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "headers"]
    columns += ["timestampType"]
    servers = broker.bootstrap_servers
    empty = kl.read("empty", bootstrap_servers=servers, columns=columns).to_arrow()
    full = kl.read("t", bootstrap_servers=servers, columns=columns).to_arrow()
    assert empty.num_rows == 0
    assert dict(zip(empty.column_names, empty.schema.types, strict=True)) == dict(
        zip(full.column_names, full.schema.types, strict=True)
    )


@pytest.mark.parametrize(
    ("since", "until", "offsets"),
    [
        (2_000, "latest", [1, 2]),
        ("earliest", 3_000, [0, 1]),
        (datetime.fromtimestamp(2, UTC), datetime.fromtimestamp(3, UTC), [1]),
        ("latest", "latest", []),
        (LATER_MS, "latest", []),
        ("earliest", LATER_MS, [0, 1, 2]),
        (3_000, 2_000, []),
    ],
)
def test_records_are_read_between_two_times(
    broker: kl.Broker, since: Any, until: Any, offsets: list[int]
) -> None:
    servers = broker.bootstrap_servers
    table = kl.read("t", since=since, until=until, bootstrap_servers=servers).to_arrow()
    assert table["offset"].to_pylist() == offsets


def test_what_comes_after_the_call_is_not_read(broker: kl.Broker) -> None:
    servers = broker.bootstrap_servers
    with kl.AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topic("grows")
    with kl.Producer(bootstrap_servers=servers) as producer:
        producer.send("grows", b"1").result(timeout=PATIENCE_S)
        reading = kl.read("grows", bootstrap_servers=servers)
        producer.send("grows", b"2").result(timeout=PATIENCE_S)
    assert reading.to_arrow()["value"].to_pylist() == [b"1"]


def test_a_reading_reads_nothing_of_a_topic_that_was_made_again(broker: kl.Broker) -> None:
    """It read as many records of the topic that has the name now."""
    servers = broker.bootstrap_servers
    with kl.AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topic("renewed")
        with kl.Producer(bootstrap_servers=servers) as producer:
            producer.send("renewed", b"1").result(timeout=PATIENCE_S)
            reading = kl.read("renewed", bootstrap_servers=servers)
            admin.delete_topic("renewed")
            admin.create_topic("renewed")
            producer.send("renewed", b"2").result(timeout=PATIENCE_S)
    with pytest.raises(kl.BrokerError, match="UNKNOWN_TOPIC_ID"):
        reading.to_arrow()


def test_a_key_of_consumers_is_taken(broker: kl.Broker) -> None:
    servers = broker.bootstrap_servers
    reading = kl.read("t", bootstrap_servers=servers, isolation_level="read_committed")
    assert reading.to_arrow().num_rows == 3


def test_a_committed_reading_ends_where_an_open_transaction_begins(
    broker: kl.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for the transaction's end, two minutes at most: its end was that of the log."""
    whole = kl.AdminClient.list_offsets

    def list_offsets(self: kl.AdminClient, places: Any, at: Any, **more: Any) -> Any:
        """Answer as if the last record were of an open transaction."""
        found = whole(self, places, at, **more)
        if at != "latest" or more.get("isolation_level") != "read_committed":
            return found
        return {place: replace(one, offset=one.offset - 1) for place, one in found.items()}

    monkeypatch.setattr(kl.AdminClient, "list_offsets", list_offsets)
    servers = broker.bootstrap_servers
    levels: list[tuple[Literal["read_uncommitted", "read_committed"], int]]
    levels = [("read_uncommitted", 3), ("read_committed", 2)]
    for level, count in levels:
        reading = kl.read("t", bootstrap_servers=servers, isolation_level=level)
        assert reading.to_arrow().num_rows == count


def test_a_committed_reading_between_times_asks_for_what_is_committed(
    broker: kl.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a time in an open transaction, or behind its begin, it waited for the transaction."""
    whole = kl.AdminClient.list_offsets
    asked: list[tuple[Any, Any]] = []

    def list_offsets(self: kl.AdminClient, places: Any, at: Any, **more: Any) -> Any:
        """Answer for the end as if the last two records were of an open transaction."""
        asked.append((at, more.get("isolation_level")))
        found = whole(self, places, at, **more)
        if at != "latest":
            return found
        return {place: replace(one, offset=one.offset - 2) for place, one in found.items()}

    monkeypatch.setattr(kl.AdminClient, "list_offsets", list_offsets)
    servers = broker.bootstrap_servers
    cases: list[tuple[int, Any, list[int]]]
    cases = [(1_000, 3_000, [0]), (2_000, "latest", []), (3_000, LATER_MS, [])]
    for since, until, offsets in cases:
        reading = kl.read(
            "t",
            since=since,
            until=until,
            bootstrap_servers=servers,
            isolation_level="read_committed",
        )
        assert reading.to_arrow()["offset"].to_pylist() == offsets
    assert {level for _, level in asked} == {"read_committed"}
    assert {at for at, _ in asked} == {"latest", 1_000, 2_000, 3_000, LATER_MS}


def test_a_topic_that_does_not_exist_is_refused(broker: kl.Broker) -> None:
    with pytest.raises(kl.UnknownTopicError):
        kl.read("nothing", bootstrap_servers=broker.bootstrap_servers)
    with pytest.raises(kl.InvalidArgumentError, match="none is given"):
        kl.read(bootstrap_servers=broker.bootstrap_servers)
