"""``Broker.expect``: waits for records, and fails with those that came."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .arguments import checked_callables, checked_count, checked_seconds
from .errors import RequestTimedOut
from .showing import lines_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .records import Record

    Read = Record[bytes, bytes]


def expect(
    servers: str,
    topic: str,
    n: int,
    timeout: float,
    where: Callable[[Read], object] | None,
) -> list[Read]:
    """Return the first ``n`` records of a topic that match; see ``Broker.expect``.

    Raises:
        RequestTimedOut: Fewer came in time.
    """
    from .consumer import Consumer

    # pytest then shows the line of the test.
    __tracebackhide__ = True
    checked_count("n", n)
    checked_seconds(timeout)
    checked_callables(where=where)
    deadline = time.monotonic() + timeout
    came: list[Read] = []
    found: list[Read] = []
    with Consumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        while len(found) < n:
            left = deadline - time.monotonic()
            if left <= 0:
                raise _too_few(topic, came, found, n, timeout, has_filter=where is not None)
            # Without a filter no record is read that is not returned.
            records = consumer.consume(n - len(found) if where is None else None, timeout=left)
            came += records
            found += [one for one in records if where is None or where(one)]
    return found[:n]


def _too_few(
    topic: str, came: list[Read], found: list[Read], n: int, timeout: float, *, has_filter: bool
) -> RequestTimedOut:
    count = f"{len(came)} record{'' if len(came) == 1 else 's'}"
    if has_filter:
        text = f"{topic} has {len(found)} matching of {count} after {timeout:g} s, not {n}"
    else:
        text = f"{topic} has {count} after {timeout:g} s, not {n}"
    lines = "".join(f"\n  {line}" for line in lines_of(came))
    hint = None if came else "was the producer flushed, and is the name of the topic right?"
    return RequestTimedOut(f"REQUEST_TIMED_OUT: {text}{lines}", hint=hint)
