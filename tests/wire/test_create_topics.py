"""CreateTopics (19): names, counts, assignments and configs, right and wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.requests import create
from tests.harness.session import Session
from tests.harness.wire.versions import edges


def error_of(s: Session, **topic: Any) -> int:
    """The error of one topic with a name of its own, or with the one given."""
    (one,) = create(s, {"Name": s.name(), **topic})
    return int(one["ErrorCode"])


@pytest.mark.parametrize("version", edges("CreateTopics"))
def test_a_topic_is_created_in_version(s: Session, version: int) -> None:
    name = s.name()
    create(s, {"Name": name, "NumPartitions": 3}, version=version)
    assert len(s.metadata(name)["Partitions"]) == 3


@pytest.mark.parametrize(
    ("name", "error"),
    [("", 17), (".", 17), ("..", 17), ("a b", 17), ("a/b", 17), ("ä", 17), ("x" * 250, 17)],
)
def test_an_odd_name_is_refused(s: Session, name: str, error: int) -> None:
    assert error_of(s, Name=name) == error


def test_a_topic_that_exists_is_refused(s: Session) -> None:
    assert error_of(s, Name=s.topic()) == 36


def test_names_that_differ_by_dot_and_underscore_collide(s: Session) -> None:
    name = s.name()
    assert [error_of(s, Name=name + "a.b"), error_of(s, Name=name + "a_b")] == [0, 17]


def test_a_name_twice_in_one_request_is_refused_and_the_others_are_created(s: Session) -> None:
    twice, once = s.name(), s.name()
    answer = s.call("CreateTopics", 4, timeoutMs=1000, Topics=[
        {"Name": name, "NumPartitions": 1, "ReplicationFactor": 1} for name in (twice, twice, once)
    ])  # fmt: skip
    assert {one["Name"]: one["ErrorCode"] for one in answer["Topics"]} == {twice: 42, once: 0}


@pytest.mark.parametrize(("count", "error"), [(-1, 0), (0, 37), (-2, 37), (-(2**31), 37)])
def test_the_number_of_partitions_is_checked(s: Session, count: int, error: int) -> None:
    assert error_of(s, NumPartitions=count) == error


@pytest.mark.parametrize(("factor", "error"), [(-1, 0), (1, 0), (0, 38), (2, 38), (-2, 38)])
def test_the_replication_factor_is_checked(s: Session, factor: int, error: int) -> None:
    assert error_of(s, ReplicationFactor=factor) == error


@pytest.mark.parametrize(
    ("indexes", "brokers", "error"),
    [([0], [1], 0), ([0, 1], [1], 0), ([0, 2], [1], 39), ([0, 0], [1], 39), ([0], [99], 39),
     ([0], [], 39), ([0], [1, 1], 39)],
)  # fmt: skip
def test_assignments_are_checked(
    s: Session, indexes: list[int], brokers: list[int], error: int
) -> None:
    given = [{"PartitionIndex": i, "BrokerIds": brokers} for i in indexes]
    assert error_of(s, Assignments=given, NumPartitions=-1, ReplicationFactor=-1) == error


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("retention.ms", "1000", 0),
        ("retention.ms", "-1", 0),
        ("retention.ms", "-2", 40),
        ("retention.ms", "abc", 40),
        ("retention.ms", None, 40),
        ("no.such.key", "1", 40),
        ("cleanup.policy", "shred", 40),
        ("cleanup.policy", "compact,delete", 0),
        ("segment.bytes", "1", 40),
        ("compression.type", "brotli", 40),
        ("preallocate", "perhaps", 40),
    ],
)
def test_configs_are_checked(s: Session, key: str, value: str | None, error: int) -> None:
    assert error_of(s, Configs=[{"Name": key, "Value": value}]) == error


def test_a_topic_that_is_only_validated_is_not_there(s: Session) -> None:
    name = s.name()
    (good,) = create(s, {"Name": name}, validate=True)
    (bad,) = create(s, {"Name": s.name(), "NumPartitions": 0}, validate=True)
    assert [good["ErrorCode"], bad["ErrorCode"], s.metadata(name)["ErrorCode"]] == [0, 37, 3]
