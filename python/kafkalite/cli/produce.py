"""``kafkalite produce``: lines to records."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import KafkaliteError, NoBrokerReachable, UnknownTopicError
from . import suggesting
from .answers import answer_json, json_option, plural, progress, say
from .connecting import Cluster, cluster_options, pairs_of
from .escapes import unescaped
from .failures import CommandError, ExitCode
from .helping import examples
from .names_meant import nearest
from .places import PARTITION
from .record_input import FORMS, Columns, Shape, column

if TYPE_CHECKING:
    from ..admin import AdminClient
    from ..producer import BatchDelivery, Producer

#: Deliveries that may be under way before the oldest is looked at.
_MOST_DELIVERIES = 64
#: A line may have so many bytes whatever the largest request; JSON may write six for one.
_LEAST_LINE_BYTES = 16 << 20
_JSON_FACTOR = 8

_EXAMPLES = examples(
    "echo hello | kafkalite produce orders",
    "kafkalite produce orders --file lines.txt -K '\\t'",
    "kafkalite consume orders -e --from-beginning --json | kafkalite produce copy --input jsonl",
)


@click.command("produce", epilog=_EXAMPLES)
@click.argument("topic", shell_complete=suggesting.topics)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File to read instead of stdin.",
)
@click.option(
    "--input",
    "form",
    type=click.Choice(FORMS),
    default="lines",
    show_default=True,
    help="Form of the input. lines: each line is a value. jsonl: each line is a record, as "
    "`consume --json` prints. json: one record, or a list.",
)
@click.option("-K", "--key-separator", help="Separator of key and value in each line.")
@click.option("-k", "--key", help="Key of records without their own key.")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="Header to add to every record (repeatable).",
)
@click.option(
    "-p", "--partition", type=PARTITION, help="Partition of every record. Default: by key."
)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    help="Compression codec (the key compression.type).",
)
@json_option
@cluster_options
def command(
    cluster: Cluster,
    topic: str,
    path: Path | None,
    form: str,
    key_separator: str | None,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    compression: str | None,
    as_json: bool,
) -> None:
    r"""Send each line as a record.

    A line ends at a newline. -K '\t' splits each line at the first tab.
    """
    from ..producer import Producer

    shape = Shape(
        form=form,
        key_separator=None if key_separator is None else _separator(key_separator, form),
        key=None if key is None else os.fsencode(key),
        headers=[(name, os.fsencode(value)) for name, value in pairs_of(headers, "--header")],
        partition=partition,
    )
    keys = {} if compression is None else {"compression_type": compression}
    is_new = _is_missing(cluster, topic, partition)
    meant = nearest(cluster, [topic]) if is_new else None
    started = time.perf_counter()
    with ExitStack() as stack:
        producer = stack.enter_context(Producer(config=cluster.keys(**keys)))
        total = 0 if path is None else path.stat().st_size
        # A bar would disturb the lines that a user types.
        advance = stack.enter_context(progress(f"produce {topic}", total, shown=path is not None))
        descriptor = sys.stdin.fileno() if path is None else os.open(path, os.O_RDONLY)
        if path is not None:
            stack.callback(os.close, descriptor)
        elif sys.stdin.isatty():
            say(_PROMPTS[form].format(topic=topic))
        sender = Sender(producer, topic, is_new, meant)
        for columns, size in shape.read(descriptor, _most_line_bytes(cluster)):
            sender.send(columns)
            advance(size)
        sender.finish()
    seconds = time.perf_counter() - started
    if as_json:
        return answer_json(
            {
                "topic": topic,
                "records": sender.records,
                "seconds": round(seconds, 6),
                "created": is_new and sender.records > 0,
            }
        )
    return say(f"{plural(sender.records, 'record')} sent to {topic} in {seconds:.2f} s")


_PROMPTS = {
    "lines": "type records for {topic}, one a line; Ctrl-D ends",
    "jsonl": "type records for {topic} as JSON objects, one a line; Ctrl-D ends",
    "json": "type a JSON record for {topic}, or a list of records; Ctrl-D ends",
}


def _is_missing(cluster: Cluster, topic: str, partition: int | None) -> bool:
    """Tell whether the topic does not exist, before a record is sent to it.

    Raises:
        CommandError: The topic has no such partition, or would have none when it is created; or
            the brokers create no topics.
    """
    with cluster.admin(beside=True) as admin:
        try:
            count: int | None = len(admin.describe_topic(topic, timeout=cluster.timeout).partitions)
            is_missing = False
        except UnknownTopicError:
            count, is_missing = _count_when_created(admin, cluster), True
    if count is not None and partition is not None and partition >= count:
        has = "would be created with" if is_missing else "has"
        make = f"create {topic} -p" if is_missing else f"add-partitions {topic}"
        raise CommandError(
            f"topic {topic} has no partition {partition}",
            why=[f"the topic {has} {plural(count, 'partition')}, numbered from 0"],
            hint=f"`kafkalite topics {make} {partition + 1}` makes as many as that takes.",
            exit_code=ExitCode.NOT_FOUND,
        )
    return is_missing


def _count_when_created(admin: AdminClient, cluster: Cluster) -> int | None:
    """Return how many partitions a topic gets that is created on first use, if that can be asked.

    Raises:
        UnknownTopicError: The brokers create no topics.
    """
    try:
        broker = admin.describe_cluster(timeout=cluster.timeout).brokers[0].id
        entries = admin.describe_broker_config(broker, timeout=cluster.timeout)
    except NoBrokerReachable:
        raise
    except (KafkaliteError, IndexError):
        # A cluster may refuse the look-up; the producer reports that.
        return None
    creates, count = (entries.get("auto.create.topics.enable"), entries.get("num.partitions"))
    if creates is not None and creates.value == "false":
        raise UnknownTopicError(
            "UNKNOWN_TOPIC_OR_PARTITION: the topic does not exist, and the brokers create none "
            "(auto.create.topics.enable=false)"
        )
    return int(count.value) if count is not None and count.value else None


@dataclass
class Sender:
    """Sends batches and counts their outcomes."""

    producer: Producer
    topic: str
    #: Whether the first record creates the topic.
    is_new: bool = False
    #: An older topic with a name that comes near to the new one.
    meant: str | None = None
    records: int = 0
    _under_way: deque[BatchDelivery] = field(default_factory=deque)

    def send(self, columns: Columns) -> None:
        """Add a batch; waits where too many are under way."""
        if not columns.values:
            return
        delivery = self.producer.send_batch(
            self.topic,
            columns.values,
            keys=columns.keys if any(key is not None for key in columns.keys) else None,
            headers=columns.headers if any(columns.headers) else None,
            partitions=column(columns.partitions),
            timestamps=column(columns.timestamps),
        )
        if self.is_new and not self.records:
            delivery.result()
            count = len(self.producer.partitions_for(self.topic))
            say(f"created topic {self.topic} with {plural(count, 'partition')}")
            if self.meant is not None:
                say(f"hint: did you mean {self.meant}?")
        self.records += len(columns.values)
        self._under_way.append(delivery)
        if len(self._under_way) > _MOST_DELIVERIES:
            self._under_way.popleft().result()

    def finish(self) -> None:
        """Wait for all of them.

        Raises:
            KafkaliteError: The first that failed.
        """
        self.producer.flush()
        for delivery in self._under_way:
            delivery.result()


def _most_line_bytes(cluster: Cluster) -> int:
    """Return how long a line may be: what a record takes, and as much as JSON makes of it."""
    try:
        most = int(cluster.config.get("max.request.size", ""))
    except ValueError:
        most = 0
    return max(_LEAST_LINE_BYTES, _JSON_FACTOR * most)


def _separator(text: str, form: str) -> bytes:
    r"""Return a separator as written in a shell: ``\t`` is a tab."""
    if form != "lines":
        raise click.BadParameter(f"--input {form} has keys of its own", param_hint="-K")
    try:
        separator = unescaped(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint="--key-separator") from None
    if not separator:
        raise click.BadParameter("an empty one splits nothing", param_hint="--key-separator")
    return separator
