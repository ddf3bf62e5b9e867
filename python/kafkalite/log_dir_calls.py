"""Replicas that move between log directories, for both admin clients."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .admin_calls import Call, settled


def alter_replica_log_dirs(
    native: Any,
    targets: Mapping[tuple[str, int, int], str | os.PathLike[str]],
    timeout: float | None,
) -> Call[None]:
    """Start moving replicas between directories."""

    def finish(results: Any) -> None:
        settled(results, tuple, bool)

    arguments = [
        ((topic, partition), broker, os.fspath(path))
        for (topic, partition, broker), path in targets.items()
    ]
    operation = native.alter_replica_log_dirs(arguments, timeout)
    return Call(operation, finish)
