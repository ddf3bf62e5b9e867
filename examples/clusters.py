"""Clusters of one machine, from the Spark that pip installed: its wheel has no scripts for them.

`spark-class` and `spark-submit` run the same classes as those scripts. Everything listens on
loopback, on free ports, and ends with the block that began it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["connect_server", "standalone"]

HOST = "127.0.0.1"
#: How long a process may take to say that it is there, in seconds: JVMs are slow beside a load.
PATIENCE_S = 120.0


def spark_home() -> Path:
    """Return the folder of the installed Spark."""
    import pyspark

    return Path(pyspark.__file__).parent


@contextmanager
def standalone(workers: int = 2, *, memory: str = "1g", home: Path | None = None) -> Iterator[str]:
    """Run a master and workers of one core each; yield the master's URL, ``spark://...``.

    Args:
        workers: How many workers.
        memory: What executors of one worker may take together, as Spark writes it.
        home: Another Spark than that of this interpreter.

    Raises:
        RuntimeError: A process ended, or did not answer in time; with the end of its log.
    """
    with ExitStack() as stack:
        # Executors that are just ending may still write there.
        made = TemporaryDirectory(prefix="spark-standalone-", ignore_cleanup_errors=True)
        place = Path(stack.enter_context(made))
        home = home or spark_home()
        runner = home / "bin" / "spark-class"
        deploy = "org.apache.spark.deploy"
        common = ["--host", HOST, "--port", "0", "--webui-port", "0"]
        master = _Daemon(home, place / "master.log", [runner, f"{deploy}.master.Master", *common])
        stack.callback(master.end)
        url = master.said(r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            words = ["--cores", "1", "--memory", memory, "--work-dir", place / f"work-{number}"]
            command = [runner, f"{deploy}.worker.Worker", *common, *words, url]
            worker = _Daemon(home, place / f"worker-{number}.log", command)
            stack.callback(worker.end)
        master.said(r"Registering (worker)", times=workers)
        yield url


@contextmanager
def connect_server(
    master: str = "local[2]", *, python: Path | None = None, home: Path | None = None
) -> Iterator[str]:
    """Run a Spark Connect server; yield its URL, ``sc://...``.

    Args:
        master: Where it runs its tasks.
        python: The interpreter of its tasks, which has the connector; else this one.
        home: Another Spark than that of this interpreter.

    Raises:
        RuntimeError: It ended, or did not answer in time; with the end of its log.
    """
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": 0,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": 2,
        "spark.ui.enabled": "false",
    }
    home = home or spark_home()
    command: list[object] = [home / "bin" / "spark-submit", "--master", master]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    with TemporaryDirectory(prefix="spark-connect-", ignore_cleanup_errors=True) as place:
        server = _Daemon(home, Path(place) / "server.log", command, python)
        try:
            port = server.said(r"Spark Connect server started at: \S*:(\d+)")
            yield f"sc://{HOST}:{port}"
        finally:
            server.end()


class _Daemon:
    """A process that writes a log, and is ended."""

    def __init__(
        self, home: Path, log: Path, command: list[object], python: Path | None = None
    ) -> None:
        self._log = log
        inherited = {key: os.environ[key] for key in os.environ if not key.startswith("SPARK_")}
        environment = {
            **inherited,
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": str(python or sys.executable),
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_LOCAL_IP": HOST,
            # It has a fixed port, and nothing here submits through it.
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        }
        with log.open("w") as output:
            self._process = subprocess.Popen(
                ["bash", *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env=environment,
            )

    def said(self, pattern: str, times: int = 1) -> str:
        """Wait until its log holds the pattern so often; return what its group is."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and self._process.poll() is None:
            found = re.findall(pattern, self._log.read_text(errors="replace"))
            if len(found) >= times:
                return str(found[0])
            time.sleep(0.1)
        told = self._log.read_text(errors="replace")[-2_000:]
        raise RuntimeError(f"{self._log.stem} is not there: {told}")

    def end(self) -> None:
        """End it: a worker takes its executors with it."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        self._process.kill()
        self._process.wait()
