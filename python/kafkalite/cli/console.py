"""``kafkalite console``: where the console of a broker is."""

from __future__ import annotations

import json

import click

from .admin_port import admin_options, ask
from .answers import answer_json, json_option, say
from .helping import examples


@click.command(
    "console",
    epilog=examples(
        "kafkalite console --open", "kafkalite console --admin-url http://127.0.0.1:9644"
    ),
)
@admin_options
@click.option("--open", "in_browser", is_flag=True, help="Open the console in a browser.")
@json_option
def command(admin_url: str, token: str | None, in_browser: bool, as_json: bool) -> None:
    """Print the address of a broker's console, and whether the broker answers.

    The console is a page that shows the data plane at work, topics, records, groups and clients.
    It asks for the token itself, if the broker has one.
    """
    with ask(admin_url, "/overview", token) as answer:
        broker_id = json.load(answer)["broker_id"]
    url = f"{admin_url.rstrip('/')}/console"
    if as_json:
        answer_json({"url": url, "broker_id": broker_id})
    else:
        click.echo(url)
    if in_browser:
        import webbrowser

        # Click's launch() says that there is a browser where there is none.
        if not webbrowser.open(url):
            say("no browser was found; open the address by hand.")
