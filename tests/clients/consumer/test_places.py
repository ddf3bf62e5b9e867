"""Where a consumer reads: seeking, pausing, times, ends, offsets out of range, commits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from kafkalite import CommittedOffset, ListedOffset, TopicPartition, errors
from tests.clients.consumer.consuming import PATIENCE_S, Cluster, numbered, part, read, values


def test_a_seek_leads_to_that_record(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(10))
    with cluster.consumer() as consumer:
        consumer.assign([part(topic)])
        consumer.seek(part(topic), 7)
        assert values(read(consumer, 3)) == numbered(10)[7:]
        consumer.seek_to_beginning()
        assert values(read(consumer, 2)) == numbered(2)
        consumer.seek(part(topic), CommittedOffset(4))
        assert consumer.position(part(topic)) == 4
        consumer.seek_to_end()
        assert consumer.position(part(topic)) == 10
        assert consumer.poll(0) is None


def test_a_position_moves_with_what_was_handed_out(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(10))
    with cluster.consumer(topic) as consumer:
        read(consumer, 3)
        assert consumer.position(part(topic)) == 3
        assert consumer.lag() == {part(topic): 7}
        consumer.poll(PATIENCE_S)
        assert consumer.position(part(topic)) == 4


def test_the_lag_of_an_idle_partition_comes_back_when_it_is_assigned_again(
    cluster: Cluster,
) -> None:
    """It stayed unknown until a record came: the broker had told its end, and told it only once."""
    topic = cluster.topic(2)
    both = [part(topic, 0), part(topic, 1)]

    def lag_comes() -> None:
        deadline = time.monotonic() + PATIENCE_S
        while consumer.lag() != dict.fromkeys(both, 0):
            assert time.monotonic() < deadline, consumer.lag()
            assert consumer.poll(0.1) is None

    with cluster.consumer() as consumer:
        consumer.assign(both)
        lag_comes()
        consumer.assign(both[:1])
        consumer.assign(both)
        lag_comes()


def test_a_paused_partition_is_held_back_until_it_is_resumed(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    cluster.write(topic, numbered(5), partition=0)
    cluster.write(topic, numbered(5, "w"), partition=1)
    with cluster.consumer(topic) as consumer:
        read(consumer, 1)
        consumer.pause(part(topic, 0))
        assert consumer.paused() == [part(topic, 0)]
        rest = consumer.consume(20, timeout=0.6) + consumer.consume(20, timeout=0.6)
        assert {record.partition for record in rest} <= {1}
        consumer.resume()
        assert consumer.paused() == []
        everything = rest + read(consumer, 9 - len(rest))
        assert {record.partition for record in everything} == {0, 1}


def test_times_lead_to_the_first_record_that_is_as_new(cluster: Cluster) -> None:
    topic = cluster.topic()
    now = time.time_ns() // 1_000_000
    for age in (3_000, 2_000, 1_000):
        cluster.write(topic, [str(age).encode()], timestamp=now - age)
    with cluster.consumer(topic) as consumer:
        found = consumer.offsets_for_times({part(topic): now - 2_500})
        assert found == {part(topic): ListedOffset(1, now - 2_000, 0)}
        assert consumer.offsets_for_times({part(topic): now + 9_000}) == {part(topic): None}
        read(consumer, 1)
        consumer.seek_to_time(now - 1_500)
        assert values(read(consumer, 1)) == [b"1000"]


def test_ends_and_partitions_are_known_for_topics_that_are_not_read(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    cluster.write(topic, numbered(3), partition=1)
    with cluster.consumer() as consumer:
        both = [part(topic, 0), part(topic, 1)]
        assert consumer.end_offsets(*both) == {both[0]: 0, both[1]: 3}
        assert consumer.beginning_offsets(*both) == {both[0]: 0, both[1]: 0}
        assert consumer.partitions_for(topic) == [0, 1]


def delete_records(cluster: Cluster, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    place = Place(topic, 0, before)
    deleted = admin.delete_records([place])
    deleted[place].result(PATIENCE_S)


@pytest.mark.parametrize(("policy", "expected"), [("earliest", b"v6"), ("latest", b"new")])
def test_an_offset_that_is_gone_leads_where_the_policy_says(
    cluster: Cluster, policy: str, expected: bytes
) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(10))
    delete_records(cluster, topic, 6)
    with cluster.consumer(auto_offset_reset=policy) as consumer:
        consumer.assign([part(topic)])
        consumer.seek(part(topic), 2)
        if policy == "latest":
            # The end that it is led to is the one before the new record.
            deadline = time.monotonic() + PATIENCE_S
            while consumer.position(part(topic)) != 10:
                assert time.monotonic() < deadline
                assert consumer.poll(0.05) is None
            cluster.write(topic, [b"new"])
        assert values(read(consumer, 1)) == [expected]


def test_without_a_policy_an_offset_that_is_gone_is_an_error(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.write(topic, numbered(10))
    delete_records(cluster, topic, 6)
    with cluster.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([part(topic)])
        with pytest.raises(errors.NoOffsetError):
            consumer.poll(PATIENCE_S)
        consumer.seek(part(topic), 2)
        for _ in range(2):
            with pytest.raises(errors.OffsetOutOfRangeError, match=f"{topic}-0 at offset 2"):
                consumer.poll(PATIENCE_S)
        consumer.seek(part(topic), 6)
        assert values(read(consumer, 1)) == [b"v6"]


def test_what_was_committed_is_where_the_group_goes_on(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(10))
    settings: dict[str, Any] = {"group_id": group, "enable_auto_commit": False}
    with cluster.consumer(topic, **settings) as consumer:
        record = read(consumer, 4)[-1]
        assert consumer.committed() == {}
        consumer.commit(record)
        assert consumer.committed() == {part(topic): CommittedOffset(4, 0)}
        consumer.commit({part(topic): CommittedOffset(3, 0, "note")})
        assert consumer.committed(part(topic)) == {part(topic): CommittedOffset(3, 0, "note")}
    with cluster.consumer(topic, **settings) as consumer:
        assert values(read(consumer, 1)) == [b"v3"]


def test_a_commit_in_the_background_reports_its_end(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(3))
    told = threading.Event()
    ends: list[errors.KafkaliteError | None] = []

    def callback(error: errors.KafkaliteError | None) -> None:
        ends.append(error)
        told.set()

    with cluster.consumer(topic, group_id=group, enable_auto_commit=False) as consumer:
        read(consumer, 3)
        consumer.commit_async(callback=callback)
        assert told.wait(PATIENCE_S)
        assert ends == [None]
        consumer.commit_async({part(topic): 1})
    with cluster.consumer(group_id=group) as consumer:
        assert consumer.committed(part(topic))[part(topic)].offset == 1


def test_the_callback_of_a_call_that_has_ended_is_called_on_the_thread_for_callbacks(
    cluster: Cluster,
) -> None:
    """A quick commit called it on the thread of ``commit_async``, and was held up by it."""
    called = threading.Event()
    on: list[int] = []

    def note() -> None:
        on.append(threading.get_ident())
        called.set()

    with cluster.consumer() as consumer:
        ended = consumer._native.partitions(cluster.topic(), PATIENCE_S)
        assert ended.result(PATIENCE_S) == [0]
        ended.add_done_callback(note)
        assert called.wait(PATIENCE_S)
    assert on != [threading.get_ident()]


def test_a_callback_that_takes_its_time_holds_up_nothing(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(3))
    called, go_on = threading.Event(), threading.Event()
    ends: list[bool] = []

    def slow(error: errors.KafkaliteError | None) -> None:
        called.set()
        ends.append(go_on.wait(PATIENCE_S))

    with cluster.consumer(topic, group_id=group, enable_auto_commit=False) as consumer:
        read(consumer, 3)
        consumer.commit_async(callback=slow)
        assert called.wait(PATIENCE_S)
        # The client's own thread asks the broker while the callback lasts.
        assert consumer.committed(part(topic))[part(topic)].offset == 3
        consumer.commit({part(topic): 1})
        assert ends == []
        go_on.set()
    # Closing waits for it.
    assert ends == [True]


def test_commits_by_hand_assignment_need_no_membership(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(5))
    for begin in (0, 2):
        with cluster.consumer(group_id=group, enable_auto_commit=False) as consumer:
            consumer.assign([part(topic)])
            assert values(read(consumer, 2)) == numbered(5)[begin : begin + 2]
            consumer.commit()


def test_calls_that_make_no_sense_say_so(cluster: Cluster) -> None:
    topic = cluster.topic()
    with cluster.consumer(topic) as consumer:
        strange = TopicPartition(topic, 9)
        wrong: list[Callable[[], object]] = [
            lambda: consumer.seek(strange, 0),
            lambda: consumer.pause(strange),
            lambda: consumer.position(strange),
            lambda: consumer.assign([strange]),
            lambda: consumer.commit({strange: 0}),
            lambda: consumer.committed(strange),
        ]
        for call in wrong:
            with pytest.raises(errors.IllegalStateError):
                call()
        with pytest.raises(errors.InvalidArgumentError):
            consumer.seek(part(topic), -5)
        with pytest.raises(errors.UnknownTopicError):
            consumer.end_offsets(strange, timeout=0.5)


def test_automatic_commits_hold_what_earlier_calls_handed_out(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(10))
    with (
        cluster.consumer(group_id=group) as other,
        cluster.consumer(topic, group_id=group, auto_commit_interval_ms=50) as consumer,
    ):

        def committed() -> int:
            found = other.committed(part(topic))
            return found[part(topic)].offset if found else 0

        def wait_for(offset: int) -> None:
            deadline = time.monotonic() + PATIENCE_S
            while committed() < offset:
                assert time.monotonic() < deadline, committed()

        read(consumer, 3)
        # The records of the call before the last are done when the last one began.
        read(consumer, 2)
        wait_for(3)
        assert committed() == 3
        consumer.poll(PATIENCE_S)
        wait_for(5)
        assert committed() == 5


@pytest.mark.parametrize(("fails", "expected"), [(False, 3), (True, 2)])
def test_closing_commits_what_was_handed_out_unless_the_program_failed(
    cluster: Cluster, fails: bool, expected: int
) -> None:
    topic, group = cluster.topic(), cluster.group()
    cluster.write(topic, numbered(10))
    consumer = cluster.consumer(topic, group_id=group)
    try:
        with consumer:
            for _ in range(3):
                consumer.poll(PATIENCE_S)
            if fails:
                raise LookupError
    except LookupError:
        pass
    with cluster.consumer(group_id=group) as other:
        assert other.committed(part(topic))[part(topic)].offset == expected
