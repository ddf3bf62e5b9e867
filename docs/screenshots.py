"""Draws ``docs/images/terminal.svg``: real commands against a real broker, in a terminal.

    make screenshots

The commands run one after the other in a pseudo-terminal, so that they print what people see. Only
the broker's port is replaced, with Kafka's usual one.
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

import kafkalite as kl

IMAGES = Path(__file__).parent / "images"
WIDTH = 84
COMMANDS = (
    r"printf '1\tbook\n2\tlamp\n3\tchair\n' | kafkalite produce orders -K '\t'",
    "kafkalite consume orders -g shop --from-beginning -n 2 --json",
    "kafkalite topics list",
    "kafkalite groups lag shop",
    "kafkalite cluster info",
)


def output_of(command: str, environment: dict[str, str]) -> str:
    """Run the command in a pseudo-terminal; return what it prints there."""
    ours, theirs = pty.openpty()
    size = f"stty cols {WIDTH} rows 50; {command}"
    process = subprocess.Popen(
        ["bash", "-c", size],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True,
    )  # fmt: skip
    os.close(theirs)
    printed = io.BytesIO()
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # Linux says so when the last writer is gone
            break
        if not data:
            break
        printed.write(data)
    os.close(ours)
    if process.wait(timeout=60):
        raise RuntimeError(f"{command}: exit status {process.returncode}\n{printed.getvalue()!r}")
    return printed.getvalue().decode().replace("\r\n", "\n")


def session() -> Text:
    """Every command with its prompt and its output."""
    with kl.Broker(topics={"orders": 3}) as broker:
        port = broker.bootstrap_servers.rpartition(":")[2]
        environment = {
            **os.environ,
            "KAFKALITE_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "TERM": "xterm-256color",
        }
        text = Text()
        for command in COMMANDS:
            text.append("$ ", style="bold green")
            text.append(f"{command}\n", style="bold")
            printed = output_of(command, environment)
            # One blank more, so that columns stay columns.
            printed = printed.replace(f":{port} ", ":9092  ").replace(f":{port}", ":9092")
            # Bars redraw themselves: a terminal shows what comes last on the line.
            lines = (line.rpartition("\r")[2] for line in printed.splitlines())
            text.append_text(Text.from_ansi("\n".join(lines).rstrip()))
            text.append("\n\n")
    text.rstrip()
    return text


def main() -> int:
    """Draw the picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(session())
    svg = console.export_svg(title="kafkalite")
    # The template fetches its font from the network: a reader's own monospace font will do.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / "terminal.svg").write_text(svg + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
