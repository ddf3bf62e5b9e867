"""The broker's log lines, as records of Python's ``logging``.

One daemon thread takes lines from a bounded channel and hands them to loggers named
as the rooms they come from: ``kafkalite.broker.network`` for instance. The broker never
waits for it: lines that find no room are dropped, and one line tells how many.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
import time
import traceback
from collections import deque

from . import _native

#: Lines that are taken at once, at most.
_MOST = 256

_LEVELS = {
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    # Python has no name for it; half of DEBUG keeps the order.
    "trace": logging.DEBUG // 2,
}
_NAMES = {"warning": "warn", "critical": "error", "fatal": "error", "notset": "trace"}

#: The last lines that were forwarded, whatever `logging` made of them.
_tail: deque[str] = deque(maxlen=200)

_starting = threading.Lock()
_reader: threading.Thread | None = None
_wanted = "off"


def level_name(level: str | int) -> str:
    """Return the broker's word for a level of ``logging``.

    Args:
        level: A number of ``logging``, or a name as either spells it.

    Returns:
        One of ``error``, ``warn``, ``info``, ``debug``, ``trace``.

    Raises:
        BrokerStartError: There is no such level.
    """
    if isinstance(level, int):
        lower = (name for name, number in _LEVELS.items() if number <= level)
        return next(lower, "trace")
    name = _NAMES.get(level.lower(), level.lower())
    if name not in _LEVELS:
        from .errors import BrokerStartError

        hint = f"one of {', '.join(_LEVELS)}."
        raise BrokerStartError(f"there is no log level {level}", hint=hint)
    return name


def logger_name(module: str) -> str:
    """Return the logger of a module of the broker.

    Args:
        module: As Rust names it: ``kafkalite_broker::network::acceptor``.

    Returns:
        ``kafkalite.broker.network.acceptor``.
    """
    return module.replace("::", ".").replace("kafkalite_", "kafkalite.", 1)


def forward_logs(level: str | int = "info") -> None:
    """Give the log lines of all brokers in this process to Python's ``logging``.

    A second call with a level that lets more through widens it. A level that lets less
    through changes nothing, because another broker may have asked for more. What is
    shown is up to the configuration of ``logging``, as ever.

    Args:
        level: The gravest level to leave out is the one below this one.

    Raises:
        BrokerStartError: There is no such level, or the process logs otherwise.
    """
    global _reader, _wanted
    name = level_name(level)
    with _starting:
        order = ["off", *_LEVELS]
        if order.index(name) > order.index(_wanted):
            _native.forward_log(name)
            _wanted = name
        if _reader is None:
            _reader = threading.Thread(target=_read, name="kafkalite-log", daemon=True)
            _reader.start()
            atexit.register(_stop)


def _read() -> None:
    while (lines := _native.next_log_lines(_MOST)) is not None:
        for level, module, message in lines:
            # A second is close enough, and the broker need not look at a clock for it.
            _tail.append(f"{time.strftime('%H:%M:%S')} {level:<5} {logger_name(module)} {message}")
            emit(level, module, message)


def tail(most: int) -> list[str]:
    """Return the last lines that were forwarded, oldest first: at most ``most``, and 200."""
    return list(_tail)[-most:]


def emit(level: str, module: str, message: str) -> None:
    """Hand one line to the logger of its module.

    It is called on threads of ours, which must go on. Exceptions of the program's handlers and
    filters are written to stderr, as ``logging`` does with exceptions that it catches.

    Args:
        level: ``ERROR``, ``WARN``, ``INFO``, ``DEBUG`` or ``TRACE``.
        module: As Rust names it.
        message: The text with its fields.
    """
    logger = logging.getLogger(logger_name(module))
    number = _LEVELS.get(level.lower(), logging.INFO)
    try:
        if logger.isEnabledFor(number):
            logger.handle(logger.makeRecord(logger.name, number, module, 0, message, (), None))
    except BaseException:  # noqa: BLE001
        # Not even sys.exit() in a handler may end the thread: later lines would be lost. A child
        # that writes to a pipe without a reader stands still.
        _tell_failure()


def _tell_failure() -> None:
    if logging.raiseExceptions and sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exc()


def _stop() -> None:
    """End the thread before the interpreter goes: it must not wait in Rust then."""
    global _reader
    if _reader is not None:
        _native.stop_log()
        _reader.join(timeout=1)
        _reader = None


def _forget() -> None:
    """In a forked child the thread does not exist; who asks again gets a new one."""
    global _reader, _wanted, _starting
    atexit.unregister(_stop)
    _reader, _wanted, _starting = None, "off", threading.Lock()


os.register_at_fork(after_in_child=_forget)
