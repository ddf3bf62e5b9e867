"""``kafkalite client-metrics``: have clients report their metrics (KIP-714), and read them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from ..descriptions import ConfigResource
from ..errors import BrokerError
from .admin_port import admin_options, ask
from .answers import answer_json, answer_table, json_option, say
from .connecting import Cluster, cluster_options
from .failures import CommandError, ExitCode, told
from .helping import examples

if TYPE_CHECKING:
    from ..admin import AdminClient

_KIND: Final = "client_metrics"
#: Rows that the admin API returns at once.
_PAGE = 1_000
_SEE = "`kafkalite client-metrics list` shows the subscriptions that there are."


@click.group(
    "client-metrics",
    epilog=examples(
        "kafkalite client-metrics subscribe all --metrics '*' --interval-ms 10000",
        "kafkalite client-metrics clients",
        "kafkalite client-metrics delete all",
    ),
)
def command() -> None:
    """Have clients report their metrics, and read the reports.

    A subscription asks the clients that it matches to push metrics (KIP-714). The brokers keep the
    last report of each client. Without a subscription clients push nothing.
    """


@command.command(
    "subscribe",
    epilog=examples(
        "kafkalite client-metrics subscribe all --metrics '*' --interval-ms 10000",
        "kafkalite client-metrics subscribe java --metrics org.apache.kafka.consumer. "
        "--match client_software_name=apache-kafka-java",
    ),
)
@click.argument("name")
@click.option("--metrics", multiple=True, help="Prefix of metrics, or * for all (repeatable).")
@click.option("--interval-ms", type=click.IntRange(100, 3_600_000), help="Time between two pushes.")
@click.option("--match", multiple=True, help="ATTRIBUTE=PATTERN of clients (repeatable).")
@cluster_options
def subscribe(
    cluster: Cluster,
    name: str,
    metrics: tuple[str, ...],
    interval_ms: int | None,
    match: tuple[str, ...],
) -> None:
    """Create the subscription NAME, or change it.

    What is not named stays as it is. The pattern is a regular expression for the whole attribute:
    client_id, client_instance_id, client_software_name, client_software_version,
    client_source_address or client_source_port.
    """
    changes: dict[str, str | None] = {}
    if metrics:
        changes["metrics"] = ",".join(metrics)
    if interval_ms is not None:
        changes["interval.ms"] = str(interval_ms)
    if match:
        changes["match"] = ",".join(match)
    if not changes:
        raise click.UsageError("give --metrics, --interval-ms or --match")
    with cluster.admin() as admin:
        _alter(admin, name, changes, cluster)
    say(f"subscription {name} is in force.")


@command.command("delete", epilog=examples("kafkalite client-metrics delete all"))
@click.argument("name")
@cluster_options
def delete(cluster: Cluster, name: str) -> None:
    """Delete the subscription NAME. Its clients stop pushing."""
    with cluster.admin() as admin:
        if name not in _names(admin, cluster):
            raise CommandError(
                f"cannot delete the subscription {name}",
                why=["there is no such subscription"],
                hint=_SEE,
                exit_code=ExitCode.REFUSED,
            )
        _alter(admin, name, dict.fromkeys(("metrics", "interval.ms", "match")), cluster)
    say(f"subscription {name} is deleted.")


@command.command(
    "list",
    epilog=examples("kafkalite client-metrics list", "kafkalite client-metrics list --json"),
)
@json_option
@cluster_options
def list_subscriptions(cluster: Cluster, as_json: bool) -> None:
    """List the subscriptions of the cluster."""
    with cluster.admin() as admin:
        resources = [ConfigResource(_KIND, name) for name in _names(admin, cluster)]
        found = admin.describe_configs(resources, timeout=cluster.timeout) if resources else {}
    rows = []
    for resource, entries in found.items():
        values = {key: entry.value or "" for key, entry in entries.items()}
        rows.append(
            {
                "name": resource.name,
                "metrics": _parts(values.get("metrics", "")),
                "interval_ms": int(values.get("interval.ms", "0")),
                "match": _parts(values.get("match", "")),
            }
        )
    rows.sort(key=lambda row: str(row["name"]))
    if as_json:
        return answer_json(rows)
    joined = [
        {**row, "metrics": _text(row["metrics"]), "match": _text(row["match"])} for row in rows
    ]
    return answer_table(joined, ["name", "metrics", "interval_ms", "match"], as_json=False)


@command.command(
    "clients",
    epilog=examples("kafkalite client-metrics clients", "kafkalite client-metrics clients --json"),
)
@json_option
@admin_options
def clients(as_json: bool, admin_url: str, token: str | None) -> None:
    """List the clients that report to a broker."""
    found = _pages(admin_url, token, "/client-metrics", "clients")
    if as_json:
        return answer_json(found)
    rows = [
        {
            "instance_id": one["instance_id"],
            "client_id": one["client_id"],
            "software": f"{one['software']} {one['software_version']}",
            "address": one["peer"],
            "requested": _text(one["requested_metrics"]),
            "interval_ms": one["push_interval_ms"],
            "pushes": one["pushes"],
            "metrics": one["metrics"],
            "error": one["last_error"],
        }
        for one in found
    ]
    columns = ["instance_id", "client_id", "software", "address", "requested", "interval_ms"]
    return answer_table(rows, [*columns, "pushes", "metrics", "error"], as_json=False)


@command.command(
    "show",
    epilog=examples(
        "kafkalite client-metrics show F5TzbsWvQ0OzFz9hU7p0-w",
        "kafkalite client-metrics show F5TzbsWvQ0OzFz9hU7p0-w --search latency --json",
    ),
)
@click.argument("instance_id")
@click.option("--search", default="", help="Text in the names of metrics.")
@json_option
@admin_options
def show(instance_id: str, search: str, as_json: bool, admin_url: str, token: str | None) -> None:
    """Show the last report of the client INSTANCE_ID."""
    path = f"/client-metrics/{quote(instance_id, safe='')}"
    found = _pages(admin_url, token, path, "metrics", search=search)
    if as_json:
        return answer_json(found)
    rows = [
        {
            "metric": one["name"],
            "labels": " ".join(f"{name}={value}" for name, value in one["labels"].items()),
            "kind": one["kind"],
            "value": one["value"],
            "total": one["total"],
        }
        for one in found
    ]
    return answer_table(rows, ["metric", "labels", "kind", "value", "total"], as_json=False)


def _pages(
    admin_url: str, token: str | None, path: str, member: str, search: str = ""
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: Any = None
    while True:
        query = f"?limit={_PAGE}"
        query += f"&search={quote(search, safe='')}" if search else ""
        query += f"&after={quote(str(after), safe='')}" if after is not None else ""
        with ask(admin_url, path + query, token) as answer:
            page = json.loads(answer.read())
        found += page[member]
        after = page["next"]
        if after is None:
            return found


def _names(admin: AdminClient, cluster: Cluster) -> list[str]:
    listed = admin.list_config_resources([_KIND], timeout=cluster.timeout)
    return [resource.name for resource in listed]


def _alter(admin: AdminClient, name: str, changes: dict[str, str | None], cluster: Cluster) -> None:
    try:
        admin.alter_configs({ConfigResource(_KIND, name): changes}, timeout=cluster.timeout)
    except BrokerError as error:
        refused = told(error)
        raise CommandError(
            refused.what,
            why=refused.why,
            hint=refused.hint or _SEE,
            exit_code=ExitCode.REFUSED,
        ) from None


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def _text(parts: Any) -> str:
    return ",".join(parts)
