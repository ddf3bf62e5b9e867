"""A broker in a process of its own: ``python -m kafkalite serve``, started and watched.

The child binds its ports itself and tells them in its lines ``ready:``; ``serving`` is the
last line. It watches this process and stops when this process ends in any way. That holds even if
a forked worker lives on with copies of the pipes. A thread reads its stderr, so
that it never waits for a reader; the last lines are kept.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from ._native import RecentRequest
from .errors import BrokerStartError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Seconds until a started child must serve, and until a stopped one must be gone.
_PATIENCE_S = 30.0
#: Seconds that a command may take which reads and writes what the broker has. A child that dies
#: meanwhile closes the connection.
_WORK_S = 600.0
_WORK = ("/snapshots", "/clock/advance")
#: Time limit of a request for its last requests, in seconds.
_ASKING_S = 2.0
#: What runs the command line.
_COMMAND = (sys.executable, "-m", "kafkalite")
#: Lines of its log that are kept.
_KEPT_LINES = 200


class BrokerProcess:
    """Starts and ends the child; configured once, started as often as wanted."""

    def __init__(
        self,
        keys: Mapping[str, str],
        topics: Sequence[tuple[str, int | None]],
        log_level: str | int | None,
        cut_links: Sequence[str] | None = None,
    ) -> None:
        """Configure it with keys of the broker, topics to make, and a level to forward.

        Args:
            keys: Keys of the broker.
            topics: Topics to make.
            log_level: The level to forward.
            cut_links: Addresses that it cannot reach; ``None`` cuts no link, now or later.
        """
        words = ["serve", "--profile", "dev"]
        if cut_links is not None:
            words.append("--links-from-stdin")
        for key, value in keys.items():
            words += ["--set", f"{key}={value}"]
        for name, partitions in topics:
            words += ["--topic", name if partitions is None else f"{name}:{partitions}"]
        self._words = words
        #: Behind the others: the last of two values counts.
        self._join: list[str] = []
        self._links = None if cut_links is None else _line(cut_links)
        self._level = log_level
        self._child: subprocess.Popen[bytes] | None = None
        self._told: dict[str, str] = {}
        self._changing = threading.Lock()
        self._owner = os.getpid()
        self._reader: threading.Thread | None = None
        self._tail: deque[str] = deque(maxlen=_KEPT_LINES)

    @property
    def bootstrap_servers(self) -> str | None:
        """Where it serves; ``None`` if it does not run."""
        return self._told.get("ready") if self._lives() else None

    @property
    def admin_url(self) -> str | None:
        """Its metrics and health; ``None`` if they are off or it does not run."""
        return self._told.get("admin") if self._lives() else None

    @property
    def pid(self) -> int:
        """The child's process id."""
        assert self._child is not None
        return self._child.pid

    def log_tail(self, most: int) -> list[str]:
        """Return what it said last on stderr, oldest first."""
        return list(self._tail)[-most:]

    def recent_requests(self) -> list[RecentRequest]:
        """Return its last requests, as its admin port tells them; none if that is off.

        For who looks into what went wrong: a child that does not answer has none to tell.
        """
        if (url := self.admin_url) is None:
            return []
        import http.client
        import json

        address = url.removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=_ASKING_S)
        try:
            connection.request("GET", "/requests")
            answer = connection.getresponse()
            rows = json.loads(answer.read()) if answer.status == http.HTTPStatus.OK else []
        except (OSError, http.client.HTTPException, ValueError):
            return []
        finally:
            connection.close()
        return [RecentRequest(**row) for row in rows]

    def control(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        """Send a command of test control to its admin port: status and body of the answer.

        Raises:
            IllegalStateError: The admin port is off.
            ConnectionLostError: The child does not answer.
        """
        if (url := self.admin_url) is None:
            from .errors import IllegalStateError

            text = "ILLEGAL_STATE: a broker in a process of its own is controlled over HTTP"
            raise IllegalStateError(text, hint="give it a port: Broker(admin_port=0).")
        import http.client

        is_work = method == "POST" and path in _WORK
        timeout = _WORK_S if is_work else _PATIENCE_S
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=timeout)
        try:
            connection.request(method, f"/api/v1{path}", body)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            from .errors import ConnectionLostError

            text = f"NETWORK_EXCEPTION: the broker does not answer on {url}"
            raise ConnectionLostError(text) from error
        finally:
            connection.close()

    def start(self) -> None:
        """Start it and wait until it serves; nothing if it runs.

        Raises:
            BrokerStartError: As the child told it on stderr.
        """
        with self._changing:
            if self._lives():
                return
            self._reap()
            self._child = child = subprocess.Popen(
                [*_COMMAND, *self._words, *self._join, "--stop-with-parent", str(os.getpid())],
                stdin=subprocess.DEVNULL if self._links is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment(),
                # Ctrl-C is for this process, which then ends its child.
                process_group=0,
            )
            self._tail.clear()
            self._reader = threading.Thread(
                target=self._read_log, args=(child,), name="kafkalite-child-log", daemon=True
            )
            self._reader.start()
            try:
                self._write_links(child)
                self._told = self._read_ready(child)
            except BaseException:
                child.kill()
                self._reap()
                raise

    def join(self, address: str) -> None:
        """Have it join the cluster of the broker at an address, if its directory is empty."""
        self._join = ["--set", f"kafkalite.join={address}"]

    def stop(self) -> None:
        """Stop it cleanly; one that does not end in time is killed."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, and clients get no answer."""
        self._end(signal.SIGKILL)

    def cut_links(self, addresses: Sequence[str]) -> None:
        """Cut the links to brokers and mend all others, also for its next start.

        Raises:
            BrokerStartError: It runs, and does not say in time that it has done so.
        """
        with self._changing:
            self._links = line = _line(addresses)
            if self._child is not None and self._lives():
                self._write_links(self._child)
                self._read_lines(self._child, f"links: {line}".rstrip("\n"))

    def _write_links(self, child: subprocess.Popen[bytes]) -> None:
        if child.stdin is None or self._links is None:
            return
        try:
            child.stdin.write(self._links.encode())
            child.stdin.flush()
        except BrokenPipeError:
            # It has ended, and says why elsewhere; the next start gets the line.
            pass

    def _end(self, number: signal.Signals) -> None:
        if os.getpid() != self._owner:
            # Forked off: the child is not a child of this process.
            return
        with self._changing:
            if self._child is None:
                return
            self._child.send_signal(number)
            try:
                self._child.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
            self._reap()

    def _reap(self) -> None:
        """Take the child's end and close what connects us with it."""
        child, self._child, self._told = self._child, None, {}
        if child is None:
            return
        child.wait()
        if self._reader is not None:
            self._reader.join()
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _lives(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def _environment(self) -> dict[str, str]:
        """Nothing of ``KAFKALITE_*`` reaches it, as nothing reaches a broker in-process."""
        from .logs import level_name

        environment = {k: v for k, v in os.environ.items() if not k.startswith("KAFKALITE_")}
        level = "info" if self._level is None else level_name(self._level)
        return environment | {"KAFKALITE_LOG": level}

    def _read_ready(self, child: subprocess.Popen[bytes]) -> dict[str, str]:
        """Return what it told on stdout, once it serves."""
        lines = self._read_lines(child, "serving")
        told = [line.split(": ", 1) for line in lines if ": " in line]
        found = {what: value for what, value in told if what != "ready"}
        # One line for each listener.
        return found | {"ready": ",".join(v for what, v in told if what == "ready")}

    def _read_lines(self, child: subprocess.Popen[bytes], last: str) -> list[str]:
        """Return what it tells on stdout until a line comes."""
        assert child.stdout is not None
        pipe = child.stdout.fileno()
        deadline = time.monotonic() + _PATIENCE_S
        said = b""
        while True:
            lines = said.decode(errors="replace").split("\n")[:-1]
            if last in lines:
                return lines
            if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise BrokerStartError(f"the broker does not serve within {_PATIENCE_S:.0f} s")
            part = os.read(pipe, 4096)
            if not part:
                raise self._failure(child)
            said += part

    def _failure(self, child: subprocess.Popen[bytes]) -> BrokerStartError:
        """Return what the child said before it ended: what, why, and a hint."""
        exit_code = child.wait()
        if self._reader is not None:
            self._reader.join()
        lines = list(self._tail)
        first = next((at for at, line in enumerate(lines) if line.startswith("error: ")), None)
        if first is None:
            said = "\n".join(lines[-10:])
            return BrokerStartError(f"the broker ended with exit code {exit_code}: {said}")
        what = lines[first].removeprefix("error: ")
        why = [line.strip() for line in lines[first + 1 :] if line.startswith("  ")]
        hints = [line for line in lines[first + 1 :] if line.startswith("hint: ")]
        hint = "".join(hints).removeprefix("hint: ")
        return BrokerStartError(": ".join([what, *why]), hint=hint or None)

    def _read_log(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stderr is not None
        for line in child.stderr:
            text = line.decode(errors="replace").rstrip("\n")
            self._tail.append(text)
            if self._level is not None:
                _forward(text)


def _line(addresses: Sequence[str]) -> str:
    return " ".join(addresses) + "\n"


def _forward(line: str) -> None:
    """Pass a line of the child's log to ``logging``. The line is JSON, for lack of a terminal."""
    import json

    from .logs import emit

    try:
        event = json.loads(line)
        level, module = str(event.pop("level")), str(event.pop("target"))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return emit("WARN", "kafkalite_broker", line)
    message = str(event.pop("message", ""))
    event.pop("timestamp", None)
    fields = "".join(f" {name}={value}" for name, value in event.items())
    return emit(level, module, message + fields)
