"""The producer in asyncio: one await is delivered, and the loop never waits."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import pathlib
import time
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import kafkalite as kl
from tests.clients.producer.reading import read

PATIENCE_S = 60.0


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine in a loop of its own, with a time limit."""
    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_one_await_is_delivered(kafkalite_bootstrap: str, name: str) -> None:
    async def main() -> None:
        async with kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap) as producer:
            metadata = await producer.send(name, b"v", key=b"k", headers={"h": b"1"})
            assert (metadata.topic, metadata.partition, metadata.offset) == (name, 0, 0)
            assert await producer.partitions_for(name) == [0]
            assert producer.metrics()["record-send-total"] == 1.0
            with pytest.raises(TypeError):
                await producer.send(name, 5)  # type: ignore[arg-type]

    run(main)
    (found,) = read(kafkalite_bootstrap, name, 1)
    assert (found.key, found.value, found.headers) == (b"k", b"v", (("h", b"1"),))


def test_sends_that_wait_for_room_keep_their_order(kafkalite_bootstrap: str, name: str) -> None:
    # A small one finds room where the large one before it does not.
    values = [bytes(1_500 if number % 2 else 10) for number in range(200)]
    settings: dict[str, Any] = {"buffer_memory": 4_096, "batch_size": 1_024, "linger_ms": 0}

    async def main() -> None:
        async with kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap, **settings) as producer:
            await producer.partitions_for(name)
            await producer.send(name, b"first")
            sent = await asyncio.gather(*(producer.send(name, value) for value in values))
            assert [metadata.offset for metadata in sent] == list(range(1, 201))

    run(main)


def callback_threads() -> int:
    """Count the threads of producers that call back; the system alone knows of them."""
    names = []
    for thread in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            names.append((thread / "comm").read_text().strip())
    return names.count("kafkalite-cb")


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_an_unclosed_producer_leaves_no_thread(kafkalite_bootstrap: str, name: str) -> None:
    before = callback_threads()

    async def main() -> None:
        producer = kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap)
        await producer.send(name, b"v")

    run(main)
    gc.collect()
    deadline = time.monotonic() + PATIENCE_S
    while callback_threads() > before:
        assert time.monotonic() < deadline


def test_a_producer_that_is_forgotten_delivers_and_warns(
    kafkalite_bootstrap: str, name: str
) -> None:
    async def main() -> None:
        producer = kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap, linger_ms=200)
        await producer.send(name, b"first")
        sending = asyncio.create_task(producer.send(name, b"v"))
        await asyncio.sleep(0)  # The task begins, and adds the record.
        sending.cancel()
        await asyncio.wait([sending])

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run(main)
        gc.collect()
    assert [warning.category for warning in seen] == [ResourceWarning]
    assert [record.value for record in read(kafkalite_bootstrap, name, 2)] == [b"first", b"v"]


def test_many_sends_at_once_are_few_wake_ups(kafkalite_bootstrap: str, name: str) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        wakes = 0
        wake = loop.call_soon_threadsafe

        def counted(*arguments: Any, **keywords: Any) -> asyncio.Handle:
            nonlocal wakes
            wakes += 1
            return wake(*arguments, **keywords)

        async with kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap) as producer:
            await producer.send(name, b"first")
            loop.call_soon_threadsafe = counted  # type: ignore[method-assign, assignment]
            sends = [producer.send(name, b"%d" % number) for number in range(5_000)]
            found = await asyncio.gather(*sends)
            loop.call_soon_threadsafe = wake  # type: ignore[method-assign]
        assert [metadata.offset for metadata in found] == list(range(1, 5_001))
        assert wakes < 500, "the loop is woken for many records at once"

    run(main)


def test_batches_are_awaited_as_a_whole(kafkalite_bootstrap: str, name: str) -> None:
    async def main() -> None:
        async with kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap) as producer:
            found = await producer.send_batch(name, [b"v"] * 1_000)
            assert found == [kl.DeliveredRange(name, 0, 0, 1_000)]
            assert await producer.send_batch(name, []) == []
            await producer.flush(PATIENCE_S)

    run(main)


def test_after_a_flush_every_send_before_it_has_its_result(
    kafkalite_bootstrap: str, name: str
) -> None:
    async def main() -> None:
        async with kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap) as producer:
            await producer.send(name, b"the topic is known now")
            sends = [asyncio.ensure_future(producer.send(name, b"v")) for _ in range(500)]
            await asyncio.sleep(0)
            await producer.flush(PATIENCE_S)
            assert all(send.done() for send in sends)

    run(main)


