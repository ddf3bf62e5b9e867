"""Servers under test: started on a free port with a fresh data directory, stopped by their id.

A server is a command that prints ``ready: HOST:PORT`` once it listens. ``Server`` waits for that
line and remembers how long it took.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

READY = "ready: "
API_VERSIONS, CREATE_TOPICS = 18, 19


@dataclass(frozen=True)
class Server:
    """A running server: its address, process id, data directory and seconds until it listened."""

    address: str
    pid: int
    data_dir: Path
    listening_after_s: float
    started_at: float

    def connect(self) -> socket.socket:
        """A new connection to it."""
        host, port = self.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=60)

    def memory_kib(self, field: str) -> int:
        """``VmRSS`` or ``VmHWM`` of the process, in KiB."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1])
        raise LookupError(field)


def target_dir() -> Path:
    """Where cargo puts what it builds."""
    root = Path(__file__).resolve().parent.parent
    return Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / "release"


def command_of(name: str, data_dir: Path) -> list[str]:
    """The command line of a server by its name.

    ``ceiling:MODE`` is the prototype, ``kafkalite`` the broker; anything else is a command of
    words in which ``{data_dir}`` stands for the directory. Flags of the broker may follow its name.
    """
    words = name.split()
    if name.startswith("ceiling:"):
        mode = name.removeprefix("ceiling:")
        return [str(target_dir() / "ceiling"), "--mode", mode, "--data-dir", str(data_dir)]
    if words[0] == "kafkalite":
        # A free admin port, so that a broker which happens to run here is not in the way.
        listen = ["--listen", "127.0.0.1:0", "--admin-port", "0", "--data-dir", str(data_dir)]
        return [sys.executable, "-m", "kafkalite", "serve", *listen, *words[1:]]
    return [word.format(data_dir=data_dir) for word in words]


@contextmanager
def serving(name: str, data_dir: Path | None = None) -> Iterator[Server]:
    """Run a server while the block runs.

    Without ``data_dir`` it gets a fresh one, removed afterwards: its dirty pages go with it, so the
    next server does not pay for writing them back.
    """
    own_dir = data_dir is None
    directory = data_dir or Path(tempfile.mkdtemp(prefix="kafkalite-bench-"))
    log_path = directory.with_suffix(".stderr")
    started_at = time.monotonic()
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command_of(name, directory), stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        address = _await_ready(process, log_path)
        after_s = time.monotonic() - started_at
        yield Server(address, process.pid, directory, after_s, started_at)
    finally:
        _stop(process)
        log_path.unlink(missing_ok=True)
        if own_dir:
            shutil.rmtree(directory, ignore_errors=True)


def _await_ready(process: subprocess.Popen[str], log_path: Path) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(READY):
            return line.removeprefix(READY).strip()
    process.wait()
    raise RuntimeError(f"{process.args} ended before it was ready: {log_path.read_text()[-2000:]}")


def _stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        with suppress(OSError):
            process.stdout.close()


def exchange(connection: socket.socket, api_key: int, version: int, body: bytes = b"") -> bytes:
    """Send one request with a version 1 header and return the response without its length."""
    header = struct.pack(">hhih5s", api_key, version, 7, 5, b"bench")
    connection.sendall(struct.pack(">i", len(header + body)) + header + body)
    length = struct.unpack(">i", _receive(connection, 4))[0]
    return _receive(connection, length)


def _receive(connection: socket.socket, length: int) -> bytes:
    received = bytearray()
    while len(received) < length:
        part = connection.recv(length - len(received))
        if not part:
            raise ConnectionError("the server closed the connection")
        received += part
    return bytes(received)


def create_topics(connection: socket.socket, count: int, partitions: int) -> None:
    """Create ``count`` topics of ``partitions`` partitions and one replica each."""
    for index in range(count):
        name = f"idle-{index}".encode()
        topic = struct.pack(f">h{len(name)}sihii", len(name), name, partitions, 1, 0, 0)
        body = struct.pack(">i", 1) + topic + struct.pack(">i?", 60_000, False)
        answer = exchange(connection, CREATE_TOPICS, 2, body)
        (error,) = struct.unpack_from(">h", answer, 14 + len(name))
        if error != 0:
            raise RuntimeError(f"CreateTopics {name!r}: error {error}")
