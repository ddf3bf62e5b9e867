"""Planning is pure: from offsets and limits to the ranges of tasks."""

from __future__ import annotations

import random

import pytest

from kafkalite_spark.offsets import Offsets, from_json, to_json
from kafkalite_spark.plan import Range, limited, ranges_between, size_of, tasks


def at(*offsets: int, topic: str = "t") -> Offsets:
    return {(topic, number): offset for number, offset in enumerate(offsets)}


def covered(planned: list[list[Range]]) -> list[tuple[str, int, int]]:
    """Every offset of every task, in order."""
    return sorted(
        (one.topic, one.partition, offset)
        for task in planned
        for one in task
        for offset in range(one.start, one.end)
    )


def test_offsets_are_written_in_order_so_that_spark_finds_equal_ones_equal() -> None:
    told = to_json({("b", 0): 1, ("a", 10): 2, ("a", 9): 3})
    assert list(told) == ["a", "b"]
    assert list(told["a"].items()) == [("9", 3), ("10", 2)]
    assert from_json(told) == {("b", 0): 1, ("a", 10): 2, ("a", 9): 3}


def test_ranges_lie_between_offsets_and_empty_ones_are_left_out() -> None:
    ranges = ranges_between(at(0, 5, 9), at(3, 5, 4))
    assert ranges == [Range("t", 0, 0, 3)]


def test_a_partition_without_a_start_is_not_read_yet() -> None:
    assert ranges_between(at(0), at(3, 7)) == [Range("t", 0, 0, 3)]


@pytest.mark.parametrize(
    ("waiting", "most", "expected"),
    [
        ((10, 10), 100, (10, 10)),
        ((100, 300), 40, (10, 30)),
        ((100, 0), 40, (40, 0)),
        # One of each goes, however few are allowed.
        ((1000, 1), 2, (1, 1)),
        ((5, 5, 5), 1, (1, 1, 1)),
    ],
)
def test_a_limit_is_shared_in_proportion_and_starves_no_partition(
    waiting: tuple[int, ...], most: int, expected: tuple[int, ...]
) -> None:
    assert limited(at(*[0] * len(waiting)), at(*waiting), most) == at(*expected)


def test_a_limit_is_used_up_and_never_passed_where_each_partition_has_its_one() -> None:
    draw = random.Random(7)
    for _ in range(300):
        waiting = [draw.randrange(0, 500) for _ in range(draw.randrange(1, 9))]
        start = at(*(draw.randrange(0, 1000) for _ in waiting))
        end = {key: start[key] + size for key, size in zip(start, waiting, strict=True)}
        most = draw.randrange(1, 600)
        until = limited(start, end, most)
        busy = sum(size > 0 for size in waiting)
        assert size_of(start, until) <= max(most, busy)
        assert size_of(start, until) >= min(most, sum(waiting))
        assert all(start[key] <= until[key] <= end[key] for key in start)
        assert all(until[key] > start[key] for key in start if end[key] > start[key])


def test_small_partitions_share_a_task() -> None:
    planned = tasks([Range("t", number, 0, 10) for number in range(64)], rows_per_task=320)
    assert [sum(one.size for one in task) for task in planned] == [320, 320]


def test_a_large_partition_is_split_only_where_more_tasks_are_wanted() -> None:
    large = Range("t", 0, 0, 1_000_000)
    assert tasks([large]) == [[large]]
    split = tasks([large], min_partitions=4)
    assert [task[0].size for task in split] == [250_000] * 4


def test_no_task_reads_more_than_it_may() -> None:
    planned = tasks([Range("t", 0, 5, 105), Range("t", 1, 0, 7)], max_records=30)
    assert max(sum(one.size for one in task) for task in planned) <= 30
    assert len(covered(planned)) == 107


def test_every_offset_is_read_once_and_no_partition_twice_in_a_task() -> None:
    draw = random.Random(11)
    for _ in range(300):
        ranges = [
            Range("t", number, start := draw.randrange(50), start + draw.randrange(1, 200))
            for number in range(draw.randrange(1, 12))
        ]
        wanted = draw.choice([None, draw.randrange(1, 30)])
        planned = tasks(
            ranges,
            min_partitions=wanted,
            max_records=draw.choice([None, draw.randrange(1, 100)]),
            rows_per_task=draw.randrange(1, 400),
            bytes_per_task=draw.randrange(1, 400_000),
            parallelism=draw.randrange(1, 9),
        )
        assert covered(planned) == covered([ranges])
        for task in planned:
            assert len({(one.topic, one.partition) for one in task}) == len(task)


def test_as_many_tasks_as_are_wanted_where_there_are_so_many_partitions() -> None:
    small = [Range("t", number, 0, 10) for number in range(8)]
    assert len(tasks(small, min_partitions=4)) == 4
    assert len(tasks(small, min_partitions=8)) == 8


def test_equal_arguments_give_equal_plans_whatever_their_order() -> None:
    ranges = [Range("t", number, 0, 10 + number) for number in range(20)]
    assert tasks(ranges, rows_per_task=50) == tasks(ranges[::-1], rows_per_task=50)


def sizes(planned: list[list[Range]]) -> list[int]:
    return [sum(one.size for one in task) for task in planned]


def test_partitions_share_tasks_only_beyond_those_that_run_at_once() -> None:
    # Eight partitions of twenty large records were one task, where Spark's own has eight.
    small = [Range("t", number, 0, 10 + number) for number in range(8)]
    assert len(tasks(small)) == 1
    assert len(tasks(small, parallelism=8)) == len(tasks(small, parallelism=100)) == 8
    shared = tasks(small, parallelism=3)
    assert len(shared) == 3
    assert max(sizes(shared)) <= 40
    assert covered(shared) == covered([small])


def test_partitions_share_a_task_up_to_its_bytes() -> None:
    large = [Range("t", number, 0, 20) for number in range(8)]
    known = dict.fromkeys([("t", number) for number in range(8)], 500_000.0)
    assert len(tasks(large, record_bytes=known)) == 8
    assert sizes(tasks(large, record_bytes=dict.fromkeys(known, 100_000.0))) == [160]
    assert sizes(tasks(large, record_bytes=dict.fromkeys(known, 200_000.0))) == [80, 80]
    # One is large, the others are not.
    assert sizes(tasks(large, record_bytes={("t", 3): 1_000_000.0})) == [140, 20]


def test_no_task_reads_more_than_it_may_however_many_run_at_once() -> None:
    draw = random.Random(5)
    for _ in range(300):
        most = draw.randrange(5, 60)
        ranges = [Range("t", n, 0, draw.randrange(1, 100)) for n in range(draw.randrange(1, 12))]
        wanted = draw.randrange(1, 12)
        planned = tasks(ranges, max_records=most, parallelism=wanted)
        assert max(sizes(planned)) <= most
        assert len(planned) >= min(wanted, len(ranges))
        assert covered(planned) == covered([ranges])
