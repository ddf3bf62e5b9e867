"""``kafkalite perf``: how fast a cluster is, and where the time goes."""

from __future__ import annotations

import click

from .stages import stages


@click.group("perf")
def command() -> None:
    """Measure a cluster."""


command.add_command(stages)
