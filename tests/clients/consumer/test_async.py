"""The consumer for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kafkalite import AsyncAdminClient, CommittedOffset, TopicPartition, errors
from kafkalite.aio.consumer import RECORDS_AT_A_TIME
from tests.clients.consumer.consuming import PATIENCE_S, Cluster, numbered, part, values
from tests.clients.loops import busy_threads


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run with patience, whatever the loop hangs on."""
    asyncio.run(asyncio.wait_for(main, PATIENCE_S))


def test_records_come_one_by_one_in_lists_in_batches_and_by_iteration(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(10))

    async def main() -> None:
        async with cluster.async_consumer(topic) as consumer:
            record = await consumer.poll()
            assert record is not None
            read = values(await consumer.consume(2, timeout=5))
            batch = await consumer.next_batch(max_records=3)
            assert batch is not None
            read += batch.values()
            async for record in consumer:
                read.append(record.value)
                if len(read) == 9:
                    break
            assert read == numbered(10)[1:]
            assert await consumer.poll(0) is None
            assert await consumer.consume(timeout=0.01) == []

    run(main())


def test_batches_end_when_nothing_comes(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(100))

    async def main() -> None:
        async with cluster.async_consumer(topic) as consumer:
            sizes: list[int] = []
            batches = consumer.batches(30, timeout=PATIENCE_S)
            while sum(sizes) < 100:
                sizes.append(len(await anext(batches)))
            assert sum(sizes) == 100
            assert max(sizes) <= 30
            assert [batch async for batch in consumer.batches(timeout=0.1)] == []

    run(main())


def test_a_waiting_consumer_lets_other_tasks_run_and_wakes_for_records(cluster: Cluster) -> None:
    topic = cluster.topic()

    async def main() -> None:
        async with cluster.async_consumer(topic) as consumer:
            turns = 0

            async def others() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0.001)

            task = asyncio.create_task(others())
            waiting = asyncio.create_task(consumer.poll())
            while turns < 50:
                await asyncio.sleep(0.001)
            assert not waiting.done()
            await asyncio.to_thread(cluster.write, topic, [b"x"])
            record = await waiting
            assert record is not None
            task.cancel()

    run(main())


def test_a_busy_consumer_lets_other_tasks_run(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(5_000))

    async def main() -> None:
        async with cluster.async_consumer(topic) as consumer:
            turns = 0

            async def others() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.create_task(others())
            for _ in range(5_000):
                assert await consumer.poll() is not None
            task.cancel()
            assert turns > 5_000 // 256

    run(main())


def test_a_call_that_is_cancelled_loses_no_record(cluster: Cluster) -> None:
    topic = cluster.topic()

    async def main() -> None:
        async with cluster.async_consumer(topic) as consumer:
            for _ in range(20):
                waiting = asyncio.create_task(consumer.poll())
                await asyncio.sleep(0.001)
                waiting.cancel()
            await asyncio.to_thread(cluster.write, topic, numbered(3))
            polled = [await consumer.poll() for _ in range(3)]
            assert [record.value for record in polled if record] == numbered(3)

    run(main())


def test_records_that_lie_ready_are_not_lost_by_a_call_that_is_cancelled(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(1_000))

    async def main() -> None:
        async with cluster.async_consumer(topic) as consumer:
            polled = [await consumer.poll() for _ in range(RECORDS_AT_A_TIME - 1)]
            read = [record.value for record in polled if record]
            calls: list[Callable[[], Coroutine[Any, Any, Any]]]
            calls = [consumer.poll, consumer.poll, consumer.consume, consumer.next_batch]
            for call in calls:
                waiting = asyncio.create_task(call())
                # One turn: however far the call gets in it, what it took it must return.
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting])
                if not waiting.cancelled():
                    read.append(waiting.result().value)
            while len(read) < 1_000:
                read += values(await consumer.consume(timeout=5))
            assert read == numbered(1_000)

    run(main())


