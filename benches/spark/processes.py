"""What processes take of the machine, out of Linux's /proc."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType


def cpu_s(pids: list[int]) -> float:
    """Return the CPU seconds that these processes took so far."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except FileNotFoundError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """Return a process's descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = list(children.get(pid, []))
    for one in found:
        found += children.get(one, [])
    return found


class PeakMemory:
    """The largest resident set of a descendant, in MiB, looked at ten times a second."""

    def __init__(self, pid: int, word: str) -> None:
        """Look at descendants of ``pid`` whose command has ``word``."""
        self._pid, self._word = pid, word
        self._over = threading.Event()
        self.before = self.peak = self._largest()

    @property
    def grown(self) -> float:
        """How much larger it was at most than before."""
        return self.peak - self.before

    def _largest(self) -> float:
        largest = 0.0
        for pid in family(self._pid):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_text()
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if self._word in command:
                largest = max(largest, pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20))
        return largest

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self.peak = max(self.peak, self._largest())

    def __enter__(self) -> PeakMemory:
        """Begin to look."""
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()
