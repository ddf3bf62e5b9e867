"""``kafkalite perf``: how fast a cluster is, and where the time goes."""

from __future__ import annotations

import click

from .helping import examples
from .load import consume, e2e, produce
from .stages import stages


@click.group(
    "perf", epilog=examples("kafkalite perf produce", "kafkalite perf stages --seconds 10")
)
def command() -> None:
    """Measure a cluster."""


for _command in (produce, consume, e2e, stages):
    command.add_command(_command)
