"""``kafkalite faults``: make a broker under test fail on purpose, over its admin port."""

from __future__ import annotations

import http.client
import math
import re
import urllib.error
import urllib.request
from http import HTTPStatus
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

#: A partition's number, as far as 32 bits have digits.
_NUMBER = re.compile("[0-9]{1,9}")
#: A version of an API, in 16 bits.
_VERSION = click.IntRange(0, 2**15 - 1)
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
    "versions",
    "follower",
    "leader",
)


def _chance(_: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Refuse what compares with no bound, so that click lets it through."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is not a number", param=param)
    return value


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
    is_unknown = False

    def send(method: str, path: str, body: bytes) -> tuple[int, str]:
        nonlocal is_unknown
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
                is_unknown = error.code == HTTPStatus.NOT_FOUND
                return error.code, error.read().decode()

    try:
        return send_command(send, method, path, body)
    except (IllegalStateError, InvalidArgumentError) as error:
        name, _, what = str(error).partition(": ")
        code = ExitCode.USAGE if name == "INVALID_REQUEST" else ExitCode.REFUSED
        code = ExitCode.NOT_FOUND if is_unknown else code
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
        "kafkalite faults add versions --api Produce --max-version 7",
        "kafkalite faults add follower --broker 2 --topic orders",
    ),
)
@click.argument("kind", type=click.Choice(_KINDS))
@click.option("--api", help="Kafka's name of the API: Produce, Fetch, ...")
@click.option("--topic", help="Topic that requests must name.")
@click.option("--partition", type=click.IntRange(0), help="Partition of the topic.")
@click.option("--group", help="Group that requests must name.")
@click.option("--client-id", help="client.id of the client; * stands for any characters.")
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
@click.option("--min-version", type=_VERSION, help="Least version of the API that is served.")
@click.option("--max-version", type=_VERSION, help="Newest version of the API that is served.")
@click.option(
    "--broker", type=click.IntRange(0, 2**31 - 1), help="Broker that Fetch or Metadata names."
)
@click.option(
    "--leader-epoch", type=click.IntRange(0, 2**31 - 1), help="Leader epoch that Metadata names."
)
@click.option("--on-call", type=click.IntRange(1, 2**63), help="First call to strike, from 1.")
@click.option("--times", type=click.IntRange(1, 2**63), help="Number of calls to strike.")
@click.option(
    "--probability", type=click.FloatRange(0, 1), callback=_chance, help="Chance of each call."
)
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
    columns = ["id", "kind", "members", "seen", "fired"]
    counts = ("id", "kind", "seen", "fired", "spent", "life")
    rows = [
        {
            **{name: fault[name] for name in columns if name in fault},
            "members": " ".join(
                f"{name}={value}" for name, value in fault.items() if name not in counts
            ),
        }
        for fault in faults
    ]
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


_TO = click.option(
    "--to",
    type=click.IntRange(0, 2**31 - 1),
    metavar="BROKER",
    help="Id of the broker that shall lead. Default: the next replica that is in sync.",
)
_TIMES = click.option(
    "--times",
    type=click.IntRange(0, 2**63),
    default=1,
    show_default=True,
    help="Number of errors of each API, where no other replica is in sync.",
)


def _moved(told: dict[str, Any], as_json: bool) -> None:
    """Show the leaders that moved."""
    rows = [
        {
            "partition": f"{one['topic']}-{one['partition']}",
            "before": one["from"],
            "leader": one["to"],
            "leader_epoch": one["leader_epoch"],
        }
        for one in told["moved"]
    ]
    if as_json:
        return answer_json(told)
    answer_table(rows, ["partition", "before", "leader", "leader_epoch"], as_json=False)
    if told["faults"]:
        say(f"faults in force: {', '.join(map(str, told['faults']))}.")
    return None


@command.command("move-leader", epilog=examples("kafkalite faults move-leader orders:0 --to 2"))
@click.argument("place", metavar="TOPIC:PARTITION")
@_TO
@_TIMES
@json_option
@reach
def move_leader(
    place: str,
    to: int | None,
    times: int,
    as_json: bool,
    admin_url: str,
    token: str | None,
) -> None:
    """Have another in-sync replica lead TOPIC:PARTITION.

    Without another one the same broker leads on in a higher epoch, and answers with
    NOT_LEADER_OR_FOLLOWER first.
    """
    topic, _, number = place.rpartition(":")
    if not topic or _NUMBER.fullmatch(number) is None:
        raise click.UsageError(f"{place!r} is not TOPIC:PARTITION, such as orders:0")
    wanted: dict[str, Any] = {"topic": topic, "partition": int(number), "times": times}
    more = {} if to is None else {"to": to}
    _moved(ask(admin_url, token, "POST", "/leaders/move", wanted | more), as_json)


@command.command("shuffle-leaders", epilog=examples("kafkalite faults shuffle-leaders --seed 7"))
@click.option("--topic", help="Topic whose leaders move. Default: all but internal ones.")
@click.option("--seed", type=click.IntRange(0, 2**63), default=0, help="Seed of the choice.")
@_TIMES
@json_option
@reach
def shuffle_leaders(
    topic: str | None, seed: int, times: int, as_json: bool, admin_url: str, token: str | None
) -> None:
    """Have another in-sync replica lead each partition, chosen by chance."""
    wanted: dict[str, Any] = {"seed": seed, "times": times}
    more = {} if topic is None else {"topic": topic}
    _moved(ask(admin_url, token, "POST", "/leaders/shuffle", wanted | more), as_json)


@command.command("move-coordinator", epilog=examples("kafkalite faults move-coordinator billing"))
@click.argument("group")
@_TO
@_TIMES
@json_option
@reach
def move_coordinator(
    group: str, to: int | None, times: int, as_json: bool, admin_url: str, token: str | None
) -> None:
    """Have another broker coordinate the group GROUP."""
    wanted: dict[str, Any] = {"group": group, "times": times}
    more = {} if to is None else {"to": to}
    _moved(ask(admin_url, token, "POST", "/coordinators/move", wanted | more), as_json)
