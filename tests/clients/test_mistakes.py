"""What people give at first: refused at once, in words that say what would be right."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

import kafkalite as kl
from kafkalite import arguments


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
def test_the_error_of_a_serializer_says_what_it_was_for(
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
    with pytest.raises(kl.ConfigError, match="is not a mapping of keys to values") as caught:
        client(config=config)
    assert "config={" in (caught.value.hint or "")


def test_the_error_of_a_callback_among_the_keys_says_where_callbacks_go() -> None:
    for config in ({"error_cb": print}, {"bootstrap.servers": "127.0.0.1:9", "stats_cb": print}):
        with pytest.raises(kl.ConfigError, match="is not a value of a key") as caught:
            kl.Producer(config=config)  # type: ignore[arg-type]
        assert "no key takes a function: produce() takes on_delivery=" in (caught.value.hint or "")


#: What type checkers would find, given on purpose.
NEW_TOPIC: Any = kl.NewTopic


def notes(error: BaseException) -> str:
    """The hints below an error's text."""
    return "\n".join(getattr(error, "__notes__", []))


@pytest.mark.parametrize(
    "client", [kl.Producer, kl.AsyncProducer, kl.AdminClient, kl.AsyncAdminClient]
)
@pytest.mark.parametrize("given", [{"bootstrap.servers": "127.0.0.1:9"}, "127.0.0.1:9"])
def test_settings_without_keywords_are_refused(client: Any, given: object) -> None:
    with pytest.raises(kl.ConfigError, match="takes its settings as keywords") as caught:
        client(given)
    name = client.__name__
    assert f'{name}(bootstrap_servers="HOST:PORT"), or {name}(config=' in (caught.value.hint or "")


@pytest.mark.parametrize("client", [kl.Consumer, kl.AsyncConsumer])
def test_settings_in_place_of_topics_are_not_taken_for_a_missing_address(client: Any) -> None:
    with pytest.raises(kl.InvalidArgumentError, match="is not a name or a pattern") as caught:
        client({"bootstrap.servers": "127.0.0.1:9"})
    assert "a configuration as config=" in (caught.value.hint or "")


def test_a_broker_without_keywords_is_refused() -> None:
    broker: Any = kl.Broker
    with pytest.raises(kl.ConfigError, match="Broker takes its settings as keywords") as caught:
        broker("orders")
    assert 'Broker(topics=["orders"])' in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda p: p.produce("t", b"v", callback=print), "it is on_delivery="),
        (lambda p: p.produce("t", b"v", timestamp=5), "it is timestamp_ms="),
        (lambda p: p.send("t", b"v", callback=print), "it is on_delivery="),
        (lambda p: NEW_TOPIC("t", num_partitions=3), "it is partitions="),
    ],
)
def test_other_clients_keywords_are_refused_with_ours(
    producer: Any, call: Callable[[Any], object], hint: str
) -> None:
    with pytest.raises(TypeError, match="got an unexpected keyword argument") as caught:
        call(producer)
    assert hint in notes(caught.value)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda c: c.subscribe(["t"], on_assign=print), "to the consumer, when it is made"),
        (lambda c: c.subscribe(topics=["t"]), 'subscribe(["orders", "returns"])'),
        (lambda c: c.consume(num_messages=5), "it is max_records="),
        (lambda c: c.next_batch(timeout_ms=5), "it is timeout=, in seconds"),
        (lambda c: c.batches(timeout_ms=5), "it is timeout=, in seconds"),
        (lambda c: c.commit(asynchronous=False), "commit_async() does not"),
        (lambda c: c.commit(message=None), "commit(record)"),
    ],
)
def test_other_consumers_keywords_are_refused_with_ours(
    kafkalite_bootstrap: str, call: Callable[[Any], object], hint: str
) -> None:
    with (
        kl.Consumer(bootstrap_servers=kafkalite_bootstrap, group_id="g") as consumer,
        pytest.raises(TypeError, match="got an unexpected keyword argument") as caught,
    ):
        call(consumer)
    assert hint in notes(caught.value)


def test_what_has_to_be_a_keyword_is_named(admin: Any) -> None:
    with pytest.raises(TypeError) as caught:
        admin.create_topic("t", 3)
    assert "these are keywords: partitions, replication_factor" in notes(caught.value)
    with pytest.raises(TypeError) as caught:
        admin.create_topic("t", num_partitions=3)
    assert "it is partitions=" in notes(caught.value)


@pytest.mark.parametrize(
    ("use", "hint"),
    [
        (lambda p, t: p.poll(0), "nothing needs to be polled"),
        (lambda p, t: p.init_transactions(), "no transactions yet"),
        (lambda p, t: p.list_topics(), "AdminClient.list_topics()"),
        (lambda p, t: p.send(t, b"v").get(timeout=5), "it is result(timeout)"),
        (lambda p, t: p.send_and_wait(t, b"v"), "it is send(...).result(timeout)"),
        (lambda p, t: p.send_batch_and_wait(t), "it is send_batch(topic, values).result(timeout)"),
    ],
)
def test_methods_of_other_producers_get_a_hint_at_ours(
    producer: Any, name: str, use: Callable[[Any, str], object], hint: str
) -> None:
    with pytest.raises(AttributeError, match="has no attribute") as caught:
        use(producer, name)
    assert hint in notes(caught.value)
    assert not hasattr(producer, "poll")


