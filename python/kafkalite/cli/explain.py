"""``kafkalite explain``: why a client of a broker under test is stuck."""

from __future__ import annotations

from urllib.parse import quote

import click

from ..showing import printable
from .answers import answer_json, json_option
from .faults import ask, reach
from .helping import examples


@click.command("explain", epilog=examples("kafkalite explain billing", "kafkalite explain --json"))
@click.argument("client_id", required=False)
@json_option
@reach
def command(client_id: str | None, as_json: bool, admin_url: str, token: str | None) -> None:
    """Tell why the client CLIENT_ID is stuck; without it, every client that is connected.

    The broker must be `kafkalite dev`, or `kafkalite serve --test-control`.
    """
    query = (
        ""
        if client_id is None
        else f"?client_id={quote(client_id.encode(errors='surrogateescape'), safe='')}"
    )
    told = ask(admin_url, token, "GET", f"/explain{query}")
    if as_json:
        return answer_json(told)
    if not told["reasons"]:
        click.echo("no client waits for this broker.")
    for reason in told["reasons"]:
        who = f"{reason['client_id'] or '-'} {reason['peer'] or ''}".strip()
        click.echo(printable(f"{who} ({reason['kind']})"))
        click.echo(f"  {printable(reason['says'])}.\n  -> {printable(reason['todo'])}.")
    return None
