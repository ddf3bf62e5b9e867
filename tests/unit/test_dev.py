"""``kafkalite dev``: a broker to try things out with."""

from __future__ import annotations

import signal

from tests.harness.process import Processes
from tests.unit.test_serve import api_versions_error


def test_it_serves_and_tells_lines_to_paste(processes: Processes) -> None:
    process = processes.start("dev", "--listen", "127.0.0.1:0", "--topic", "t:2")
    process.wait_ready()
    assert api_versions_error(process.ready) == 0
    assert process.end() == 0
    assert f'bootstrap_servers="{process.ready}"' in process.stderr


def test_its_records_go_unless_told_where_to_stay(processes: Processes) -> None:
    words = ("--listen", "127.0.0.1:0", "--quiet")
    process = processes.start("dev", *words, "--data-dir", "kept")
    process.wait_ready()
    assert process.end() == 0
    assert (process.cwd / "kept" / "meta.properties").exists()
    environment = {"TMPDIR": str(process.cwd)}
    other = processes.start("dev", *words, environment=environment)
    other.wait_ready()
    assert list(process.cwd.glob("kafkalite-dev-*/meta.properties"))
    assert other.end() == 0
    assert not list(process.cwd.glob("kafkalite-dev-*"))


def test_a_terminal_that_is_closed_leaves_nothing_behind(processes: Processes) -> None:
    """SIGHUP ended the process at once: the directory of `dev` stayed."""
    process = processes.start("dev", "--listen", "127.0.0.1:0", "--quiet", "--data-dir", "kept")
    process.wait_ready()
    assert process.end(signal.SIGHUP) == 0
    assert (process.cwd / "kept" / ".kafka_cleanshutdown").exists()
    environment = {"TMPDIR": str(process.cwd)}
    other = processes.start("dev", "--listen", "127.0.0.1:0", environment=environment)
    other.wait_ready()
    assert list(process.cwd.glob("kafkalite-dev-*/meta.properties"))
    assert other.end(signal.SIGHUP) == 0
    assert not list(process.cwd.glob("kafkalite-dev-*"))