@pytest.mark.parametrize(
    ("client", "name", "hint"),
    [
        (kl.Consumer, "getmany", "it is consume("),
        (kl.Consumer, "list_topics", "AdminClient.list_topics()"),
        (kl.Consumer, "store_offsets", "it is commit(record)"),
        (kl.AsyncConsumer, "getone", "it is poll(timeout)"),
        (kl.AsyncConsumer, "start", "nothing needs to be started"),
        (kl.AsyncConsumer, "stop", "it is close()"),
        (kl.AsyncProducer, "send_and_wait", "await send()"),
        (kl.AsyncProducer, "start", "nothing needs to be started"),
    ],
)
def test_methods_of_other_clients_get_a_hint_at_ours(client: Any, name: str, hint: str) -> None:
    made = client(bootstrap_servers="127.0.0.1:9")
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as caught:
        getattr(made, name)
    if (closing := made.close()) is not None:
        asyncio.run(closing)
    assert hint in notes(caught.value)


def test_a_commits_callback_that_cannot_be_called_is_refused_before_it_is_sent() -> None:
    with kl.Consumer(bootstrap_servers="127.0.0.1:9", group_id="g") as consumer:
        commit: Any = consumer.commit_async
        with pytest.raises(TypeError, match="callback must be something to call, not int"):
            commit({("orders", 0): 1}, 5)


@pytest.mark.parametrize("client", [kl.Producer, kl.Consumer])
def test_no_hint_at_a_client_for_threads_says_await(client: Any) -> None:
    with client(bootstrap_servers="127.0.0.1:9") as made:
        for name in arguments._ATTRIBUTES:
            assert "await" not in notes(arguments.absent(made, name))


async def ask_for_topics(servers: str, timeout: Any) -> None:
    """Ask with a time limit, from an event loop."""
    async with kl.AsyncAdminClient(bootstrap_servers=servers) as admin:
        await admin.list_topics(timeout=timeout)


@pytest.mark.parametrize("timeout", ["5", timedelta(seconds=1)])
def test_a_time_limit_that_is_no_number_is_refused_in_words(
    kafkalite_bootstrap: str, admin: Any, producer: Any, name: str, timeout: Any
) -> None:
    with kl.Consumer(bootstrap_servers=kafkalite_bootstrap, group_id="g") as consumer:
        calls: list[Callable[[], object]] = [
            lambda: admin.list_topics(timeout=timeout),
            lambda: admin.describe_groups(["g"], timeout=timeout),
            lambda: asyncio.run(ask_for_topics(kafkalite_bootstrap, timeout)),
            lambda: producer.flush(timeout),
            lambda: producer.send(name, b"v").result(timeout),
            lambda: producer.send_batch(name, [b"v"]).result(timeout),
            lambda: consumer.poll(timeout),
            lambda: consumer.consume(1, timeout),
            lambda: consumer.next_batch(timeout=timeout),
            lambda: consumer.end_offsets(("t", 0), timeout=timeout),
            lambda: kl.Broker().wait_ready(timeout),
        ]
        for call in calls:
            with pytest.raises(
                TypeError, match=r"number of seconds, not (str|timedelta)"
            ) as caught:
                call()
            assert ("total_seconds()" in notes(caught.value)) is isinstance(timeout, timedelta)


def test_a_time_limit_that_is_not_a_number_does_not_wait(producer: Any, admin: Any) -> None:
    nan = float("nan")
    calls: list[Callable[[], object]] = [
        lambda: producer.flush(nan),
        lambda: admin.list_topics(timeout=nan),
    ]
    for call in calls:
        with pytest.raises(kl.InvalidArgumentError, match="nan is no number of seconds"):
            call()
    with pytest.raises(kl.InvalidArgumentError, match="nan is no number of seconds"):
        kl.Broker().wait_ready(nan)


WHEN: Any = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_date_is_refused_with_what_makes_milliseconds_of_it(
    kafkalite_bootstrap: str, producer: Any, name: str
) -> None:
    with kl.Consumer(bootstrap_servers=kafkalite_bootstrap, group_id="g") as consumer:
        calls: list[Callable[[], object]] = [
            lambda: producer.send(name, b"v", timestamp_ms=WHEN),
            lambda: consumer.offsets_for_times({(name, 0): WHEN}),
            lambda: consumer.seek_to_time(WHEN),
        ]
        for call in calls:
            with pytest.raises(TypeError, match="milliseconds since 1970, not datetime") as caught:
                call()
            assert "int(when.timestamp() * 1000)" in notes(caught.value)


