"""What wakes an asyncio consumer, and when it lets other tasks run."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from kafkalite import AsyncConsumer
from tests.clients.consumer.consuming import PATIENCE_S, Cluster, numbered


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that goes on after an exception, as in a notebook."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


class Once:
    """Calls something, and raises as the handler of Ctrl-C does: once, before or after it."""

    def __init__(self, call: Callable[..., Any], *, before: bool) -> None:
        """Call ``call``."""
        self._call = call
        self._before = before
        self.raised = False

    def __call__(self, *arguments: Any) -> Any:
        """Call it."""
        raises, self.raised = not self.raised, True
        if raises and self._before:
            raise KeyboardInterrupt
        result = self._call(*arguments)
        if raises:
            raise KeyboardInterrupt
        return result


class Native:
    """The binary's part of a consumer, one method of which is another."""

    def __init__(self, native: Any, **others: Any) -> None:
        """Have ``others`` in place of the methods of these names."""
        self._native = native
        self.__dict__.update(others)

    def __getattr__(self, name: str) -> Any:
        """Return what the binary has."""
        return getattr(self._native, name)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("step", ["add_reader", "arm", "settle", "read"])
def test_a_consumer_is_woken_after_ctrl_c_came_anywhere_on_the_way(
    cluster: Cluster,
    loop: asyncio.AbstractEventLoop,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    before: bool,
) -> None:
    """It slept for a third of ``max.poll.interval.ms``, with records at hand."""
    topic = cluster.topic()

    async def made() -> AsyncConsumer[Any, Any]:
        consumer = cluster.async_consumer()
        consumer.assign([(topic, 0)])
        return consumer

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        return loop.run_until_complete(asyncio.wait_for(main, PATIENCE_S))

    async def next_record(written: bytes) -> Any:
        poll = asyncio.ensure_future(consumer.poll())
        polls.append(poll)
        # It waits by then.
        await asyncio.sleep(0)
        await asyncio.to_thread(cluster.write, topic, [written])
        return await poll

    polls: list[asyncio.Future[Any]] = []
    consumer = run(made())
    native = consumer._native
    if step == "add_reader":
        once = Once(loop.add_reader, before=before)
        monkeypatch.setattr(loop, "add_reader", once)
    elif step == "arm":
        once = Once(native.arm, before=before)
        consumer._native = Native(native, arm=once)
    elif step == "settle":
        once = Once(consumer._settle, before=before)
        monkeypatch.setattr(consumer, "_settle", once)
    else:
        once = Once(os.read, before=before)
        monkeypatch.setattr(os, "read", once)
    with pytest.raises(KeyboardInterrupt):
        run(next_record(b"first"))
    assert once.raised
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.wait(left) if left else asyncio.sleep(0))
    # Retrieved, so that no loop complains about it later.
    assert all(poll.cancelled() or poll.exception() or poll.result() for poll in polls)
    seen = run(next_record(b"second")).value
    while seen != b"second":
        seen = run(consumer.poll()).value
    assert run(next_record(b"third")).value == b"third"
    run(consumer.close())


def test_the_loop_may_call_a_consumer_twice_for_one_byte(cluster: Cluster) -> None:
    """The second call froze the loop: after ``SystemExit`` two calls are in its queue."""
    topic = cluster.topic()

    async def main() -> None:
        async with cluster.async_consumer(topic) as consumer:
            assert await consumer.poll(0.01) is None
            cluster.write(topic, numbered(1))
            assert await consumer.poll() is not None
            threads = [threading.Thread(target=consumer._wake, daemon=True) for _ in range(2)]
            for thread in threads:
                thread.start()
                thread.join(PATIENCE_S)
                assert not thread.is_alive()

    asyncio.run(main())


def test_a_consumer_that_does_not_wait_lets_other_tasks_run(cluster: Cluster) -> None:
    topic = cluster.topic()

    async def main() -> None:
        async with cluster.async_consumer(topic) as consumer:
            turns = 0

            async def others() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.create_task(others())
            for _ in range(10):
                assert await consumer.poll(timeout=0) is None
            task.cancel()
            assert turns >= 10

    asyncio.run(main())
