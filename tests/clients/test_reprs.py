"""What records, batches and deliveries look like."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kafkalite as kl

PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def broker() -> Iterator[kl.Broker]:
    """A broker."""
    with kl.Broker(topics={"t": 2, "u": 1}) as broker:
        yield broker


def record(**more: object) -> kl.Record[bytes, bytes]:
    """A record of its own."""
    return kl.Record("t", 0, 7, **more)  # type: ignore[arg-type]


def test_a_record_tells_key_value_and_headers() -> None:
    made = record(key=b"k", value=b"v", headers=(("h", b"x"), ("n", None)), timestamp_ms=5)
    assert repr(made) == (
        "Record(topic='t', partition=0, offset=7, key=b'k', value=b'v', "
        "headers=[('h', b'x'), ('n', None)], timestamp_ms=5)"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"x" * 60, f"b'{'x' * 60}'"),
        (b"x" * 61, f"b'{'x' * 60}...' (61 bytes)"),
        (b"x" * 10_000_000, f"b'{'x' * 60}...' (10,000,000 bytes)"),
        ("ü" * 1_000, f"'{'ü' * 60}...' (1,000 characters)"),
        (list(range(1_000)), repr(list(range(1_000)))[:180] + "..."),
    ],
)
def test_keys_values_and_headers_are_cut_at_60_bytes(value: object, text: str) -> None:
    assert f"value={text}, " in repr(record(value=value))
    assert f"key={text}, " in repr(record(key=value))
    assert f"[('h', {text})]" in repr(record(headers=(("h", value),)))


def read(broker: kl.Broker, *topics: str, count: int) -> kl.RecordBatch:
    """A batch of so many records."""
    servers = broker.bootstrap_servers
    with kl.Consumer(
        *topics, bootstrap_servers=servers, auto_offset_reset="earliest", fetch_min_bytes=1
    ) as consumer:
        for _ in range(100):
            consumer.seek_to_beginning() if consumer.assignment() else None
            batch = consumer.next_batch(timeout=PATIENCE_S)
            assert batch is not None
            if len(batch) >= count:
                return batch
    raise AssertionError(f"no batch of {count} records")


def test_a_batch_tells_its_size_and_the_offsets_of_each_partition(broker: kl.Broker) -> None:
    with kl.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_batch("t", [b"12345", b"6", b"7"], partitions=[0, 0, 1]).result(PATIENCE_S)
    batch = read(broker, "t", count=3)
    assert repr(batch) == "<RecordBatch of 3 records, 7 bytes: t-0 @ 0..1; t-1 @ 0..0>"
    assert repr(batch[:1]) == "<RecordBatch of 1 record, 5 bytes: t-0 @ 0..0>"
    assert repr(batch[:0]) == "<RecordBatch of 0 records, 0 bytes>"


def test_records_and_batches_are_tables_in_a_notebook(broker: kl.Broker) -> None:
    with kl.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_batch("u", [b"<b>"] * 12, keys=[b"&"] * 12).result(PATIENCE_S)
    batch = read(broker, "u", count=12)
    html = batch._repr_html_()
    assert html.count("<tr>") == 1 + 10
    assert "<caption>&lt;RecordBatch of 12 records" in html
    assert "<td>b&#x27;&lt;b&gt;&#x27;</td>" in html
    one = batch[0]._repr_html_()
    assert (one.count("<tr>"), "<td>b&#x27;&amp;&#x27;</td>" in one) == (2, True)


def test_a_delivery_tells_its_state(broker: kl.Broker) -> None:
    with kl.Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=100_000) as producer:
        producer.partitions_for("u")
        delivery = producer.send("u", b"v")
        batch = producer.send_batch("u", [b"v"] * 2)
        assert repr(delivery) == "<Delivery to u-0: pending>"
        assert repr(batch) == "<BatchDelivery of 2 records: pending>"
        producer.flush(PATIENCE_S)
        where = delivery.result(0)
        assert repr(delivery) == f"<Delivery to u-0: delivered @ {where.offset}>"
        assert repr(batch) == "<BatchDelivery of 2 records: delivered>"


def test_a_delivery_that_failed_tells_why(broker: kl.Broker) -> None:
    producer = kl.Producer(bootstrap_servers=broker.bootstrap_servers, max_request_size=5_000_000)
    with producer:
        delivery = producer.send("u", b"v" * 2_000_000)
        error = delivery.exception(PATIENCE_S)
        assert repr(delivery) == f"<Delivery to u-0: failed, {error}>"
        many = producer.send_batch("u", [b"v" * 2_000_000])
        many.errors(PATIENCE_S)
        assert repr(many) == "<BatchDelivery of 1 record: 1 failed>"
