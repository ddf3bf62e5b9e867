"""``kafkalite doctor``: every step from a name to every broker, on sockets of its own.

A client tells that it cannot connect; this tells at which step, and for which address of
which broker. It uses nothing of the client, so that it judges the client's way as well.
"""

from __future__ import annotations

import click

from .answers import answer_json, json_option
from .failures import CommandError, ExitCode
from .places import Seconds
from .probe import Checked, Probe


@click.command("doctor")
@click.argument("address", default="localhost:9092", metavar="[HOST:PORT]")
@click.option(
    "--timeout",
    type=Seconds(min_open=True),
    default=3.0,
    show_default=True,
    help="Seconds for each step.",
)
@json_option
def command(address: str, timeout: float, as_json: bool) -> None:
    """Look at every step to a cluster: names, TCP, ApiVersions, login, metadata.

    Then at every address that its brokers advertise, because clients go there.
    Exits with 3 if ADDRESS cannot be used, with 4 if some advertised address cannot.
    """
    first = Probe(address, timeout).run()
    probes = [first]
    for broker, advertised in sorted(first.brokers.items()):
        # The same steps again, and is it the broker that it is said to be?
        probes.append(Probe(advertised, timeout, broker=broker, cluster_id=first.cluster_id).run())
    if as_json:
        answer_json([checked.told() for probe in probes for checked in probe.checks])
    else:
        for probe in probes:
            _show(probe)
    failed = [probe for probe in probes if not probe.is_well]
    if failed:
        _fail(first, failed)


def _show(probe: Probe) -> None:
    head = f"advertised by broker {probe.broker}: " if probe.broker is not None else ""
    click.echo(f"{head}{probe.address}")
    for checked in probe.checks:
        state = "ok" if checked.is_well else "FAILED"
        took = f"{checked.took_ms:.1f} ms" if checked.took_ms is not None else ""
        click.echo(f"  {checked.step:<12} {state:<7} {checked.detail:<46} {took:>10}".rstrip())


def _fail(first: Probe, failed: list[Probe]) -> None:
    failures: list[Checked] = [check for probe in failed for check in probe.checks if check.hint]
    why = [f"{check.address}  {check.step}: {check.detail}" for check in failures]
    hint = failures[0].hint if failures else None
    if first in failed:
        what, code = f"cannot use {first.address}", ExitCode.UNREACHABLE
    else:
        what, code = "some advertised addresses cannot be used", ExitCode.PARTLY
    raise CommandError(what, why=why, hint=hint, exit_code=code)
