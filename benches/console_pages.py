"""How long each page of the admin port takes beside many partitions and groups.

    python benches/console_pages.py            # 10,000 partitions, 1,000 groups; 1 above 100 ms
    python benches/console_pages.py --write    # also writes benches/results/DATE-console-pages.md

Each path that the console asks for is asked with the limits that it has there, and so are the
pages of metrics. One group has offsets of every partition. Paths come in turns, so that a stall of
the machine meets each of them alike. The first answer is not counted. The CPU time is that of the
broker and of the reader, which are one process. On a busy machine it says what a page costs.
"""

from __future__ import annotations

import argparse
import datetime
import http.client
import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

import kafkalite as kl

RESULTS = Path(__file__).resolve().parent / "results"
TOPICS = 10
#: What the median of each page has to stay below.
MOST_MS = 100.0
PATIENCE_S = 60.0
#: Groups whose offsets are under way at once.
AT_ONCE = 50

#: The paths below the admin address. ``many-3`` has records, ``all`` offsets of every partition.
PAGES = (
    "/console",
    "/api/v1/overview",
    "/api/v1/topics?limit=50",
    "/api/v1/topics?limit=50&search=many-7",
    "/api/v1/topics/many-3?limit=100",
    "/api/v1/topics/many-3/config",
    "/api/v1/topics/many-3/messages?partition=3&limit=50",
    "/api/v1/topics/many-3/partitions/3/segments?limit=100",
    "/api/v1/groups?limit=50",
    "/api/v1/groups?limit=50&search=9",
    "/api/v1/groups/group-5?limit=100",
    "/api/v1/groups/all?limit=100",
    "/api/v1/groups/all?limit=1000",
    "/api/v1/clients?limit=100",
    "/api/v1/client-metrics?limit=100",
    "/api/v1/requests?limit=100",
    "/api/v1/config",
    "/api/v1/log?limit=300",
    "/api/v1/cluster",
    "/api/v1/faults",
    "/api/v1/clock",
    "/api/v1/snapshots",
    "/api/v1/forks",
    "/api/v1/explain",
    "/metrics",
    "/metrics/topics",
    "/metrics/groups",
    "/metrics/clients",
)


def names(partitions: int) -> dict[str, int]:
    """Return topics that have so many partitions together."""
    return {f"many-{number}": partitions // TOPICS for number in range(TOPICS)}


def fill(broker: kl.Broker, topics: dict[str, int], groups: int) -> None:
    """Write records, and commit offsets of groups that have no members."""
    with kl.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(500):
            producer.send("many-3", b"x" * 100, partition=number % min(10, topics["many-3"]))
        producer.flush()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    every = [TopicPartition(name, at, 0) for name, of in topics.items() for at in range(of)]
    wanted = [ConsumerGroupTopicPartitions("all", every)]
    for number in range(groups - 1):
        some = [TopicPartition(f"many-{one}", number % topics["many-3"], 3) for one in (3, 4, 5)]
        wanted.append(ConsumerGroupTopicPartitions(f"group-{number}", some))
    for start in range(0, groups, AT_ONCE):
        asked = wanted[start : start + AT_ONCE]
        # A call takes one group.
        for answer in [admin.alter_consumer_group_offsets([one])[one.group_id] for one in asked]:
            answer.result(PATIENCE_S)


@dataclass
class Answers:
    """What the answers of one page took."""

    #: Until the last byte, in ms.
    times: list[float] = field(default_factory=list)
    #: CPU time, in ms.
    cpu: list[float] = field(default_factory=list)
    #: Bytes of the last one.
    size: int = 0


def ask(connection: http.client.HTTPConnection, page: str, answers: Answers) -> None:
    """Ask for a page, and note what it took."""
    began, used = time.perf_counter(), time.process_time()
    connection.request("GET", page)
    answer = connection.getresponse()
    body = answer.read()
    answers.times.append((time.perf_counter() - began) * 1e3)
    answers.cpu.append((time.process_time() - used) * 1e3)
    answers.size = len(body)
    if answer.status != http.client.OK:
        raise AssertionError(f"{page}: {answer.status} {body[:200]!r}")


def measured(broker: kl.Broker, rounds: int) -> dict[str, Answers]:
    """Return what each page took, without its first answer."""
    address = urlsplit(broker.admin_url or "")
    connection = http.client.HTTPConnection(str(address.hostname), address.port, PATIENCE_S)
    for page in PAGES:
        ask(connection, page, Answers())
    found = {page: Answers() for page in PAGES}
    for _ in range(rounds):
        for page, answers in found.items():
            ask(connection, page, answers)
    connection.close()
    return found


def table(found: dict[str, Answers]) -> list[str]:
    """Return the rows of a table in Markdown."""
    rows = ["| page | median ms | p99 ms | CPU ms, median | bytes |", "|---|---|---|---|---|"]
    for page, answers in found.items():
        times = sorted(answers.times)
        p99 = times[min(len(times) - 1, len(times) * 99 // 100)]
        median, cpu = statistics.median(times), statistics.median(answers.cpu)
        rows.append(f"| `{page}` | {median:.1f} | {p99:.1f} | {cpu:.1f} | {answers.size:,} |")
    return rows


def main() -> int:
    """Measure, print, and say whether each median is below the bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--write", action="store_true", help="write a file into results")
    options = parser.parse_args()
    topics = names(options.partitions)
    with kl.Broker(admin_port=0, topics=topics) as broker:
        fill(broker, topics, options.groups)
        before = os.getloadavg()[0]
        found = measured(broker, options.rounds)
        load = f"{before:.1f} before, {os.getloadavg()[0]:.1f} after"
    slow = [page for page, one in found.items() if statistics.median(one.times) > MOST_MS]
    said = [
        f"`python benches/console_pages.py --partitions {options.partitions} "
        f"--groups {options.groups} --rounds {options.rounds}`: {len(found)} pages, each asked "
        f"{options.rounds} times,",
        f"on {os.cpu_count()} cores ({platform.machine()}), load {load}.",
        "",
        *table(found),
        "",
        f"Medians above {MOST_MS:.0f} ms: {', '.join(slow) or 'none'}.",
    ]
    print("\n".join(said))
    if options.write:
        today = datetime.datetime.now(tz=datetime.UTC).date()
        title = f"# Pages beside many partitions and groups, {today}"
        path = RESULTS / f"{today}-console-pages.md"
        path.write_text("\n".join([title, "", *said, ""]))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
