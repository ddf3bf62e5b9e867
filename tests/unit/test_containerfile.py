"""The recipe of the container image: CI builds no image, so its words are read and run here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.harness.process import PATIENCE_S, Processes, port_of

ROOT = Path(__file__).parents[2]


def instructions() -> list[tuple[str, str]]:
    """Each instruction and its words, in order; continued lines are joined."""
    text = (ROOT / "Containerfile").read_text()
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    pairs = [line.split(maxsplit=1) for line in lines if line.strip()]
    return [(pair[0], pair[1]) for pair in pairs]


def one(name: str) -> str:
    """The words of an instruction that is there once."""
    (words,) = (words for found, words in instructions() if found == name)
    return words


def in_exec_form(words: str) -> list[str]:
    """The words of a command that no shell reads, in which ``python`` is this one."""
    found: list[str] = json.loads(words)
    assert found
    return [sys.executable if word == "python" else word for word in found]


def test_the_image_is_built_upon_a_named_version() -> None:
    image, _, tag = one("FROM").partition(":")
    assert "/" in image
    assert re.fullmatch(r"\d+\.\d+-slim", tag)
    assert not {"ADD", "ONBUILD"}.intersection(name for name, _ in instructions())


def test_the_broker_is_not_root_and_owns_its_volume() -> None:
    names = [name for name, _ in instructions()]
    assert names.index("USER") > names.index("RUN")
    user = one("USER")
    assert user.isdigit()
    assert int(user) >= 1_000
    assert f"--uid {user} " in one("RUN")
    assert f"--owner {user} " in one("RUN")
    assert one("RUN").endswith(one("VOLUME"))


def test_what_is_copied_is_what_make_wheel_writes() -> None:
    source, target = one("COPY").split()
    assert source == "dist/kafkalite-*.whl"
    assert f"{target}kafkalite-*.whl" in one("RUN")
    assert re.search(r"maturin build .*--out dist$", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_its_commands_start_a_broker_and_ask_for_its_health(
    processes: Processes, tmp_path: Path
) -> None:
    words = in_exec_form(one("ENTRYPOINT")) + in_exec_form(one("CMD"))
    assert words[1:4] == ["-m", "kafkalite", "serve"]
    here = {"/data": str(tmp_path / "data"), "0.0.0.0:9092": "0.0.0.0:0"}
    words = [here.get(word, word) for word in words[3:]]
    broker = processes.start(*words, "--admin-port", "0").wait_ready()
    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port_of(broker.ready)}"})
    (told,) = client.list_topics(timeout=PATIENCE_S).brokers.values()
    assert f"{told.host}:{told.port}" == "localhost:9092"
    assert one("EXPOSE").split() == ["9092", "9644"]
    command, _, probe = one("HEALTHCHECK").partition("CMD ")
    assert "--interval=" in command

    def is_healthy() -> bool:
        asked = [word.replace("9644", str(port_of(broker.admin))) for word in in_exec_form(probe)]
        return subprocess.run(asked, capture_output=True, timeout=PATIENCE_S).returncode == 0

    assert is_healthy()
    assert broker.end() == 0
    assert not is_healthy()
