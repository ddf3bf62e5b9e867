"""An asyncio producer while records wait: their order, and that every wait ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import kafkalite as kl
from tests.clients.loops import busy_threads
from tests.clients.producer.reading import read

PATIENCE_S = 60.0


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine in a loop of its own, with a time limit."""
    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_sends_of_a_new_topic_keep_their_order(kafkalite_bootstrap: str, name: str) -> None:
    """The topic's metadata woke all that waited for it, in any order."""

    async def main() -> None:
        topics = [f"{name}-{number}" for number in range(3)]
        async with kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap) as producer:
            sends = [producer.send(topics[number % 3], b"%d" % number) for number in range(300)]
            found = await asyncio.gather(*sends)
        assert [metadata.offset for metadata in found] == [number // 3 for number in range(300)]

    run(main)


def test_batches_and_records_of_a_new_topic_keep_their_order(
    kafkalite_bootstrap: str, name: str
) -> None:
    """Each batch was added by a thread of its own, in any order, and records passed batches."""

    async def main() -> None:
        async with kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap) as producer:
            calls: list[Coroutine[Any, Any, object]] = []
            for number in range(30):
                calls.append(producer.send_batch(name, [b"%d" % number] * 10))
                calls.append(producer.send(name, b"%d" % number))
            await asyncio.gather(*calls)

    run(main)
    values = [record.value for record in read(kafkalite_bootstrap, name, 330)]
    assert values == [b"%d" % (at // 11) for at in range(330)]


def test_what_was_cancelled_in_line_leaves_the_others_in_order(
    kafkalite_bootstrap: str, name: str
) -> None:
    async def main() -> None:
        async with kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap) as producer:
            sends = [
                asyncio.ensure_future(producer.send(name, b"%d" % number)) for number in range(100)
            ]
            await asyncio.sleep(0)
            for send in sends[::2]:
                send.cancel()
            found = await asyncio.gather(*sends[1::2])
            assert [metadata.offset for metadata in found] == list(range(50))
            assert (await producer.send(name, b"next")).offset == 50

    run(main)


def test_a_missing_topic_is_the_error_of_every_send_that_waits_for_it() -> None:
    async def main() -> None:
        with kl.Broker(config={"auto.create.topics.enable": False}) as broker:
            settings: dict[str, Any] = {"max_block_ms": 1_000}
            async with kl.AsyncProducer(
                bootstrap_servers=broker.bootstrap_servers, **settings
            ) as producer:
                sends = [producer.send("missing", b"v") for _ in range(50)]
                found = await asyncio.gather(*sends, return_exceptions=True)
                assert {type(error) for error in found} == {kl.UnknownTopicError}

    run(main)


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_a_send_that_got_no_memory_keeps_none_from_others(how: str) -> None:
    """Its exception, or its task, held its place at the head of the line for as long as it lived.

    No other send got memory any more.
    """

    async def main() -> None:
        with kl.Broker(in_process=False, topics=["t", "other"]) as broker:
            async with kl.AsyncProducer(
                bootstrap_servers=broker.bootstrap_servers,
                buffer_memory=50_000,
                max_block_ms=300 if how == "failed" else 60_000,
            ) as producer:
                await producer.send("t", b"first")
                await producer.send("other", b"first")
                broker.kill()
                sends = [asyncio.ensure_future(producer.send("t", b"x" * 900)) for _ in range(100)]
                if how == "failed":
                    done, _ = await asyncio.wait(sends, return_when=asyncio.FIRST_EXCEPTION)
                    assert isinstance(next(iter(done)).exception(), kl.BufferFullError)
                    done, waiting = await asyncio.wait(sends, timeout=2)
                else:
                    while producer.metrics()["buffer-available-bytes"] > 1_000:
                        await asyncio.sleep(0)
                    # All that found no room are among these.
                    cancelled, waiting = sends[1:], {sends[0]}
                    for send in cancelled:
                        send.cancel()
                    await asyncio.wait(cancelled)
                await asyncio.to_thread(broker.start)
                # The failed sends live on, as does what they hold.
                await asyncio.wait(waiting)
                assert (await producer.send("other", b"x" * 900)).topic == "other"

    run(main)


def test_a_close_does_not_wait_behind_batches_that_wait_for_room() -> None:
    """The loop's own threads were all busy with batches: the close began when they gave up."""

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
        with kl.Broker(in_process=False, topics=["t"]) as broker:
            producer = kl.AsyncProducer(
                bootstrap_servers=broker.bootstrap_servers,
                buffer_memory=50_000,
                max_block_ms=40_000,
            )
            await producer.send("t", b"first")
            broker.kill()
            batch = asyncio.ensure_future(producer.send_batch("t", [b"x" * 900] * 1_000))
            while producer.metrics()["buffer-available-bytes"] > 5_000:
                await asyncio.sleep(0)
            with pytest.warns(RuntimeWarning, match="not delivered"):
                await asyncio.wait_for(producer.close(timeout=0), 20)
            with pytest.raises(kl.ClosedError):
                await batch

    run(main)


def test_records_come_behind_those_of_a_batch_whose_wait_was_cancelled() -> None:
    """The batch left its place when it was cancelled, and went on: later records came between."""

    async def main() -> None:
        with kl.Broker(in_process=False, topics=["t"]) as broker:
            async with kl.AsyncProducer(
                bootstrap_servers=broker.bootstrap_servers, buffer_memory=50_000
            ) as producer:
                await producer.send("t", b"first")
                broker.kill()
                batch = asyncio.ensure_future(producer.send_batch("t", [b"x" * 900] * 1_000))
                while producer.metrics()["buffer-available-bytes"] > 5_000:
                    await asyncio.sleep(0)
                batch.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await batch
                later = asyncio.ensure_future(producer.send("t", b"later"))
                await asyncio.to_thread(broker.start)
                assert (await later).offset == 1_001

    run(main)


def test_a_serializer_is_called_once_for_a_record_that_waits(
    kafkalite_bootstrap: str, name: str
) -> None:
    """It was called again after every wait: for metadata, and for memory."""
    calls = 0

    def serializer(value: Any) -> bytes:
        nonlocal calls
        calls += 1
        return bytes(value)

    async def main() -> None:
        async with kl.AsyncProducer(
            bootstrap_servers=kafkalite_bootstrap,
            value_serializer=serializer,
            buffer_memory=4_096,
            batch_size=1_024,
        ) as producer:
            await asyncio.gather(*(producer.send(name, 1_500) for _ in range(50)))

    run(main)
    assert calls == 50


def test_a_send_that_waits_for_a_topic_ends_with_its_producer() -> None:
    """The end of the producer ended no wait: the send ended when its own time was over."""

    async def main() -> None:
        with kl.Broker(config={"auto.create.topics.enable": False}) as broker:
            producer = kl.AsyncProducer(bootstrap_servers=broker.bootstrap_servers)
            send = asyncio.ensure_future(producer.send("missing", b"v"))
            await asyncio.sleep(0)
            await producer.close(timeout=0)
            with pytest.raises(kl.ClosedError):
                await asyncio.wait_for(send, 20)

    run(main)


@pytest.mark.parametrize(
    "interrupt", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit]
)
def test_what_ends_a_program_passes_through_a_serializer(
    kafkalite_bootstrap: str, name: str, interrupt: type[BaseException]
) -> None:
    """Ctrl-C in a serializer became a SerializationError, which programs catch and go on."""

    def serializer(value: Any) -> bytes:
        raise interrupt

    class Iterates:
        def __iter__(self) -> Any:
            raise interrupt

    with kl.Producer(
        bootstrap_servers=kafkalite_bootstrap, value_serializer=serializer
    ) as producer:
        calls: list[Callable[[], object]] = [
            lambda: producer.send(name, 1),
            lambda: producer.produce(name, 1),
            lambda: producer.send_batch(name, [1]),
            lambda: producer.send(name, None, headers=Iterates()),
        ]
        for call in calls:
            with pytest.raises(interrupt):
                call()
        assert producer.metrics()["record-send-total"] == 0.0

    async def main() -> None:
        producer = kl.AsyncProducer(
            bootstrap_servers=kafkalite_bootstrap, value_serializer=serializer
        )
        # The topic is known then, and null is for no serializer.
        await producer.send(name, None)
        coroutine = producer.send(name, 1)
        with pytest.raises(interrupt):
            coroutine.send(None)
        await producer.close()

    # A loop would end with what its task raises.
    run(main)


