"""How far replicas are, over HTTP: moves under way, and what followers lack."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import kafkalite as kl
from tests.harness.held_move import RECORDS, held_move, send
from tests.harness.patience import eventually
from tests.unit.test_admin_api import Api, Refused
from tests.unit.test_cluster_figures import api_of

#: Partitions of the topic in the test of pages.
MANY = 5


def listed(api: Api, state: str, **asked: Any) -> Any:
    return api.get("/cluster/partitions", state=state, broker="all", **asked)


def followers(row: Any) -> dict[int, tuple[bool, int | None]]:
    """By broker: whether it is in sync, and what it lacks."""
    here = row["here"]
    found = here["followers"] if here else []
    return {one["broker_id"]: (one["in_sync"], one["records_behind"]) for one in found}


def test_a_move_that_is_held_up_says_how_far_it_is() -> None:
    with held_move() as move:
        apis = [api_of(broker) for broker in move.cluster.brokers]
        before, after = move.before, move.after
        move.begin()

        def is_held(api: Api) -> bool:
            rows = listed(api, "moving")["partitions"]
            return bool(rows) and followers(rows[0]) == {after: (False, RECORDS)}

        for api in apis:
            eventually(partial(is_held, api))
        told = listed(apis[after], "moving")
        assert (told["state"], told["total"], told["next"]) == ("moving", 1, None)
        (row,) = told["partitions"]
        assert (row["topic"], row["partition"], row["leader"]) == ("slow", 0, before)
        assert (row["adding_replicas"], row["removing_replicas"]) == ([after], [before])
        assert (row["isr"], row["here"]["log_end_offset"]) == ([before], RECORDS)
        # What a move adds is not missed yet.
        assert listed(apis[0], "under_replicated")["total"] == 0
        # Its leader alone knows how far it is.
        (own,) = apis[after].get("/cluster/partitions", state="moving")["partitions"]
        assert own["here"] is None
        move.let_go()
        eventually(lambda: all(listed(api, "moving")["total"] == 0 for api in apis))


def test_replicas_of_a_dead_broker_are_listed_with_what_they_lack() -> None:
    with kl.Cluster(topics={"many": MANY}, admin_port=0) as cluster:
        leader = cluster.leader_of("many", 0)
        api = api_of(leader)
        dead = (cluster.brokers.index(leader) + 1) % 3

        def behind() -> dict[int, tuple[int, int]]:
            found = api.get("/overview", broker="all")["replication"]["followers"]
            return {one["broker_id"]: (one["replicas"], one["records_behind"]) for one in found}

        # Each partition has two followers.
        eventually(lambda: sum(replicas for replicas, _ in behind().values()) == 2 * MANY)
        assert listed(api, "under_replicated")["total"] == 0
        eventually(lambda: all(lacks == 0 for _, lacks in behind().values()))
        cluster.brokers[dead].kill()
        eventually(lambda: listed(api, "under_replicated")["total"] == MANY)
        send(cluster, "many")
        eventually(lambda: behind()[dead][1] == RECORDS)
        overview = api.get("/overview", broker="all")["replication"]
        assert overview["high_watermark"] == overview["log_end_offset"] == RECORDS
        seen: list[tuple[int, bool, int | None]] = []
        asked: dict[str, Any] = {"limit": 2}
        while True:
            page = listed(api, "under_replicated", **asked)
            assert page["total"] == MANY
            for row in page["partitions"]:
                assert set(row["replicas"]) - set(row["isr"]) == {dead}
                seen.append((row["partition"], *followers(row)[dead]))
            if page["next"] is None:
                break
            asked["after"] = page["next"]
        assert [number for number, *_ in seen] == list(range(MANY))
        assert seen[0] == (0, False, RECORDS)
        assert not any(in_sync for _, in_sync, _ in seen)


@pytest.mark.parametrize(
    "asked",
    [{}, {"state": "both"}, {"state": "moving", "after": "t"}, {"state": "moving", "after": "t-x"}],
)
def test_what_is_no_state_and_no_place_is_refused(asked: dict[str, str]) -> None:
    with kl.Broker(admin_port=0) as broker:
        with pytest.raises(Refused) as refused:
            api_of(broker).get("/cluster/partitions", **asked)
        assert refused.value.status == 400
