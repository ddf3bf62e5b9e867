"""``kafkalite dev``: a broker to try things out with, and lines to paste."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack

import click

from ..broker import serve
from .answers import say
from .ending import by_default
from .helping import examples

_SNIPPETS = """
Python:
    import kafkalite as kl
    with kl.Producer(bootstrap_servers="{servers}") as producer:
        producer.send("test", b"hello").result(timeout=5)
    with kl.Consumer("test", group_id="g", bootstrap_servers="{servers}",
                     auto_offset_reset="earliest") as consumer:
        print(consumer.poll(timeout=5).value)

confluent-kafka: {{"bootstrap.servers": "{servers}"}}
aiokafka, kafka-python: bootstrap_servers="{servers}"
Java, Spark: bootstrap.servers={servers}

Shell:
    echo hello | kafkalite produce test -b {servers}
    kafkalite consume test -b {servers} --from-beginning
    kcat -b {servers} -L
"""


@click.command(
    "dev",
    context_settings={
        "ignore_unknown_options": True,
        "allow_extra_args": True,
    },
    epilog="All other flags are those of `kafkalite serve`: --listen, --topic NAME[:N], --set "
    "KEY=VALUE and so on.\n\n"
    + examples(
        "kafkalite dev",
        "kafkalite dev --topic orders:3 --listen 127.0.0.1:0",
        "kafkalite dev --brokers 3",
    ),
)
@click.option(
    "--data-dir",
    metavar="DIR",
    help="Directory of the records. Default: a temporary directory, deleted on exit.",
)
@click.option("--quiet", "-q", is_flag=True, help="Do not print example code.")
@click.option(
    "--brokers",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    help="Number of brokers. Several form a cluster, on ports from that of --listen on.",
)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def command(data_dir: str | None, quiet: bool, brokers: int, flags: tuple[str, ...]) -> int:
    """Run a broker to try things out with.

    Groups form without a delay. Topics are created on first use. Without --data-dir, records are
    deleted on exit.
    """
    if brokers > 1:
        from .dev_cluster import run

        return run(brokers, data_dir, quiet, flags)

    def ready(servers: str, admin_url: str | None) -> None:
        if not quiet:
            say(_SNIPPETS.format(servers=servers))

    with ExitStack() as stack:
        # What is said later is stronger: --admin-port in the flags wins.
        words = ["--profile", "dev", "--admin-port", "0"]
        if data_dir is None:
            directory = tempfile.TemporaryDirectory(prefix="kafkalite-dev-")
            data_dir = stack.enter_context(directory)
            # What is thrown away need not survive a power cut.
            words += ["--set", "kafkalite.disk.sync=false"]
        stack.enter_context(by_default())
        return serve([*words, "--data-dir", data_dir, *flags], on_ready=ready)
