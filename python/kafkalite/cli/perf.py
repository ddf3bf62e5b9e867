"""``kafkalite perf``: how fast a cluster is, and where the time goes."""

from __future__ import annotations

import click

from .load import consume, e2e, produce
from .stages import stages


@click.group("perf")
def command() -> None:
    """Measure a cluster."""


for _command in (produce, consume, e2e, stages):
    command.add_command(_command)
