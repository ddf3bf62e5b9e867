"""``--watch``: an answer again and again, with what changed between two of them."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .places import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def watch_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--watch`` and ``--interval``; the command gets ``watch`` and ``interval``."""
    watch = click.option("--watch", is_flag=True, help="Repeat until Ctrl-C.")
    interval = click.option(
        "--interval",
        type=Seconds(min_open=True),
        default=2.0,
        show_default=True,
        help="Seconds between two updates of --watch.",
    )
    return watch(interval(command))


def repeat(
    look: Callable[[], T],
    show: Callable[[T, T | None, float], None],
    *,
    watch: bool,
    interval: float,
) -> None:
    """Look and show once; with ``watch`` until Ctrl-C.

    Args:
        look: Asks the cluster.
        show: Writes what was seen: now, the time before, and the seconds between the two. The first
            time there is no time before.
        watch: Whether to go on.
        interval: Seconds between the end of an answer and the next question.
    """
    before: T | None = None
    seen_at = 0.0
    while True:
        now, at = look(), time.monotonic()
        if watch and sys.stdout.isatty():
            click.clear()
        show(now, before, at - seen_at)
        sys.stdout.flush()
        if not watch:
            return
        before, seen_at = now, at
        time.sleep(interval)
