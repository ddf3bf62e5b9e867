"""A broker for tests and for trying things out: in this process, or as its child.

Both are the broker that ``kafkalite serve`` runs, with the profile ``dev``: groups form at
once, topics are made on first use. Its port is chosen once and kept over stops, so that
clients find it again.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from . import _native
from .arguments import checked_count, checked_seconds, refuse_positional
from .ports import answers, bracketed, hold
from .under_test import UnderTest, without_query

if TYPE_CHECKING:
    from typing import Never, Self

    from ._native import RecentRequest
    from .broker_process import BrokerProcess
    from .records import Record
    from .snapshots import Snapshot

    #: What runs the broker: threads here, or a process.
    _Engine: TypeAlias = _native.Broker | BrokerProcess

OnReady: TypeAlias = Callable[[str, str | None], object]

#: Keys of one broker that a fork does not take over.
_OF_ONE = {"listeners", "advertised.listeners", "log.dirs", "log.dir", "kafkalite.admin.port"}


class Broker(UnderTest):
    """A real broker, as a context manager.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 lets the system choose one, which it then keeps.
        data_dir: Where records are kept; ``None`` is a temporary directory that is
            removed when the broker is closed, forgotten, or the interpreter ends.
        topics: Topics that are there when it serves: names, or names with their
            numbers of partitions.
        config: Any keys of the broker, with dots.
        admin_port: Port of metrics and health; ``None`` is off, 0 lets the system
            choose.
        in_process: ``False`` runs it in a process of its own, which ends with this one,
            so that ``kill()`` is a real crash.
        log_level: From which level on its log lines go to Python's ``logging``, to
            loggers below ``kafkalite``; ``None`` is none.

    Source:
        The keys are those of Apache Kafka's broker and ``kafkalite.*``.
    """

    def __init__(
        self,
        *_positional: Never,
        host: str = "127.0.0.1",
        port: int = 0,
        data_dir: str | os.PathLike[str] | None = None,
        topics: Iterable[str] | Mapping[str, int] = (),
        config: Mapping[str, object] | None = None,
        admin_port: int | None = None,
        in_process: bool = True,
        log_level: str | int | None = None,
    ) -> None:
        """Configure a broker; ``start()`` or ``with`` starts it."""
        refuse_positional("Broker", _positional)
        checked_count("port", port)
        if admin_port is not None:
            checked_count("admin_port", admin_port)
        self._address = (host, port)
        self._admin_port = admin_port
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._temporary: Path | None = None
        self._topics = partitions_of(topics)
        if config is not None and not isinstance(config, Mapping):
            raise TypeError(f"config must be a mapping of keys, not {type(config).__name__}")
        self._config = {key: _text(value) for key, value in (config or {}).items()}
        self._in_process = in_process
        self._log_level = log_level
        #: ``HOST:PORT``, from the first start on.
        self._listens: str | None = None
        #: Its log directories, from the first start on.
        self._log_dirs: list[Path] = []
        #: What it is a fork of.
        self._origin: Snapshot | None = None
        #: Addresses of brokers that it cannot reach; ``None`` cuts no link, now or later.
        self._cut: Sequence[str] | None = None
        self._engine: _Engine | None = None
        self._engine_owner = os.getpid()
        self._close: weakref.finalize[..., Broker] | None = None
        self._lock, self._lock_owner = threading.RLock(), os.getpid()

    @property
    def bootstrap_servers(self) -> str:
        """``HOST:PORT`` to give to clients.

        Raises:
            IllegalStateError: The broker does not run.
        """
        if (servers := self._servers) is None:
            from .errors import IllegalStateError

            text = "ILLEGAL_STATE: the broker does not run"
            raise IllegalStateError(text, hint="start() it, or use it in `with`.")
        return servers

    @property
    def admin_url(self) -> str | None:
        """URL of metrics and health, or ``None`` if they are off."""
        engine = self._engine
        return None if engine is None else engine.admin_url

    @property
    def pid(self) -> int:
        """Process that the broker runs in: this one, unless ``in_process=False``.

        Raises:
            IllegalStateError: The broker does not run.
        """
        _ = self.bootstrap_servers
        return getattr(self._engine, "pid", os.getpid())

    @property
    def data_dir(self) -> Path | None:
        """Where records are kept; ``None`` while a temporary one is not there."""
        return self._data_dir or self._temporary

    def recent_requests(self) -> list[RecentRequest]:
        """Return the last requests with the time each took in every stage, oldest first.

        Returns:
            At most as many as ``kafkalite.recent.requests`` says; none while it does not
            run. A child process is asked over HTTP: the last 1,000, with ``admin_port`` only.
        """
        engine = self._engine
        return [] if engine is None else engine.recent_requests()

    def reset(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this broker; it then serves on the same port.

        Connections are cut. Clients know epochs and offsets of what is gone, so make new ones.

        Args:
            snapshot: A snapshot of this broker, which may be used again.

        Raises:
            InvalidArgumentError: It was deleted, or is another broker's.
            IllegalStateError: As ``start``.
        """
        from .snapshots import beside, check, put_back

        with self._changing():
            check(snapshot, self._log_dirs)
            self._refuse_in_child()
            with beside(snapshot) as copies:
                self.kill()
                put_back(snapshot, copies)
            self.start()

    def fork(self, snapshot: Snapshot | None = None) -> Broker:
        """Start a second broker with the topics, records, offsets and groups of this one.

        It has this broker's configuration, ports of its own, and a temporary directory. Neither
        broker sees what the other does from then on.

        Args:
            snapshot: What it begins with; ``None`` is the present.

        Returns:
            A broker that serves. ``close()`` it, or use it in ``with``.

        Raises:
            IllegalStateError: The broker does not run, or test control is off.
            InvalidArgumentError: The snapshot was deleted, or the broker is one of a cluster.
        """
        from .snapshots import check

        if snapshot is None:
            with self.snapshot() as present:
                return self.fork(present)
        check(snapshot, self._log_dirs)
        fork = Broker(
            host=self._address[0],
            config={key: text for key, text in self._config.items() if key not in _OF_ONE},
            admin_port=None if self._admin_port is None else 0,
            in_process=self._in_process,
            log_level=self._log_level,
        )
        fork._origin = snapshot
        fork.start()
        return fork

    def _control(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        """Send a command of test control."""
        _ = self.bootstrap_servers
        assert self._engine is not None
        if isinstance(self._engine, _native.Broker):
            path, body = without_query(path, body)
        return self._engine.control(method, path, body)

    def log_tail(self, most: int = 40) -> list[str]:
        """Return the last lines of the broker's log, oldest first.

        Args:
            most: How many, at most; 200 are kept.

        Returns:
            Of a broker in this process: with ``log_level`` only, and mixed with the lines of
            others here. Of a child: its own, as it wrote them.
        """
        if self._engine is not None and not isinstance(self._engine, _native.Broker):
            return self._engine.log_tail(most)
        if self._log_level is None:
            return []
        from .logs import tail

        return tail(most)

    def start(self) -> None:
        """Start; the broker serves when this returns, with the data it had before.

        Raises:
            BrokerStartError: A wrong configuration, a taken port, a locked directory.
            IllegalStateError: It was started before this process was forked off: it is the
                parent's. After ``close()`` it can be started here.
        """
        with self._changing():
            self._refuse_in_child()
            if self._engine is not None:
                return self._engine.start()
            engine = self._prepare()
            try:
                return engine.start()
            except BaseException:
                self.close()
                raise

    def stop(self) -> None:
        """Stop cleanly; data and port stay, for another ``start()``."""
        with self._changing():
            if self._engine is not None:
                self._engine.stop()

    def kill(self) -> None:
        """End it as a crash does: nothing is flushed, and clients get no answer.

        In this process that is as much as threads allow; with ``in_process=False`` it is
        a SIGKILL. ``start()`` brings it back with its data.
        """
        with self._changing():
            if self._engine is not None:
                self._engine.kill()

    def restart(self) -> None:
        """Stop cleanly and start again, with the same data on the same port."""
        with self._changing():
            self.stop()
            self.start()

    def close(self) -> None:
        """End it, and remove a temporary directory. ``start()`` then makes a new one."""
        with self._changing():
            if self._temporary is None:
                self.stop()
            else:
                # What is removed need not be complete.
                self.kill()
            if self._close is not None and (alive := self._close.peek()) is not None:
                # Not called: a finalizer that Ctrl-C interrupts is never called again.
                _, end, arguments, _ = alive
                end(*arguments)
                self._close.detach()
            self._engine, self._close, self._temporary = None, None, None

    def wait_ready(self, timeout: float = 10.0) -> None:
        """Wait until the broker answers a request.

        After ``start()`` it does so at once; this is for those who start it elsewhere.

        Args:
            timeout: Seconds to wait, at most.

        Raises:
            RequestTimedOut: It does not answer by then.
        """
        from .errors import RequestTimedOut

        checked_seconds(timeout)
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            if (servers := self._servers) and answers(servers.split(",")[0], max(left, 0.001)):
                return
            if left <= 0:
                text = f"the broker does not answer within {timeout:g} s"
                raise RequestTimedOut(f"REQUEST_TIMED_OUT: {text}")
            time.sleep(min(0.01, left))

    def expect(
        self,
        topic: str,
        n: int,
        timeout: float = 10.0,
        *,
        where: Callable[[Record[bytes, bytes]], object] | None = None,
    ) -> list[Record[bytes, bytes]]:
        """Read the first records of a topic, waiting until there are enough.

        Args:
            topic: A topic of this broker.
            n: How many records.
            timeout: Seconds to wait for all of them.
            where: Predicate; only records that match count.

        Returns:
            Exactly ``n`` records, those of one partition in their order.

        Raises:
            RequestTimedOut: Fewer came in time; the text shows those that came.
        """
        from .expecting import expect

        __tracebackhide__ = True
        return expect(self.bootstrap_servers, topic, n, timeout, where)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and remove a temporary directory."""
        self.close()

    def __repr__(self) -> str:
        """Tell where it serves."""
        return f"<kafkalite.Broker {self._servers or 'not running'}>"

    @property
    def _servers(self) -> str | None:
        engine = self._engine
        return None if engine is None else engine.bootstrap_servers

    def _changing(self) -> threading.RLock:
        """One thread at a time starts, stops or closes; the lock of a forked child is a new one."""
        if self._lock_owner != os.getpid():
            # The thread that held it may not exist here.
            self._lock, self._lock_owner = threading.RLock(), os.getpid()
        return self._lock

    def _refuse_in_child(self) -> None:
        """Refuse to start what a parent of this process started."""
        if self._engine is not None and self._engine_owner != os.getpid():
            from .errors import IllegalStateError

            text = "ILLEGAL_STATE: the broker belongs to a parent of this process"
            raise IllegalStateError(text, hint="close() it here first, or make another one.")

    def _prepare(self) -> _Engine:
        """Choose directory and ports, and what runs the broker; all of it is kept."""
        if self._log_level is not None:
            self._prepare_log(self._log_level)
        temporary = None
        own = str(self._data_dir) if self._data_dir is not None else self._config.get("log.dir")
        log_dirs = self._config.get("log.dirs", own)
        if log_dirs is None:
            temporary, log_dirs = self._make_temporary()
            self._temporary = Path(temporary)
        held: list[socket.socket] = []
        host, port = self._address
        self._listens = f"{bracketed(host)}:{hold(host, port, held)}"
        keys = {
            "listeners": f"PLAINTEXT://{self._listens}",
            "log.dirs": log_dirs,
            "kafkalite.admin.port": str(self._held_admin_port(held)),
            # What is thrown away need not survive a power cut.
            "kafkalite.disk.sync": _text(temporary is None),
        } | self._config
        self._log_dirs = [Path(path.strip()).absolute() for path in keys["log.dirs"].split(",")]
        engine: _Engine
        if self._in_process:
            engine = _native.Broker(keys, self._topics)
        else:
            from .broker_process import BrokerProcess

            engine = BrokerProcess(keys, self._topics, self._log_level, self._cut)
        self._engine, self._engine_owner = engine, os.getpid()
        self._close = weakref.finalize(self, _end, os.getpid(), engine, temporary, held)
        return engine

    def _make_temporary(self) -> tuple[str, str]:
        """Make a temporary directory, for a fork with what it begins with; and its log dirs."""
        if self._origin is None:
            temporary = tempfile.mkdtemp(prefix="kafkalite-")
            return temporary, temporary
        from .snapshots import clone

        return clone(self._origin)

    def _prepare_log(self, level: str | int) -> None:
        from .logs import forward_logs, level_name

        if self._in_process:
            forward_logs(level)
        else:
            # The child forwards its own; a level that there is not is found out here.
            level_name(level)

    def _held_admin_port(self, held: list[socket.socket]) -> int:
        if self._admin_port is None:
            return -1
        return hold(self._config.get("kafkalite.admin.host", "127.0.0.1"), self._admin_port, held)


def serve(words: Sequence[str], *, on_ready: OnReady | None = None) -> int:
    """Run ``kafkalite serve`` in this process, until a signal stops the broker.

    Args:
        words: Its flags.
        on_ready: Called with ``HOST:PORT`` and the URL of metrics and health, if they are
            on, when the broker serves.

    Returns:
        The exit code; errors went to stderr.
    """
    return _native.serve(list(words), on_ready)


def _end(pid: int, engine: _Engine, directory: str | None, held: list[socket.socket]) -> None:
    """Leave nothing behind; in a forked child there is nothing of its own to leave."""
    if pid != os.getpid():
        return
    engine.kill()
    for reserved in held:
        reserved.close()
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)


def partitions_of(topics: Iterable[str] | Mapping[str, int]) -> list[tuple[str, int | None]]:
    """Return topics to make with their numbers of partitions, as far as they have one."""
    if isinstance(topics, str):
        # A string is an iterable of strings, and never meant as one here.
        return [(topics, None)]
    if isinstance(topics, Mapping):
        return [(name, checked_count(f"topics[{name!r}]", count)) for name, count in topics.items()]
    names = list(topics) if isinstance(topics, Iterable) else [topics]
    if wrong := [name for name in names if not isinstance(name, str)]:
        error = TypeError(f"topics must be names, or names with partitions, not {wrong[0]!r}")
        error.add_note('hint: as in topics=["orders"], or topics={"orders": 3}.')
        raise error
    return [(name, None) for name in names]


def _text(value: object) -> str:
    """Return a key's value as files spell it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
