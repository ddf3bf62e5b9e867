"""An idle stream asks brokers the less, the longer it is idle, and one that is fed asks at once."""

from __future__ import annotations

import pytest

from kafkalite_spark.pace import MOST_APART_S, Pace

#: Between the answer to a poll and the next poll of an idle query.
SPARKS_DELAY_S = 0.012


def idle_for(seconds: float, found_at: float = 100.0) -> tuple[Pace, float]:
    """Return the pace of a query whose last micro-batch is so long ago, asked just now."""
    pace = Pace()
    pace.asked(found_at, found=True)
    now = found_at + seconds
    pace.asked(now, found=False)
    return pace, now


def test_the_first_poll_asks_at_once() -> None:
    assert Pace().wait_s(100.0) == 0


@pytest.mark.parametrize(
    ("silence", "wait"), [(0.3, 0.0), (1.0, 0.008), (2.0, 0.028), (2.5, 0.038), (3_600.0, 0.038)]
)
def test_polls_wait_until_they_are_a_fiftieth_of_the_silence_apart(
    silence: float, wait: float
) -> None:
    pace, asked = idle_for(silence)
    # The silence is longer by the delay when the poll comes.
    assert pace.wait_s(asked + SPARKS_DELAY_S) == pytest.approx(wait, abs=0.000_3)


def test_a_micro_batch_ends_the_waiting() -> None:
    pace, now = idle_for(3_600.0)
    pace.asked(now, found=True)
    assert pace.wait_s(now + SPARKS_DELAY_S) == 0


def test_polls_of_a_triggers_interval_never_wait() -> None:
    pace, now = idle_for(3_600.0)
    assert pace.wait_s(now + MOST_APART_S) == 0


def test_a_query_of_many_idle_sources_waits_no_longer_than_one() -> None:
    sources = [idle_for(60.0)[0] for _ in range(10)]
    now = 160.0
    rounds = []
    for _ in range(20):
        begun = now
        now += SPARKS_DELAY_S
        for pace in sources:
            now += pace.wait_s(now)
            pace.asked(now, found=False)
        rounds.append(now - begun)
    assert max(rounds) <= MOST_APART_S + SPARKS_DELAY_S


def test_an_idle_hour_asks_about_twenty_times_a_second() -> None:
    pace, start = idle_for(10.0)
    now, asked = start, 0
    while now < start + 3_600:
        now += SPARKS_DELAY_S
        now += pace.wait_s(now)
        pace.asked(now, found=False)
        asked += 1
    assert asked == pytest.approx(3_600 / MOST_APART_S, rel=0.01)