def test_listeners_may_be_coroutines_and_commits_are_awaited(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(4))
    seen: list[tuple[str, int]] = []

    async def assigned(partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        seen.append(("assign", len(partitions)))

    def revoked(partitions: list[TopicPartition]) -> None:
        seen.append(("revoke", len(partitions)))

    async def main() -> None:
        settings: dict[str, Any] = {"on_assign": assigned, "on_revoke": revoked}
        async with cluster.async_consumer(topic, group_id=group, **settings) as consumer:
            record = await consumer.poll()
            assert record is not None
            await consumer.commit(record)
            assert await consumer.committed() == {part(topic): CommittedOffset(1, 0)}
            assert await consumer.position(part(topic)) == 1
            assert await consumer.end_offsets() == {part(topic): 4}
            assert await consumer.beginning_offsets() == {part(topic): 0}
            found = await consumer.offsets_for_times({part(topic): 0})
            assert (found[part(topic)] or record).offset == 0
            assert await consumer.partitions_for(topic) == [0]
            consumer.seek(part(topic), 3)
            record = await consumer.poll()
            assert record is not None
            assert (record.value, consumer.lag()) == (b"v3", {part(topic): 0})
            await consumer.unsubscribe()
            assert consumer.assignment() == []

    run(main())
    assert seen == [("assign", 1), ("revoke", 1)]


def test_a_listener_goes_on_when_the_call_that_shows_it_something_is_cancelled(
    cluster: Cluster,
) -> None:
    """The listener was cancelled with the call: it sought nothing, and records came again."""
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(10))

    async def main() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def assigned(partitions: list[TopicPartition]) -> None:
            begun.set()
            await go_on.wait()
            consumer.seek(partitions[0], 5)

        consumer = cluster.async_consumer(topic, group_id=group, on_assign=assigned)
        async with consumer:
            first = asyncio.create_task(consumer.poll())
            await begun.wait()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            second = asyncio.create_task(consumer.poll())
            await asyncio.sleep(0)
            go_on.set()
            record = await second
            assert record is not None
            assert record.value == b"v5"

    run(main())


def test_what_a_listener_raises_after_its_call_was_cancelled_is_raised_by_the_next(
    cluster: Cluster,
) -> None:
    topic, group = cluster.topic(), cluster.group()

    async def main() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def assigned(_: list[TopicPartition]) -> None:
            begun.set()
            await go_on.wait()
            raise ZeroDivisionError

        async with cluster.async_consumer(topic, group_id=group, on_assign=assigned) as consumer:
            first = asyncio.create_task(consumer.poll())
            await begun.wait()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            go_on.set()
            with pytest.raises(ZeroDivisionError):
                await consumer.poll()
            assert await consumer.poll(0) is None

    run(main())


