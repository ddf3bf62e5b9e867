"""Checkpoints on a local disk, with the settings that the guide has for them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_with_the_settings_for_local_checkpoints_a_file_takes_one_process_and_not_ten(
    make_topic: Callable[..., Any], tmp_path: Path
) -> None:
    topic, told, shims = make_topic(), tmp_path / "told", tmp_path / "shims"
    shims.mkdir()
    for name in ("chmod", "readlink", "stat", "ls"):
        shim = shims / name
        shim.write_text(f'#!/bin/sh\necho "$@" >> {told}\nexec {shutil.which(name)} "$@"\n')
        shim.chmod(0o755)
    program = str(Path(__file__).with_name("children.py"))
    ran = subprocess.run(
        [sys.executable, program, topic.servers, topic.name, str(tmp_path)],
        env={
            **os.environ,
            "PATH": f"{shims}:{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    # Of the last micro-batch: those before may have made directories as well.
    about = re.compile(rf"{tmp_path}/(with|without)/(offsets|commits)/\.*2\.?\S*")
    found = Counter(words.groups() for words in about.finditer(told.read_text()))
    assert found == {
        ("with", "offsets"): 1,
        ("with", "commits"): 1,
        ("without", "offsets"): 10,
        ("without", "commits"): 10,
    }
    assert not list((tmp_path / "with").rglob("*.crc"))
