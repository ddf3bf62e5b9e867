"""``kafkalite top``: the data plane of a broker in the terminal, from the console's stream."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from .admin_port import admin_options, events
from .answers import answer_json, json_option, size_in_words
from .helping import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

#: Cells of a bar that shows how busy threads are.
_BAR = 10

_TITLES = {
    "socket": "Socket",
    "network_threads": "Network threads",
    "request_queue": "Request queue",
    "io_threads": "I/O threads",
    "commit_log": "Commit log",
    "cold_reads": "Cold reads",
    "produce_purgatory": "Produce purgatory",
    "fetch_purgatory": "Fetch purgatory",
    "response_queues": "Response queues",
    "response_send": "Socket send",
}


def in_words(ms: float | None) -> str:
    """Return a time with its unit."""
    if ms is None:
        return "-"
    if ms < 1:
        return f"{ms * 1e3:.0f} µs"
    return f"{ms:.1f} ms" if ms < 1_000 else f"{ms / 1e3:.1f} s"


def rate(value: float) -> str:
    """Return a rate in three digits: ``12.3k``."""
    for bound, unit in ((1e6, "M"), (1e3, "k")):
        if value >= bound:
            return f"{value / bound:.3g}{unit}"
    return f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def busy_bar(share: float | None) -> str:
    """Return a bar and the share in percent; empty for a stage without threads."""
    if share is None:
        return ""
    filled = round(share * _BAR)
    return f"{'█' * filled}{'·' * (_BAR - filled)} {share:4.0%}"


def _head(event: dict[str, Any]) -> str:
    sizes = (size_in_words(int(event[f"bytes_{way}_per_second"])) for way in ("in", "out"))
    bytes_in, bytes_out = sizes
    return (
        f"{_whose(event)}   {rate(event['requests_per_second'])} requests/s   "
        f"in {bytes_in}/s   out {bytes_out}/s   {event['connections']} connections"
    )


def _whose(event: dict[str, Any]) -> str:
    sources = event.get("figures_of", ())
    away = [str(one["broker_id"]) for one in sources if not one["answered"]]
    if len(sources) < 2:
        whose = f"broker {event['broker_id']}"
    else:
        whose = f"{len(sources) - len(away)} of {len(sources)} brokers"
    return f"{whose}, no answer of {', '.join(away)}" if away else whose


def _stages(event: dict[str, Any]) -> list[list[str]]:
    return [
        [
            _TITLES.get(stage["name"], stage["name"]),
            "-" if stage["depth"] is None else str(stage["depth"]),
            busy_bar(stage["busy"]),
            rate(stage["per_second"]),
            in_words(stage["p50_ms"]),
            in_words(stage["p99_ms"]),
        ]
        for stage in event["stages"]
    ]


def _apis(event: dict[str, Any]) -> list[list[str]]:
    return [
        [row["api"], rate(row["per_second"]), in_words(row["p50_ms"]), in_words(row["p99_ms"])]
        for row in event["apis"]
    ]


def screen(event: dict[str, Any]) -> RenderableType:
    """Return an event as a terminal shows it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    def table(rows: list[list[str]], *names: str) -> Table:
        drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for at, name in enumerate(names):
            is_text = at == 0 or name == "busy"
            drawn.add_column(name, justify="left" if is_text else "right", no_wrap=True)
        for row in rows:
            drawn.add_row(*(Text(cell) for cell in row))
        return drawn

    return Group(
        Text(_head(event), style="bold"),
        "",
        table(_stages(event), "stage", "depth", "busy", "per s", "p50", "p99"),
        "",
        table(_apis(event), "API", "per s", "p50", "p99"),
    )


def _plain(event: dict[str, Any]) -> None:
    """Write an event as lines, for a pipe."""
    click.echo(_head(event))
    for row in _stages(event):
        name, depth, busy, per_second, p50, p99 = row
        line = f"  {name:<18} {depth:>6} {busy:<16} {per_second:>8} {p50:>9} {p99:>9}"
        click.echo(line.rstrip())


def _first(found: Iterator[dict[str, Any]], count: int | None) -> Iterator[dict[str, Any]]:
    for number, event in enumerate(found, 1):
        yield event
        if number == count:
            return


class _Whose(click.ParamType["str"]):
    """The id of a broker, or ``all``."""

    name = "broker"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return it as the API takes it."""
        if value != "all" and not (value.isascii() and value.isdigit()):
            self.fail(f"{value!r} is neither the id of a broker nor all.", param, ctx)
        return value


@click.command(
    "top",
    epilog=examples("kafkalite top", "kafkalite top --broker all", "kafkalite top --json -n 10"),
)
@admin_options
@click.option(
    "-n", "count", type=click.IntRange(1), help="Number of updates. Default: until Ctrl-C."
)
@click.option(
    "--broker",
    type=_Whose(),
    metavar="ID|all",
    help="Figures of another broker, or of all together, once a second. "
    "Default: those of the broker that is asked.",
)
@json_option
def command(
    admin_url: str, token: str | None, count: int | None, broker: str | None, as_json: bool
) -> None:
    """Show the stages of a broker's data plane, five times a second.

    For each stage: how much is in it, how busy its threads are, and how long requests stay.
    """
    found = _first(events(admin_url, token, broker), count)
    if as_json:
        for event in found:
            answer_json(event)
            sys.stdout.flush()
        return
    if not sys.stdout.isatty():
        for event in found:
            _plain(event)
            sys.stdout.flush()
        return
    from rich.live import Live

    with Live(auto_refresh=False, screen=count is None) as live:
        for event in found:
            live.update(screen(event), refresh=True)
