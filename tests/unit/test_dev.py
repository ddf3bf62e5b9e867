"""``kafkalite dev``: a broker to try things out with."""

from __future__ import annotations

import signal
from pathlib import Path

import kafkalite
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


def test_several_brokers_form_a_cluster_until_ctrl_c(processes: Processes, tmp_path: Path) -> None:
    words = ("--brokers", "3", "--listen", "127.0.0.1:0", "--topic", "t:2")
    process = processes.start("dev", *words, environment={"TMPDIR": str(tmp_path)})
    process.wait_ready(admin=False)
    with kafkalite.AdminClient(bootstrap_servers=process.ready) as admin:
        assert [broker.id for broker in admin.describe_cluster().brokers] == [0, 1, 2]
        assert [len(each.isr) for each in admin.describe_topic("t").partitions] == [3, 3]
    assert "kill -9" in process.stderr
    assert process.end(signal.SIGINT) == 0
    assert not list(tmp_path.glob("kafkalite-*"))


def test_flags_that_a_cluster_does_not_take_are_refused(processes: Processes) -> None:
    process = processes.start("dev", "--brokers", "3", "--advertise", "somewhere:9092")
    assert process.wait() == 2
    assert "no such option" in process.stderr