def test_a_full_buffer_does_not_stop_the_loop() -> None:
    async def main() -> None:
        with kl.Broker(in_process=False, topics=["t"]) as broker:
            async with kl.AsyncProducer(
                bootstrap_servers=broker.bootstrap_servers,
                buffer_memory=100_000,
                max_block_ms=20_000,
            ) as producer:
                await producer.send("t", b"first")
                broker.kill()
                sends = [asyncio.ensure_future(producer.send("t", b"x" * 900)) for _ in range(300)]
                longest = 0.0
                for _ in range(20):
                    began = time.monotonic()
                    await asyncio.sleep(0.01)
                    longest = max(longest, time.monotonic() - began)
                assert not any(send.done() for send in sends)
                # A loop that waited for room would have waited for as long as max_block_ms.
                assert longest < 10
                await asyncio.to_thread(broker.start)
                found = await asyncio.gather(*sends)
                assert sorted(metadata.offset for metadata in found) == list(range(1, 301))

    run(main)


async def is_acknowledged(producer: kl.AsyncProducer) -> bool:
    """Whether a first record is: on a machine that stands still, not within ``max.block.ms``."""
    try:
        await producer.send("t", b"first")
    except kl.RequestTimedOut:
        return False
    return True


def test_room_that_does_not_come_is_an_error_in_time() -> None:
    async def main() -> None:
        with kl.Broker(in_process=False, topics=["t"]) as broker:
            producer = kl.AsyncProducer(
                bootstrap_servers=broker.bootstrap_servers, buffer_memory=50_000, max_block_ms=200
            )
            while not await is_acknowledged(producer):
                pass
            broker.kill()
            sends = [asyncio.ensure_future(producer.send("t", b"x" * 900)) for _ in range(100)]
            done, waiting = await asyncio.wait(sends, return_when=asyncio.FIRST_EXCEPTION)
            with pytest.raises(kl.BufferFullError):
                done.pop().result()
            for send in waiting:
                send.cancel()
            with pytest.warns(RuntimeWarning, match="not delivered"):
                await producer.close(timeout=0)
            await asyncio.gather(*sends, return_exceptions=True)

    run(main)


def test_cancelling_a_wait_leaves_the_record_on_its_way(
    kafkalite_bootstrap: str, name: str
) -> None:
    async def main() -> None:
        async with kl.AsyncProducer(
            bootstrap_servers=kafkalite_bootstrap, linger_ms=100
        ) as producer:
            await producer.send(name, b"first")
            send = asyncio.ensure_future(producer.send(name, b"second"))
            await asyncio.sleep(0)
            send.cancel()
            with pytest.raises(asyncio.CancelledError):
                await send
            assert (await producer.send(name, b"third")).offset == 2

    run(main)


def test_failures_are_raised_where_they_are_awaited(
    kafkalite_bootstrap: str, admin: kl.AdminClient, name: str
) -> None:
    admin.create_topic(name, config={"max.message.bytes": 500})

    async def main() -> None:
        async with kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap) as producer:
            with pytest.raises(kl.MessageTooLarge):
                await producer.send(name, b"x" * 1_000)
            with pytest.raises(kl.PartialError) as caught:
                await producer.send_batch(name, [b"x", b"x" * 1_000])
            assert list(caught.value.errors) == [1]
        with pytest.raises(kl.ClosedError):
            await producer.send(name, b"v")

    run(main)


def test_an_unknown_topic_is_an_error_in_time() -> None:
    async def main() -> None:
        with kl.Broker(config={"auto.create.topics.enable": False}) as broker:
            async with kl.AsyncProducer(
                bootstrap_servers=broker.bootstrap_servers, max_block_ms=200
            ) as producer:
                with pytest.raises(kl.KafkaliteError, match=r"UNKNOWN_TOPIC|REQUEST_TIMED_OUT"):
                    await producer.send("missing", b"v")

    run(main)


def test_a_producer_belongs_to_one_loop(kafkalite_bootstrap: str, name: str) -> None:
    producer = kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap)

    async def send() -> None:
        await producer.send(name, b"v")

    run(send)
    with pytest.raises(kl.IllegalStateError, match="another event loop"):
        run(send)
    run(producer.close)