@pytest.mark.parametrize(
    "send",
    [
        lambda p, t: p.send(t, b"v", timestamp_ms=-1),
        lambda p, t: p.produce(t, b"v", timestamp_ms=-5),
        lambda p, t: p.send_batch(t, [b"v"], timestamps=-1),
        lambda p, t: p.send_batch(t, [b"v", b"w"], timestamps=[5, -5]),
    ],
)
def test_a_time_before_1970_is_refused_as_by_kafkas_producer(
    producer: Any, name: str, send: Callable[[Any, str], object]
) -> None:
    with pytest.raises(kl.InvalidArgumentError, match=r"timestamp: -[15] is negative"):
        send(producer, name)
    assert producer.send(name, b"v", timestamp_ms=0).result(30).timestamp_ms == 0


PAIRS = 'give pairs, as in [("orders", 0), ("orders", 1)].'
ONE_BY_ONE = 'give pairs one by one, as in ("orders", 0), ("orders", 1).'


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda c: c.end_offsets([("t", 0)]), ONE_BY_ONE),
        (lambda c: c.beginning_offsets("t"), ONE_BY_ONE),
        (lambda c: c.pause("t"), ONE_BY_ONE),
        (lambda c: c.seek("t", 5), ONE_BY_ONE),
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


@pytest.mark.parametrize("topics", [[5], {"bootstrap.servers": "127.0.0.1:9"}, None])
def test_what_is_neither_a_name_nor_a_list_of_names_is_refused(topics: Any) -> None:
    with pytest.raises(kl.InvalidArgumentError, match="is not a name or a pattern") as caught:
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


def test_a_key_of_a_topic_gets_a_hint_at_the_brokers_name() -> None:
    with pytest.raises(kl.BrokerStartError) as caught:
        kl.Broker(config={"retention.ms": 5}).start()
    assert caught.value.hint == "did you mean log.retention.ms?"


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"port": "9092"}, "port must be a whole number, not str"),
        ({"admin_port": "0"}, "admin_port must be a whole number, not str"),
        ({"topics": 5}, "topics must be names, or names with partitions, not 5"),
        ({"topics": [kl.NewTopic("t")]}, "topics must be names, or names with partitions"),
        ({"topics": {"t": "3"}}, r"topics\['t'\] must be a whole number, not str"),
    ],
)
def test_a_broker_refuses_what_is_no_number_or_topic(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        kl.Broker(**wrong)


def test_a_port_that_cannot_be_is_not_taken_for_another() -> None:
    with pytest.raises(kl.BrokerStartError, match="99999"):
        kl.Broker(port=99_999).start()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("AIOKafkaProducer", "AsyncProducer"),
        ("AIOKafkaConsumer", "AsyncConsumer"),
        ("KafkaProducer", "Producer"),
        ("KafkaAdminClient", "AdminClient"),
    ],
)
def test_a_class_of_another_client_is_answered_with_ours(theirs: str, ours: str) -> None:
    with pytest.raises(AttributeError, match=f"hint: it is kafkalite.{ours} here"):
        getattr(kl, theirs)
    assert getattr(kl, ours)
    assert not hasattr(kl, theirs)


@pytest.mark.parametrize(
    ("client", "name", "hint"),
    [
        (kl.AsyncProducer, "start", "`async with` in asyncio"),
        (kl.AsyncProducer, "send_and_wait", "await send()"),
        (kl.AsyncProducer, "send_batch_and_wait", "await send_batch()"),
        (kl.AsyncProducer, "create_batch", "send_batch(topic, values)"),
        (kl.AsyncProducer, "transaction", "no transactions yet"),
        (kl.AsyncConsumer, "getone", "it is poll(timeout)"),
        (kl.AsyncConsumer, "getmany", "it is consume("),
        (kl.AsyncConsumer, "seek_to_committed", "seek(partition, committed()[partition])"),
        (kl.AsyncConsumer, "topics", "AsyncAdminClient.list_topics()"),
        (kl.AsyncConsumer, "last_stable_offset", "read_committed"),
    ],
)
def test_methods_of_aiokafka_are_answered_with_ours(client: Any, name: str, hint: str) -> None:
    made = client(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(AttributeError) as caught:
        getattr(made, name)
    asyncio.run(made.close())
    assert hint in notes(caught.value)


def test_a_send_that_is_not_awaited_warns() -> None:
    async def main() -> None:
        async with kl.AsyncProducer(bootstrap_servers="127.0.0.1:1") as producer:
            with pytest.warns(RuntimeWarning, match=r"AsyncProducer.send' was never awaited"):
                producer.send("t", b"v")  # type: ignore[unused-coroutine]

    asyncio.run(main())


@pytest.mark.parametrize(
    "topics", [("a", "b"), (["a", "b"],), (("a",), "b"), ({"a", "b"},), (["a"], ["b", "a"])]
)
def test_topics_are_given_one_by_one_or_as_a_list(topics: tuple[Any, ...]) -> None:
    with kl.Consumer(*topics, bootstrap_servers="127.0.0.1:1") as consumer:
        assert consumer.subscription() == ["a", "b"]
        consumer.subscribe(*topics)
        assert consumer.subscription() == ["a", "b"]


def test_clients_take_brackets_for_their_keys_and_values() -> None:
    for client in (kl.Producer, kl.Consumer, kl.AsyncProducer, kl.AsyncConsumer):
        assert get_args(client[str, bytes]) == (str, bytes)
