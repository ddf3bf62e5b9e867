"""``kafkalite serve``: the binary's own verb; this is its place in the help."""

from __future__ import annotations

import click

from ..broker import serve
from .ending import by_default


@click.command(
    "serve",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(words: tuple[str, ...]) -> int:
    """Run a broker until SIGTERM or SIGINT."""
    with by_default():
        return serve(words)
