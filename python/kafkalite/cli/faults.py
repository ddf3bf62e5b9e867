"""``kafkalite faults``: make a broker under test fail on purpose, over its admin port."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import IllegalStateError, InvalidArgumentError
from ..faults import command as send_command
from .answers import answer_json, answer_table, json_option, say
from .failures import CommandError, ExitCode
from .helping import examples

if TYPE_CHECKING:
    from collections.abc import Callable

_Command = TypeVar("_Command", bound="Callable[..., object]")

#: Seconds until the broker must answer.
_ASKING_S = 10.0

_KINDS = (
    "error",
    "delay",
    "disconnect",
    "drop_response",
    "blackhole",
    "throttle",
    "corrupt",
    "stall",
    "disk",
)


def reach(command: _Command) -> _Command:
    """Add the options that say which broker is meant."""
    command = click.option(
        "--token", envvar="KAFKALITE_ADMIN_TOKEN", help="Value of kafkalite.admin.token."
    )(command)
    return click.option(
        "--admin-url",
        default="http://127.0.0.1:9644",
        show_default=True,
        help="Admin address of the broker, as `serve` prints it after `admin:`.",
    )(command)


def ask(
    admin_url: str, token: str | None, method: str, path: str, body: dict[str, Any] | None = None
) -> Any:
    """Send a command of test control over the admin port, and return its answer.

    Args:
        admin_url: The admin address of the broker.
        token: ``kafkalite.admin.token``, if the broker has one.
        method: ``GET``, ``POST`` or ``DELETE``.
        path: The path below ``/api/v1``.
        body: What is sent as JSON.

    Raises:
        CommandError: The broker refuses the command, or cannot be reached.
    """

    def send(method: str, path: str, body: bytes) -> tuple[int, str]:
        url = admin_url.rstrip("/") + "/api/v1" + path
        if not url.startswith(("http://", "https://")):
            raise ValueError("not a URL of http")
        request = urllib.request.Request(url, data=body or None, method=method)
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=_ASKING_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    try:
        return send_command(send, method, path, body)
    except (IllegalStateError, InvalidArgumentError) as error:
        name, _, what = str(error).partition(": ")
        code = ExitCode.USAGE if name == "INVALID_REQUEST" else ExitCode.REFUSED
        raise CommandError(what, hint=error.hint, exit_code=code) from None
    except (OSError, ValueError, LookupError, http.client.HTTPException) as error:
        raise CommandError(
            f"cannot reach the admin API at {admin_url}",
            why=[str(getattr(error, "reason", error)).lower()],
            hint="pass the address that the broker prints after `admin:` with --admin-url.",
            exit_code=ExitCode.UNREACHABLE,
        ) from None


@click.group(
    "faults",
    epilog=examples(
        "kafkalite faults add error --api Produce --error NOT_LEADER_OR_FOLLOWER --times 1",
        "kafkalite faults list",
        "kafkalite faults clear",
    ),
)
def command() -> None:
    """Make a broker under test fail on purpose.

    The broker must be `kafkalite dev`, or `kafkalite serve --test-control`.
    """


@command.command(
    "add",
    epilog=examples(
        "kafkalite faults add error --api Produce --error NOT_LEADER_OR_FOLLOWER --on-call 3",
        "kafkalite faults add delay --api Fetch --ms 200 --client-id billing",
        "kafkalite faults add disk --disk full --topic orders",
    ),
)
@click.argument("kind", type=click.Choice(_KINDS))
@click.option("--api", help="Kafka's name of the API: Produce, Fetch, ...")
@click.option("--topic", help="Topic that requests must name.")
@click.option("--partition", type=click.IntRange(0), help="Partition of the topic.")
@click.option("--client-id", help="client.id of the client.")
@click.option("--error", help="Kafka's name of the error: NOT_LEADER_OR_FOLLOWER, ...")
@click.option(
    "--side",
    type=click.Choice(["before", "after"]),
    help="Strike before the broker sees the request, or after its work.",
)
@click.option("--ms", type=click.IntRange(0, 2**31 - 1), help="Time of a delay, in milliseconds.")
@click.option(
    "--stage",
    type=click.Choice(["request_queue", "io_threads", "log", "response_queue"]),
    help="Stage that stands still.",
)
@click.option(
    "--disk", type=click.Choice(["full", "error", "slow"]), help="What is wrong with the disk."
)
@click.option(
    "--operation",
    type=click.Choice(["write", "sync", "read"]),
    help="Operation of the disk that fails. Default: write and sync.",
)
@click.option("--on-call", type=click.IntRange(1, 2**63), help="First call to strike, from 1.")
@click.option("--times", type=click.IntRange(1, 2**63), help="Number of calls to strike.")
@click.option("--probability", type=click.FloatRange(0, 1), help="Chance of each call.")
@click.option("--seed", type=click.IntRange(0, 2**63), help="Seed of the chances.")
@json_option
@reach
def add(
    kind: str, as_json: bool, admin_url: str, token: str | None, **members: str | float | None
) -> None:
    """Add a fault of KIND.

    The fault strikes every matching call until it is removed, unless --times or --on-call limit it.
    """
    given = {name: value for name, value in members.items() if value is not None}
    told = ask(admin_url, token, "POST", "/faults", {"kind": kind} | given)
    if as_json:
        return answer_json(told)
    say(f"fault {told['id']} is in force.")
    return None


@command.command("list", epilog=examples("kafkalite faults list"))
@json_option
@reach
def list_faults(as_json: bool, admin_url: str, token: str | None) -> None:
    """List the faults in force, and how often each struck."""
    faults = ask(admin_url, token, "GET", "/faults")["faults"]
    counts = ("id", "kind", "seen", "fired", "spent")
    rows = [
        {
            **{name: fault[name] for name in counts},
            "members": " ".join(
                f"{name}={value}" for name, value in fault.items() if name not in counts
            ),
        }
        for fault in faults
    ]
    columns = ["id", "kind", "members", "seen", "fired"]
    answer_table(faults if as_json else rows, columns, as_json=as_json)


@command.command("remove", epilog=examples("kafkalite faults remove 1"))
@click.argument("fault", type=click.IntRange(1, 2**63))
@reach
def remove(fault: int, admin_url: str, token: str | None) -> None:
    """Remove the fault with the id FAULT. What it held goes on."""
    told = ask(admin_url, token, "DELETE", f"/faults/{fault}")
    say(f"fault {fault} is removed. It struck {told['fired']} of {told['seen']} calls.")


@command.command("clear", epilog=examples("kafkalite faults clear"))
@reach
def clear(admin_url: str, token: str | None) -> None:
    """Remove all faults."""
    removed = ask(admin_url, token, "DELETE", "/faults")["removed"]
    say(f"{removed} removed.")
