"""What tests of asyncio clients do to the loop they run on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

PATIENCE_S = 60.0


@asynccontextmanager
async def busy_threads() -> AsyncIterator[None]:
    """Keep the loop's own threads busy: a client that needs one waits until the block ends."""
    hold, held = threading.Event(), threading.Event()

    def occupy() -> None:
        held.set()
        assert hold.wait(PATIENCE_S)

    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(max_workers=1))
    busy = loop.run_in_executor(None, occupy)
    while not held.is_set():
        await asyncio.sleep(0)
    try:
        yield
    finally:
        hold.set()
    await busy
