"""``kafkalite completion``: what a shell needs to complete our words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from .failures import CommandError, ExitCode
from .helping import examples

_HOW = examples(
    "kafkalite completion bash >> ~/.bashrc",
    "kafkalite completion zsh >> ~/.zshrc",
    "kafkalite completion fish > ~/.config/fish/completions/kafkalite.fish",
)


@click.command("completion", epilog=_HOW)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    kind = get_completion_class(shell)
    if kind is None:
        raise CommandError(f"no completion for {shell}", exit_code=ExitCode.NOT_FOUND)
    program = ctx.find_root().command
    complete = kind(program, {}, "kafkalite", "_KAFKALITE_COMPLETE")
    # `source()` would ask the shell for its version first; the script is the same.
    click.echo(complete.source_template % complete.source_vars())
