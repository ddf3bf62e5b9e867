"""Processes below one, to be killed."""

from __future__ import annotations

from pathlib import Path


def below(root: int) -> dict[int, str]:
    """Return the processes below one: their command lines by their ids."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int(
                (place / "stat").read_text().rsplit(")", 1)[1].split()[1]
            )
            commands[int(place.name)] = (place / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: commands.get(pid, "") for pid in found - {root}}
