"""Heartbeats as the broker counts them; as a program, one that waits for some of them.

``python -m tests.clients.consumer.heartbeats BOOTSTRAP ADMIN TOPIC`` writes a record to the topic,
waits for heartbeats after it and then writes a byte to stdout.
"""

from __future__ import annotations

import re
import sys
import time
import urllib.request
from collections.abc import Callable

from tests.clients.consumer.consuming import PATIENCE_S, Cluster

#: So many mean that a member's heartbeats go on; those on their way are not among them.
ENOUGH = 6


def count(admin: str) -> int:
    """Return how many the broker at this admin address has answered."""
    with urllib.request.urlopen(f"{admin}/metrics", timeout=PATIENCE_S) as answer:
        page = answer.read().decode()
    found = re.search(r'_totaltimems_count\{request="Heartbeat"\} (\d+)', page)
    return int(found[1]) if found else 0


def go_on(admin: str, meanwhile: Callable[[], object]) -> bool:
    """Return whether enough come while something else is done again and again."""
    enough = count(admin) + ENOUGH
    deadline = time.monotonic() + PATIENCE_S
    while count(admin) < enough:
        if time.monotonic() > deadline:
            return False
        meanwhile()
    return True


if __name__ == "__main__":
    bootstrap, admin, topic = sys.argv[1:]
    Cluster(bootstrap).write(topic, [b"x"])
    if go_on(admin, lambda: time.sleep(0.02)):
        print("+", end="", flush=True)
