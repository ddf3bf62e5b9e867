"""``kafkalite dev --brokers N``: a cluster to try things out with, a process for each broker."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import click

from ..cluster import Cluster
from .answers import say
from .connecting import key_values
from .failures import ExitCode

if TYPE_CHECKING:
    from typing import Any

_SNIPPETS = """
Python, confluent-kafka, aiokafka, Java: bootstrap.servers={servers}

Shell:
    export KAFKALITE_BOOTSTRAP_SERVERS={servers}
    echo hello | kafkalite produce test
    kafkalite cluster brokers

To see another broker lead:
    kill -9 {pid}
    kafkalite cluster health
"""


@click.command("dev", add_help_option=False)
@click.option("--listen", default="127.0.0.1:9092")
@click.option("--topic", "topics", multiple=True)
@click.option("--set", "pairs", multiple=True)
@click.option("--admin-port", type=click.IntRange(-1, 65535), default=-1)
def _flags(**found: Any) -> dict[str, Any]:
    """Read the flags of ``serve`` that count for a cluster."""
    return found


def run(brokers: int, data_dir: str | None, quiet: bool, words: tuple[str, ...]) -> int:
    """Run so many brokers until SIGINT, SIGTERM or SIGHUP.

    Args:
        brokers: How many.
        data_dir: Where records are kept; ``None`` is a temporary directory.
        quiet: Whether examples are left out.
        words: Flags as of ``kafkalite serve``.
    """
    flags = _flags.main(list(words), prog_name="kafkalite dev --brokers", standalone_mode=False)
    host, port = _host_port(flags["listen"])
    config = key_values(flags["pairs"], "--set")
    partitions = config.get("num.partitions", "1")
    cluster = Cluster(
        brokers,
        host=host,
        port=port,
        data_dir=data_dir,
        topics=dict(_topic(word, partitions) for word in flags["topics"]),
        config=config,
        admin_port=None if flags["admin_port"] < 0 else flags["admin_port"],
        in_process=False,
    )
    ended = threading.Event()
    for end in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # `nohup` has SIGHUP ignored, and it stays so.
        if signal.getsignal(end) != signal.SIG_IGN:
            signal.signal(end, lambda *_: ended.set())
    with cluster:
        for number, broker in enumerate(cluster.brokers):
            say(f"broker {number}  {broker.bootstrap_servers}  pid {broker.pid}")
        if not quiet:
            first = cluster.brokers[0]
            say(_SNIPPETS.format(servers=cluster.bootstrap_servers, pid=first.pid))
        for broker in cluster.brokers:
            click.echo(f"ready: {broker.bootstrap_servers}")
        ended.wait()
    return ExitCode.DONE


def _host_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT", param_hint="--listen")
    return host.strip("[]"), int(port)


def _topic(word: str, partitions: str) -> tuple[str, int]:
    name, colon, count = word.partition(":")
    count = count if colon else partitions
    if not (count.isascii() and count.isdigit() and int(count) > 0):
        raise click.BadParameter(f"{word!r} is not NAME or NAME:PARTITIONS", param_hint="--topic")
    return name, int(count)
