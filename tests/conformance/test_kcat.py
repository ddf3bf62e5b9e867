"""kcat, the command line of librdkafka: every mode, over every codec."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.harness.brokers import Broker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Kcat:
    """Runs kcat against one broker."""

    def __init__(self, binary: str, broker: Broker) -> None:
        self.base = [binary, "-b", broker.bootstrap, "-X", "topic.metadata.refresh.sparse=true"]

    def __call__(self, *arguments: str, stdin: str = "", timeout: float = 60) -> str:
        done = subprocess.run(
            [*self.base, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"kcat {' '.join(arguments)}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def run(kcat: str, broker: Broker) -> Kcat:
    """kcat bound to the broker under judgement."""
    return Kcat(kcat, broker)


def lines(count: int) -> list[str]:
    """Keyed lines that compress well and differ."""
    return [f"key{i % 17}:value {i} {'x' * (i % 200)}" for i in range(count)]


@pytest.mark.parametrize("codec", CODECS)
def test_what_kcat_produces_it_reads_back_with_checked_crcs(
    run: Kcat, unique: Callable[[str], str], codec: str
) -> None:
    topic = unique(f"kcat-{codec}")
    sent = lines(2_000)
    run("-P", "-t", topic, "-p", "0", "-z", codec, "-K", ":", stdin="\n".join(sent) + "\n")
    got = run(
        "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q",
        "-X", "check.crcs=true", "-f", "%k:%s\n",
    )  # fmt: skip
    assert got.splitlines() == sent


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_kcat_produces_under_every_acks(run: Kcat, unique: Callable[[str], str], acks: str) -> None:
    topic = unique(f"kcat-acks-{acks}")
    run("-L", "-t", topic)
    sent = lines(300)
    run(
        "-P", "-t", topic, "-p", "1", "-K", ":", "-X", f"acks={acks}",
        stdin="\n".join(sent) + "\n",
    )  # fmt: skip
    deadline = time.monotonic() + 30
    got: list[str] = []
    while len(got) < len(sent) and time.monotonic() < deadline:
        got = run(
            "-C", "-t", topic, "-p", "1", "-o", "beginning", "-e", "-q", "-f", "%k:%s\n"
        ).splitlines()
    assert got == sent


def test_the_idempotent_producer_of_kcat_delivers_in_order(
    run: Kcat, unique: Callable[[str], str]
) -> None:
    topic = unique("kcat-idempotent")
    sent = lines(3_000)
    run(
        "-P", "-t", topic, "-p", "0", "-K", ":", "-X", "enable.idempotence=true",
        "-X", "batch.num.messages=100", stdin="\n".join(sent) + "\n",
    )  # fmt: skip
    got = run("-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%k:%s\n")
    assert got.splitlines() == sent


def test_the_listing_names_the_broker_and_the_partitions_of_a_topic(
    run: Kcat, broker: Broker, unique: Callable[[str], str]
) -> None:
    topic = unique("kcat-list")
    run("-P", "-t", topic, stdin="one\n")
    listing = json.loads(run("-L", "-J", "-t", topic))
    assert [one["name"] for one in listing["brokers"]] == [broker.bootstrap]
    (found,) = [one for one in listing["topics"] if one["topic"] == topic]
    assert len(found["partitions"]) == 4
    assert all(one["leader"] == listing["brokers"][0]["id"] for one in found["partitions"])


def test_a_group_of_kcat_reads_everything_once_and_goes_on_where_it_stopped(
    run: Kcat, unique: Callable[[str], str]
) -> None:
    topic, group = unique("kcat-group"), unique("kcat-g")
    read = ("-G", group, topic, "-e", "-q", "-X", "auto.offset.reset=earliest", "-f", "%s\n")
    first = [f"first {i}" for i in range(500)]
    second = [f"second {i}" for i in range(500)]
    run("-P", "-t", topic, stdin="\n".join(first) + "\n")
    assert sorted(run(*read).splitlines()) == sorted(first)
    run("-P", "-t", topic, stdin="\n".join(second) + "\n")
    assert sorted(run(*read).splitlines()) == sorted(second)


def test_a_query_by_time_answers_the_first_offset_at_or_after_it(
    run: Kcat, unique: Callable[[str], str]
) -> None:
    topic = unique("kcat-query")
    run("-P", "-t", topic, "-p", "0", stdin="a\nb\n")
    time.sleep(0.05)
    between_ms = int(time.time() * 1000)
    time.sleep(0.05)
    run("-P", "-t", topic, "-p", "0", stdin="c\n")
    for stamp, offset in ((0, 0), (between_ms, 2), (-2, 0), (-1, 3)):
        answer = run("-Q", "-t", f"{topic}:0:{stamp}").strip()
        assert answer.endswith(f"offset {offset}"), f"{stamp}: {answer}"


def test_headers_and_null_values_pass_through_kcat(run: Kcat, unique: Callable[[str], str]) -> None:
    topic = unique("kcat-headers")
    run("-P", "-t", topic, "-p", "0", "-K", ":", "-Z", "-H", "a=1", "-H", "b=2", stdin="k:\n")
    answer = run("-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-J")
    record = json.loads(answer)
    assert (record["key"], record["payload"]) == ("k", None)
    assert record["headers"] == ["a", "1", "b", "2"]
