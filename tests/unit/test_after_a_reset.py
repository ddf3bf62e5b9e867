"""What a client of the time before a reset may still do, and what a broker then promises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import kafkalite
from kafkalite.errors import InvalidArgumentError
from tests.harness.requests import batch, producer
from tests.harness.session import Session


@contextmanager
def session(broker: kafkalite.Broker) -> Iterator[Session]:
    """A connection to a broker."""
    opened = Session(broker.bootstrap_servers, "reset")
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.parametrize("in_process", [True, False])
def test_a_producer_never_gets_the_id_of_one_that_outlived_a_reset(in_process: bool) -> None:
    """Its records were taken for those of the other one: acknowledged, and in no log."""
    with kafkalite.Broker(in_process=in_process, topics={"t": 1}, admin_port=0) as broker:
        snapshot = broker.snapshot()
        with session(broker) as s:
            old, _ = producer(s)
            assert s.produce("t", batch(old, 0, 0, 3))["ErrorCode"] == 0
        given = {old}
        for _ in range(2):
            broker.reset(snapshot)
            with session(broker) as s:
                new, _ = producer(s)
                assert new not in given
                given.add(new)
                assert s.produce("t", batch(new, 0, 0, 2))["BaseOffset"] == 0
                # The old one goes on where it was.
                assert s.produce("t", batch(old, 0, 3))["BaseOffset"] == 2
                assert s.list_offset("t", -1)["Offset"] == 3


def test_an_id_that_a_log_takes_is_not_given_out_later() -> None:
    with kafkalite.Broker(topics={"t": 1}) as broker, session(broker) as s:
        first, _ = producer(s)
        # Of another cluster, or of another life of this one.
        for strange in (first + 1, first + 5_000, 2**63 - 1):
            assert s.produce("t", batch(strange, 0, 0))["ErrorCode"] == 0
        assert producer(s)[0] == first + 5_001


@pytest.mark.parametrize("in_process", [True, False])
@pytest.mark.parametrize("how", ["restart", "reset"])
def test_a_handle_of_an_earlier_life_reaches_nothing(in_process: bool, how: str) -> None:
    """Numbers begin again: it removed the first fault that the new broker got."""
    with kafkalite.Broker(in_process=in_process, topics={"t": 1}, admin_port=0) as broker:
        snapshot = broker.snapshot()
        old = broker.faults.delay(1, api="Heartbeat")
        recorded, discarded = broker.record(), broker.record()
        if how == "reset":
            broker.reset(snapshot)
        else:
            broker.restart()
        new = broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic="t", times=1)
        recording = broker.record()
        assert new.id == old.id
        for gone in (lambda: old.fired, lambda: recorded.requests, recorded.stop):
            with pytest.raises(InvalidArgumentError, match="started again"):
                gone()
        old.remove()
        discarded.discard()
        with session(broker) as s:
            assert s.produce("t", batch(-1, -1, -1))["ErrorCode"] == 6
        assert (new.fired, [fault.id for fault in broker.faults]) == (1, [new.id])
        assert [request.api for request in recording.requests] == ["Produce"]


def test_a_block_with_a_fault_may_restart_the_broker() -> None:
    with kafkalite.Broker(topics=["t"]) as broker:
        with broker.faults.stall("log"):
            broker.restart()
            kept = broker.faults.delay(1)
        assert [fault.id for fault in broker.faults] == [kept.id]