def test_a_close_ends_a_listener_that_takes_longer_than_it_may(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    ended: list[str] = []

    async def main() -> None:
        begun = asyncio.Event()

        async def assigned(_: list[TopicPartition]) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("assign")

        consumer = cluster.async_consumer(topic, group_id=group, on_assign=assigned)
        waiting = asyncio.create_task(consumer.poll())
        await begun.wait()
        waiting.cancel()
        await consumer.close(timeout=0.05)
        assert consumer.closed

    run(main())
    assert ended == ["assign"]


@pytest.mark.parametrize("call", ["poll", "consume", "next_batch", "close"])
def test_a_listener_may_call_the_consumer_from_tasks_that_it_begins(
    cluster: Cluster, call: str
) -> None:
    """The task waited for the listener to end, which waited for the task."""
    topic, group = cluster.topic(), cluster.group()

    async def main() -> None:
        async def assigned(_: list[TopicPartition]) -> None:
            waits = {} if call == "close" else {"timeout": 0}
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(getattr(consumer, call)(**waits))

        consumer = cluster.async_consumer(topic, group_id=group, on_assign=assigned)
        if call == "close":
            with pytest.raises(errors.ClosedError):
                await consumer.poll()
        else:
            while not consumer.assignment():
                await consumer.poll(0.01)
            await consumer.close()

    run(main())


@pytest.mark.parametrize("event", ["on_assign", "on_revoke"])
def test_a_close_ends_although_a_listener_swallows_its_cancellation(
    cluster: Cluster, event: str
) -> None:
    topic, group = cluster.topic(), cluster.group()

    async def main() -> None:
        begun, free = asyncio.Event(), asyncio.Event()

        async def deaf(_: list[TopicPartition]) -> None:
            begun.set()
            while not free.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await free.wait()

        consumer = cluster.async_consumer(topic, group_id=group, **{event: deaf})
        waiting = asyncio.create_task(consumer.poll())
        while not (begun.is_set() if event == "on_assign" else consumer.assignment()):
            await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.wait([waiting])
        closing = asyncio.create_task(consumer.close(timeout=0.05))
        try:
            done, _ = await asyncio.wait([closing], timeout=PATIENCE_S / 3)
            assert done, "the close waits for the listener"
            assert consumer.closed
            assert begun.is_set()
        finally:
            free.set()
            await closing

    run(main())


def test_a_listener_that_closes_the_consumer_is_called_once(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    told: list[int] = []

    async def main() -> None:
        async def revoked(partitions: list[TopicPartition]) -> None:
            told.append(len(partitions))
            await consumer.close()

        consumer = cluster.async_consumer(topic, group_id=group, on_revoke=revoked)
        while not consumer.assignment():
            await consumer.poll(0.01)
        await consumer.close()
        assert consumer.closed

    run(main())
    assert told == [1]


def test_the_end_of_a_client_needs_none_of_the_threads_of_a_loop(cluster: Cluster) -> None:
    """The loop's own threads were all busy: `close` began when the program was done with them."""
    topic = cluster.topic()

    async def main() -> None:
        async with busy_threads():
            consumer = cluster.async_consumer(topic)
            assert await consumer.poll(0) is None
            admin = AsyncAdminClient(bootstrap_servers=cluster.bootstrap)
            await asyncio.wait_for(consumer.close(), PATIENCE_S / 2)
            await asyncio.wait_for(admin.close(), PATIENCE_S / 2)

    run(main())


def test_two_members_share_a_topic_and_lose_nothing(cluster: Cluster) -> None:
    topic, group = cluster.topic(4), cluster.group()
    seen: list[bytes | None] = []

    async def member(count: int) -> None:
        settings: dict[str, Any] = {"heartbeat_interval_ms": 50, "auto_commit_interval_ms": 50}
        async with cluster.async_consumer(topic, group_id=group, **settings) as consumer:
            while len(seen) < count:
                record = await consumer.poll(0.05)
                if record is not None:
                    seen.append(record.value)

    async def main() -> None:
        first = asyncio.create_task(member(400))
        for part_of_all in range(4):
            texts = [f"{part_of_all}-{number}".encode() for number in range(100)]
            await asyncio.to_thread(cluster.write, topic, texts)
            if part_of_all == 1:
                second = asyncio.create_task(member(400))
        await asyncio.gather(first, second)

    run(main())
    assert len(set(seen)) == len(seen) == 400


def test_two_tasks_may_wait_for_one_consumer(cluster: Cluster) -> None:
    topic = cluster.topic()

    async def main() -> None:
        async with cluster.async_consumer(topic) as consumer:
            waiting = [asyncio.create_task(consumer.poll()) for _ in range(2)]
            await asyncio.sleep(0.05)
            await asyncio.to_thread(cluster.write, topic, numbered(2))
            records = await asyncio.gather(*waiting)
            assert {record.value for record in records if record} == set(numbered(2))

    run(main())


def test_a_consumer_may_be_used_in_one_loop_after_the_other(cluster: Cluster) -> None:
    topic = cluster.topic()
    consumer = cluster.async_consumer(topic)

    async def read_one() -> None:
        reading = asyncio.create_task(consumer.poll())
        await asyncio.sleep(0.05)
        await asyncio.to_thread(cluster.write, topic, [b"x"])
        assert await reading is not None

    run(read_one())
    run(read_one())
    run(consumer.close())


def test_closing_wakes_a_task_that_waits(cluster: Cluster) -> None:
    topic = cluster.topic()

    async def main() -> None:
        consumer = cluster.async_consumer(topic)
        waiting = asyncio.create_task(consumer.poll())
        await asyncio.sleep(0.01)
        await consumer.close()
        with pytest.raises(errors.ClosedError):
            await asyncio.wait_for(waiting, PATIENCE_S / 3)

    run(main())


def test_a_closed_consumer_refuses_calls(cluster: Cluster) -> None:
    async def main() -> None:
        consumer = cluster.async_consumer(cluster.topic())
        await consumer.close()
        await consumer.close()
        with pytest.raises(errors.ClosedError):
            await consumer.poll(0)

    run(main())


async def longest_pause() -> float:
    """Run until cancelled; the longest time in seconds for which the loop had no turn."""
    longest, before = 0.0, time.monotonic()
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            await asyncio.sleep(0.01)
            now = time.monotonic()
            longest, before = max(longest, now - before), now
    return longest


def test_a_member_that_only_waits_is_not_taken_for_gone(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    seen: list[str] = []
    settings: dict[str, Any] = {
        "max_poll_interval_ms": 900,
        "on_lost": lambda _: seen.append("lost"),
    }

    async def wait_in_one_call() -> float:
        seen.clear()
        async with cluster.async_consumer(topic, group_id=group, **settings) as consumer:
            watch = asyncio.create_task(longest_pause())
            waiting = asyncio.create_task(consumer.poll())
            while not consumer.assignment():
                await asyncio.sleep(0.001)
            await asyncio.sleep(1.2)
            assert not waiting.done()
            await asyncio.to_thread(cluster.write, topic, [b"x"])
            assert await waiting is not None
            watch.cancel()
            return await watch

    async def main() -> None:
        # A machine that stands still makes no call either: that try shows nothing.
        while await wait_in_one_call() > 0.5:
            pass

    run(main())
    assert seen == []
