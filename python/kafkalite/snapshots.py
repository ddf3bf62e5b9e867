"""Snapshots of a broker: ``broker.snapshot()``, ``broker.reset(snapshot)``, ``broker.fork()``."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .faults import command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from .faults import Send

__all__ = ["Snapshot"]

#: The folder of snapshots in a log directory, and the lock of the broker that runs there.
_KEPT = {".kafkalite-snapshots", ".lock"}
#: What the folder of a copy ends with that a reset puts in the place of the broker's files.
_RESET = ".reset"


class Snapshot:
    """What a broker kept at one moment. In ``with`` it is deleted at the end of the block."""

    def __init__(self, send: Send, told: dict[str, Any]) -> None:
        """Keep the broker's answer."""
        self._send = send
        self._told = told
        self._is_deleted = False

    @property
    def id(self) -> int:
        """Its number: later snapshots have greater ones."""
        return int(self._told["id"])

    @property
    def directories(self) -> list[Path]:
        """A folder for each of the broker's log directories."""
        return [Path(directory) for directory in self._told["directories"]]

    def delete(self) -> None:
        """Delete it; forks of it stay. Deleting it again does nothing."""
        if not self._is_deleted:
            command(self._send, "DELETE", f"/snapshots/{self.id}")
            self._is_deleted = True

    def __enter__(self) -> Self:
        """Return the snapshot."""
        return self

    def __exit__(self, *_: object) -> None:
        """Delete it."""
        self.delete()

    def __repr__(self) -> str:
        """Tell which one it is."""
        return f"<kafkalite.Snapshot {self.id}>"


def take(send: Send) -> Snapshot:
    """Take a snapshot of the broker behind ``send``."""
    return Snapshot(send, command(send, "POST", "/snapshots", {}))


def check(snapshot: Snapshot, log_dirs: list[Path]) -> None:
    """Refuse a snapshot that is gone, or another broker's.

    Args:
        snapshot: What a caller gave.
        log_dirs: The log directories of the broker.

    Raises:
        InvalidArgumentError: It was deleted, the broker was closed, or the broker is another one.
        TypeError: It is no snapshot.
    """
    from .errors import InvalidArgumentError

    if not isinstance(snapshot, Snapshot):
        error = TypeError(f"snapshot must be a Snapshot, not {type(snapshot).__name__}")
        error.add_note("hint: broker.snapshot() takes one.")
        raise error

    if _log_dirs(snapshot) != [Path(os.path.realpath(path)) for path in log_dirs]:
        text = f"INVALID_REQUEST: snapshot {snapshot.id} is not one of this broker"
        raise InvalidArgumentError(text, hint="use a snapshot that the same broker took.")
    _refuse_gone(snapshot)


def _refuse_gone(snapshot: Snapshot) -> None:
    from .errors import InvalidArgumentError

    if not all(directory.is_dir() for directory in snapshot.directories):
        text = f"INVALID_REQUEST: snapshot {snapshot.id} is gone"
        raise InvalidArgumentError(text, hint="it was deleted, or the broker was closed.")


def _log_dirs(snapshot: Snapshot) -> list[Path]:
    """Return the log directories that it was taken of."""
    return [Path(os.path.realpath(directory.parents[1])) for directory in snapshot.directories]


def clone(snapshot: Snapshot) -> tuple[str, str]:
    """Make a temporary directory with what a fork begins with.

    Returns:
        The directory, and ``log.dirs`` in it: itself, or a folder for each of several.

    Raises:
        InvalidArgumentError: The snapshot is gone.
    """
    sources = snapshot.directories
    temporary = _temporary_beside(_log_dirs(snapshot)[0])
    targets = [temporary]
    if len(sources) > 1:
        targets = [os.path.join(temporary, str(number)) for number in range(len(sources))]
    try:
        _copy_whole(snapshot, targets)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return temporary, ",".join(targets)


def _temporary_beside(path: Path) -> str:
    """Files get a second name on the same file system only; elsewhere their bytes are copied."""
    try:
        return tempfile.mkdtemp(prefix="kafkalite-", dir=path.parent)
    except OSError:
        return tempfile.mkdtemp(prefix="kafkalite-")


@contextmanager
def beside(snapshot: Snapshot) -> Iterator[list[str]]:
    """Make a copy of a snapshot in the log directories that it was taken of.

    Another thread may delete the snapshot, but not the copy. So the broker runs on, with its data,
    until the copy is complete.

    Yields:
        The folder of the copy in each log directory; they are removed at the end of the block.

    Raises:
        InvalidArgumentError: The snapshot is gone.
    """
    copies = [f"{directory}{_RESET}" for directory in snapshot.directories]
    try:
        # What a process left that was killed in a reset.
        _remove(copies)
        _copy_whole(snapshot, copies)
        yield copies
    finally:
        _remove(copies)


def put_back(snapshot: Snapshot, copies: list[str]) -> None:
    """Replace what is in the log directories of a stopped broker; snapshots stay."""
    for copy, target in zip(copies, _log_dirs(snapshot), strict=True):
        for entry in list(os.scandir(target)):
            if entry.name in _KEPT:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
        for name in os.listdir(copy):
            os.rename(os.path.join(copy, name), os.path.join(target, name))


def _remove(directories: list[str]) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def _copy_whole(snapshot: Snapshot, targets: list[str]) -> None:
    """Copy a snapshot into a directory for each of its own, or raise if it is gone by then."""
    try:
        for source, target in zip(snapshot.directories, targets, strict=True):
            os.makedirs(target, exist_ok=True)
            _copy(source, target)
    except FileNotFoundError:
        _refuse_gone(snapshot)
        raise
    # It gets another name before its files go. So what is still there was there all the time.
    _refuse_gone(snapshot)


def _copy(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copy a directory of a snapshot into one that exists.

    A broker writes into empty files only: it replaces the others, or adds new ones. So those
    get a second name, which costs no bytes.
    """
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.name in _KEPT:
                continue
            to = os.path.join(target, entry.name)
            if entry.is_dir(follow_symlinks=False):
                os.mkdir(to)
                _copy(entry.path, to)
            elif entry.stat(follow_symlinks=False).st_size == 0:
                os.close(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            else:
                _link(entry.path, to)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or one without links.
        shutil.copyfile(source, target)
