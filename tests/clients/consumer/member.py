"""A member of a group as a process of its own, ours or confluent-kafka's, that tells all it does.

Each line on stdout is ``<ns of the monotonic clock> <what> <partition> [<value>]``. ``what`` is
``assign``, ``revoke``, ``lost`` or ``record``. From confluent-kafka's member it is also
``committed`` or ``refused``, the outcome of a commit. SIGTERM closes it, SIGKILL is SIGKILL.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

#: A member learns of a rebalance with its next heartbeat.
HEARTBEAT_MS = 300


class Plan(NamedTuple):
    """The command line of a member."""

    kind: str
    bootstrap: str
    group: str
    topic: str
    strategy: str
    session_ms: str
    instance: str


running = True


def stop(*_: object) -> None:
    """End at the next look."""
    global running
    running = False


def tell(what: str, partition: int, value: str = "") -> None:
    """Write a line at once: nothing is lost with a killed process."""
    os.write(1, f"{time.monotonic_ns()} {what} {partition} {value}\n".encode())


def listener_of(what: str) -> Callable[[Iterable[Any]], None]:
    """Return a listener."""

    def listener(partitions: Iterable[Any]) -> None:
        for one in partitions:
            tell(what, one.partition)

    return listener


def ours(plan: Plan) -> None:
    """Be a member with kafkalite."""
    from kafkalite import Consumer

    with Consumer(
        plan.topic,
        group_id=plan.group,
        bootstrap_servers=plan.bootstrap,
        partition_assignment_strategy=plan.strategy,
        session_timeout_ms=int(plan.session_ms),
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=100,
        group_instance_id=plan.instance or None,
        on_assign=listener_of("assign"),
        on_revoke=listener_of("revoke"),
        on_lost=listener_of("lost"),
    ) as consumer:
        while running:
            if record := consumer.poll(0.05):
                tell("record", record.partition, (record.value or b"").decode())


def confluent(plan: Plan) -> None:
    """Be a member with confluent-kafka."""
    from confluent_kafka import Consumer

    def committed(error: object, partitions: Iterable[Any]) -> None:
        for one in partitions:
            tell("refused" if error or one.error else "committed", one.partition)

    settings: dict[str, Any] = {
        "on_commit": committed,
        "bootstrap.servers": plan.bootstrap,
        "group.id": plan.group,
        "partition.assignment.strategy": plan.strategy,
        "session.timeout.ms": int(plan.session_ms),
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 100,
    }
    if plan.instance:
        settings["group.instance.id"] = plan.instance
    consumer = Consumer(settings)

    def shown(what: str) -> Callable[[Any, Iterable[Any]], None]:
        listener = listener_of(what)
        return lambda _, partitions: listener(partitions)

    consumer.subscribe(
        [plan.topic],
        on_assign=shown("assign"),
        on_revoke=shown("revoke"),
        on_lost=shown("lost"),
    )
    while running:
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            tell("record", message.partition() or 0, (message.value() or b"").decode())
    consumer.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    plan = Plan(*sys.argv[1:])
    (ours if plan.kind == "ours" else confluent)(plan)