def test_the_threads_of_a_loop_are_left_to_its_program(kafkalite_bootstrap: str, name: str) -> None:
    async def main() -> None:
        async with (
            busy_threads(),
            kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap) as producer,
        ):
            assert await producer.partitions_for(name) == [0]
            await producer.send_batch(name, [b"v"])
            await producer.flush()

    run(main)


class Interrupted(asyncio.SelectorEventLoop):
    """A loop in which Ctrl-C comes while a task is woken, once."""

    ctrl_c = False

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """Have ``callback(*args)`` called."""
        handle = super().call_soon(callback, *args, context=context)
        result = args[0].result() if args and isinstance(args[0], asyncio.Future) else None
        if self.ctrl_c and isinstance(result, kl.RecordMetadata):
            self.ctrl_c = False
            raise KeyboardInterrupt
        return handle


def test_ctrl_c_while_many_sends_end_leaves_none_waiting(
    kafkalite_bootstrap: str, name: str
) -> None:
    """Those that came behind it in the same answers never ended."""
    loop = Interrupted()

    async def made() -> kl.AsyncProducer:
        producer = kl.AsyncProducer(bootstrap_servers=kafkalite_bootstrap, linger_ms=50)
        await producer.send(name, b"v")
        return producer

    try:
        producer = loop.run_until_complete(made())
        sends = [loop.create_task(producer.send(name, b"v")) for _ in range(100)]
        loop.ctrl_c = True
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(asyncio.wait(sends))
        _, waiting = loop.run_until_complete(asyncio.wait(sends, timeout=20))
        assert not waiting
        loop.run_until_complete(producer.close())
    finally:
        loop.close()
