"""The three streams of the process, such that they take all that is written, or say why not."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class WholeWriter(io.FileIO):
    """A file descriptor that waits where it would block: a pipe may be non-blocking.

    The pipe's flag belongs to all processes that share it, so it stays as it is.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        """Write some of the data, at least one byte, and return how many bytes these are.

        Raises:
            OSError: The descriptor takes nothing more, as a full disk or a closed pipe.
        """
        while (written := super().write(data)) is None:
            self._wait()
        return written

    def _wait(self) -> None:
        # Few processes have such a pipe: all others start without this import.
        import select

        ready = select.poll()
        ready.register(self.fileno(), select.POLLOUT)
        ready.poll()


def prepare() -> None:
    """Have three streams that take everything, however the process was started.

    With PYTHONUNBUFFERED, Python's own stream counts a short write as whole: the rest was lost
    where a disk is full.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # `2>&-` closes it, and Python has None then.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__") and isinstance(stream, io.TextIOWrapper):
            stream.flush()
            setattr(sys, name, _whole(stream))
        # A path need not be UTF-8. In JSON this is an escape, which reads as the same path.
        reconfigure = getattr(getattr(sys, name), "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _whole(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """Return a stream to the same descriptor that a buffer stands before in any case."""
    raw = WholeWriter(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        # An unbuffered stream shows each line at once, and so does this one.
        line_buffering=stream.line_buffering or stream.write_through,
    )


def silence(stream: TextIO) -> None:
    """Lead a stream that cannot be written to nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
