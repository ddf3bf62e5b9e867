"""``kafkalite doctor``: every step from a name to every broker, on sockets of its own.

A client tells that it cannot connect; this tells at which step, and for which address of
which broker. It uses nothing of the client, so that it judges the client's way as well.
"""

from __future__ import annotations

import click

from .answers import answer_json, json_option
from .connecting import servers_option
from .contexts import chosen
from .failures import CommandError, ExitCode
from .helping import examples
from .places import Seconds
from .probe import Checked, Probe

_EXAMPLES = examples("kafkalite doctor", "kafkalite doctor broker.example.com:9092 --timeout 10")


@click.command("doctor", epilog=_EXAMPLES)
@click.argument("address", required=False, metavar="[HOST:PORT,...]")
@servers_option
@click.option("--context", "context", metavar="NAME", help="Saved context to check.")
@click.option(
    "--timeout",
    type=Seconds(min_open=True),
    default=3.0,
    show_default=True,
    help="Time limit of each step, in seconds.",
)
@json_option
def command(
    address: str | None, servers: str | None, context: str | None, timeout: float, as_json: bool
) -> None:
    """Check the way to a cluster: DNS, TCP, ApiVersions, login, metadata.

    Then check every address that the brokers advertise, because clients connect to these. The exit
    code is 3 if all given addresses fail, and 4 if some address fails.
    """
    servers = address if address is not None else chosen(servers, context).bootstrap_servers
    addresses = dict.fromkeys(one.strip() for one in servers.split(","))
    firsts = [Probe(one, timeout).run() for one in addresses]
    cluster_id = next((first.cluster_id for first in firsts if first.cluster_id), None)
    advertised = {broker: at for first in firsts for broker, at in first.brokers.items()}
    probes = list(firsts)
    for broker, at in sorted(advertised.items()):
        # The same steps again, and is it the broker that it is said to be?
        probes.append(Probe(at, timeout, broker=broker, cluster_id=cluster_id).run())
    if as_json:
        answer_json([checked.told() for probe in probes for checked in probe.checks])
    else:
        for probe in probes:
            _show(probe)
    failed = [probe for probe in probes if not probe.is_well]
    if failed:
        _fail(firsts, failed)


def _show(probe: Probe) -> None:
    head = f"advertised by broker {probe.broker}: " if probe.broker is not None else ""
    click.echo(f"{head}{probe.address}")
    for checked in probe.checks:
        state = "ok" if checked.is_well else "FAILED"
        took = f"{checked.took_ms:.1f} ms" if checked.took_ms is not None else ""
        click.echo(f"  {checked.step:<12} {state:<7} {checked.detail:<46} {took:>10}".rstrip())


def _fail(firsts: list[Probe], failed: list[Probe]) -> None:
    failures: list[Checked] = [check for probe in failed for check in probe.checks if check.hint]
    why = [f"{check.address}  {check.step}: {check.detail}" for check in failures]
    hint = failures[0].hint if failures else None
    useless = [first.address for first in firsts if first in failed]
    if len(useless) == len(firsts):
        what, code = f"cannot use {', '.join(useless)}", ExitCode.UNREACHABLE
    elif useless:
        what, code = f"cannot use {', '.join(useless)}", ExitCode.PARTLY
    else:
        what, code = "some advertised addresses cannot be used", ExitCode.PARTLY
    raise CommandError(what, why=why, hint=hint, exit_code=code)
