"""A member's heartbeats go on whatever its program does, as the broker counts them."""

from __future__ import annotations

import asyncio
import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.clients.consumer import heartbeats
from tests.clients.consumer.consuming import PATIENCE_S, Cluster, numbered, read, values
from tests.harness.process import Process

ROOT = Path(__file__).parents[3]


def noting(seen: list[str]) -> dict[str, Any]:
    """Return settings of a member that notes what it is given and what it loses."""
    return {
        "on_assign": lambda _: seen.append("assign"),
        "on_lost": lambda _: seen.append("lost"),
        "heartbeat_interval_ms": 50,
    }


def test_heartbeats_go_on_while_the_program_computes(quick_broker: Process, quick: Cluster) -> None:
    topic, group = quick.topic(), quick.group()
    quick.write(topic, numbered(2))
    seen: list[str] = []
    with quick.consumer(topic, group_id=group, **noting(seen)) as consumer:
        read(consumer, 1)
        assert heartbeats.go_on(quick_broker.admin, lambda: sum(range(1_000_000)))
        assert values(read(consumer, 1)) == [b"v1"]
        consumer.commit()
    assert seen == ["assign"]


def test_heartbeats_go_on_while_a_call_into_c_keeps_the_interpreter(
    quick_broker: Process, quick: Cluster
) -> None:
    """A record that came in woke the loop with the interpreter's help, and the client's thread
    waited for the interpreter, and its heartbeats with it.
    """
    topic, group = quick.topic(), quick.group()
    seen: list[str] = []
    words = [quick_broker.ready, quick_broker.admin, topic]
    command = [sys.executable, "-m", "tests.clients.consumer.heartbeats", *words]

    async def main() -> None:
        async with quick.async_consumer(topic, group_id=group, **noting(seen)) as consumer:
            while not consumer.assignment():
                await consumer.poll(0.05)
            waiting = asyncio.create_task(consumer.poll())
            await asyncio.sleep(0.05)
            with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as other:
                assert other.stdout is not None
                # Unlike CDLL it keeps the interpreter, until the other process has seen enough.
                keeping = ctypes.PyDLL(None).read
                told = keeping(other.stdout.fileno(), ctypes.create_string_buffer(1), 1)
            assert told == 1
            first = await waiting
            assert first is not None
            await consumer.commit(first)

    asyncio.run(asyncio.wait_for(main(), 3 * PATIENCE_S))
    assert seen == ["assign"]
