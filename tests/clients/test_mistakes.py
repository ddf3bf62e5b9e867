"""What people give at first: refused at once, in words that say what would be right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kafkalite as kl


@pytest.fixture
def producer(kafkalite_bootstrap: str) -> Iterator[Any]:
    """A producer to be misused."""
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap) as client:
        yield client


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda p, t: p.send_batch(t, "abc"), "values must be a list or Arrow, not str"),
        (lambda p, t: p.send_batch(t, b"abc"), "values must be a list or Arrow, not bytes"),
        (lambda p, t: p.send_batch(t, {"a": 1}), "values must be a list or Arrow, not dict"),
        (lambda p, t: p.send(t, b"v", headers=["a"]), "headers must be a mapping, or pairs"),
        (lambda p, t: p.send(t, b"v", headers=5), "headers must be a mapping, or pairs"),
        (lambda p, t: p.send(t, b"v", headers={"a": 1}), "bytes, str or None, not int$"),
        (lambda p, t: p.send(t, 5), "not int; or pass a value_serializer"),
        (lambda p, t: p.produce(t, b"v", on_delivery=5), "on_delivery must be something to call"),
    ],
)
def test_what_is_no_record_is_a_type_error_that_says_what_is_one(
    producer: Any, name: str, call: Callable[[Any, str], object], text: str
) -> None:
    with pytest.raises(TypeError, match=text):
        call(producer, name)


@pytest.mark.parametrize(
    ("serializer", "why"),
    [
        (lambda value: 1 // 0, "ZeroDivisionError: integer division"),
        (lambda value: 5, "TypeError: its serializer returned int, not bytes, str or None"),
    ],
)
def test_a_serializer_that_fails_is_told_with_what_it_was_for(
    kafkalite_bootstrap: str, name: str, serializer: Callable[[Any], Any], why: str
) -> None:
    with kl.Producer(bootstrap_servers=kafkalite_bootstrap, key_serializer=serializer) as producer:
        calls: list[Callable[[], object]] = [
            lambda: producer.send(name, b"v", key=1),
            lambda: producer.send_batch(name, [b"v"], keys=[1]),
        ]
        for call in calls:
            with pytest.raises(kl.SerializationError) as caught:
                call()
            assert str(caught.value).startswith("SERIALIZATION_FAILED: the key of a record: ")
            assert why in str(caught.value)
            assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("client", "given"),
    [
        (kl.Producer, "value_serializer"),
        (kl.AsyncProducer, "key_serializer"),
        (kl.Consumer, "value_deserializer"),
        (kl.Consumer, "on_assign"),
        (kl.AsyncConsumer, "on_lost"),
    ],
)
def test_what_cannot_be_called_is_refused_where_it_is_given(client: Any, given: str) -> None:
    with pytest.raises(TypeError, match=f"{given} must be something to call, not int"):
        client(bootstrap_servers="127.0.0.1:9", **{given: 5})


@pytest.mark.parametrize("client", [kl.Producer, kl.AsyncProducer, kl.Consumer, kl.AdminClient])
@pytest.mark.parametrize("config", ["linger.ms=5", [("linger.ms", 5)]])
def test_a_configuration_that_is_no_mapping_is_refused(client: Any, config: object) -> None:
    with pytest.raises(kl.ConfigError, match="is no mapping of keys to values") as caught:
        client(config=config)
    assert "config={" in (caught.value.hint or "")


PAIRS = 'give pairs, as in [("orders", 0), ("orders", 1)].'


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda c: c.assign("t"), PAIRS),
        (lambda c: c.assign(("t", 0)), PAIRS),
        (lambda c: c.assign(kl.TopicPartition("t", 0)), PAIRS),
        (lambda c: c.assign([("t", -1)]), PAIRS),
        (lambda c: c.commit({"t": 5}), PAIRS),
        (lambda c: c.commit(5), 'give a dictionary, as in {("orders", 0): 5}.'),
        (lambda c: c.offsets_for_times([("t", 0)]), 'give a dictionary, as in {("orders", 0): 5}.'),
        (lambda c: c.commit({("t", 0): "5"}), None),
    ],
)
def test_partitions_that_are_none_are_refused(
    kafkalite_bootstrap: str, call: Callable[[Any], object], hint: str | None
) -> None:
    with (
        kl.Consumer(bootstrap_servers=kafkalite_bootstrap, group_id="g") as consumer,
        pytest.raises(kl.InvalidArgumentError) as caught,
    ):
        call(consumer)
    assert caught.value.hint == hint


@pytest.mark.parametrize("topics", [["t"], {"bootstrap.servers": "127.0.0.1:9"}, None])
def test_a_consumer_takes_topics_one_by_one(topics: Any) -> None:
    with pytest.raises(kl.InvalidArgumentError, match="is no name or pattern") as caught:
        kl.Consumer(topics, bootstrap_servers="127.0.0.1:9")
    assert 'names, as in ("orders", "returns")' in (caught.value.hint or "")


def test_a_name_alone_is_one_topic_and_not_its_letters(admin: kl.AdminClient, name: str) -> None:
    assert list(admin.create_topics(name)) == [name]
    alone: Any = kl.NewTopic(f"{name}-b")
    assert list(admin.create_topics(alone)) == [alone.name]
    assert list(admin.describe_topics(name)) == [name]
    admin.delete_topics(name)
    mistaken: Any = {"name": name}
    with pytest.raises(kl.InvalidArgumentError) as caught:
        admin.create_topics([mistaken])
    assert "NewTopic(" in (caught.value.hint or "")


def test_a_broker_is_told_its_own_name_for_a_key_of_a_topic() -> None:
    with pytest.raises(kl.BrokerStartError) as caught:
        kl.Broker(config={"retention.ms": 5}).start()
    assert caught.value.hint == "did you mean log.retention.ms?"


def test_a_port_that_cannot_be_is_not_taken_for_another() -> None:
    with pytest.raises(kl.BrokerStartError, match="99999"):
        kl.Broker(port=99_999).start()
