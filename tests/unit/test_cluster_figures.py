"""Figures of a cluster over HTTP: any broker adds up those of all, and says who did not answer."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import kafkalite as kl
from tests.harness.patience import eventually
from tests.harness.process import PATIENCE_S, Processes
from tests.unit.test_admin_api import FILE, Api, Refused, check
from tests.unit.test_cluster import brokers as brokers_of
from tests.unit.test_command_line import told

GROUPS = [f"group-{number}" for number in range(9)]
#: How long a broker waits for the others, and some time for a busy machine.
LIMIT_S = 6.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[kl.Cluster]:
    """Three brokers with records in each of three partitions, and groups of each coordinator."""
    with kl.Cluster(topics={"orders": 3}, admin_port=0) as cluster:
        servers = cluster.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "acks": "all"})
        for number in range(30):
            producer.produce("orders", b"x" * 100, partition=number % 3)
        assert producer.flush(PATIENCE_S) == 0
        for group in GROUPS:
            consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
            committed = [TopicPartition("orders", 0, 4)]
            consumer.commit(offsets=committed, asynchronous=False)
            consumer.close()
        yield cluster


class OfAll(Api):
    """Asks again where a broker was late: on a busy machine one may need longer than its limit."""

    def get(self, path: str, /, **asked: Any) -> Any:
        """What all brokers have answered."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = super().get(path, **asked)
            if all(one["answered"] for one in answer.get("figures_of", [])):
                return answer
            assert time.monotonic() < deadline, "a broker is late each time"


@pytest.fixture
def apis(cluster: kl.Cluster) -> list[Api]:
    """The API of each broker."""
    return [OfAll(url_of(broker)) for broker in cluster.brokers]


def url_of(broker: kl.Broker) -> str:
    assert broker.admin_url is not None
    return broker.admin_url


def api_of(broker: kl.Broker) -> Api:
    return Api(url_of(broker))


def events(api: Api, count: int, broker: object) -> list[dict[str, Any]]:
    """The first events of a stream, as the file describes them."""
    url = f"{api.url}/live?broker={broker}"
    found: list[dict[str, Any]] = []
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        for line in answer:
            if line.startswith(b"data: "):
                found.append(json.loads(line.removeprefix(b"data: ")))
                if len(found) == count:
                    break
    schema = FILE["paths"]["/live"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    for event in found:
        check(event, {"content": {"application/json": schema}})
    return found


def sources(answer: dict[str, Any]) -> dict[int, bool]:
    """Which brokers answered."""
    return {one["broker_id"]: one["answered"] for one in answer["figures_of"]}


ALL = {0: True, 1: True, 2: True}


def test_every_broker_adds_up_the_figures_of_all(apis: list[Api]) -> None:
    def is_sum(asked: Api) -> bool:
        # Connections come and go with these questions.
        own = [api.get("/overview")["here"] for api in apis]
        told = asked.get("/overview", broker="all")
        assert sources(told) == ALL
        names = own[0].keys() - {"connections", "bytes_in", "bytes_out"}
        return all(told["here"][name] == sum(here[name] for here in own) for name in names)

    for api in apis:
        eventually(partial(is_sum, api))
    told = apis[2].get("/overview", broker="all")
    assert (told["broker_id"], told["here"]["groups"]) == (2, len(GROUPS))
    assert told["here"]["leaders"] == told["partitions"]
    assert told["here"]["records_in"] >= 30


def test_one_other_broker_answers_for_itself(apis: list[Api]) -> None:
    for asked in apis:
        for broker_id in range(3):
            told = asked.get("/overview", broker=broker_id)
            assert told["broker_id"] == broker_id
            assert "figures_of" not in told
            assert told["here"]["groups"] == apis[broker_id].get("/overview")["here"]["groups"]


def test_topics_have_the_sizes_of_all_replicas_and_the_offsets_of_leaders(apis: list[Api]) -> None:
    def is_sum() -> bool:
        own = [api.get("/topics", search="orders")["topics"][0]["here"] for api in apis]
        (told,) = apis[1].get("/topics", search="orders", broker="all")["topics"]
        assert told["here"]["replicas"] == 9
        assert told["here"]["leaders"] == 3
        return bool(told["here"]["bytes"] == sum(here["bytes"] for here in own))

    eventually(is_sum)
    told = apis[0].get("/topics/{name}", name="orders", broker="all")
    assert [row["here"]["high_watermark"] for row in told["partitions"]] == [10] * 3
    assert sources(told) == ALL


def test_groups_of_all_coordinators_come_in_pages(apis: list[Api]) -> None:
    own = {group["id"] for api in apis for group in api.get("/groups")["groups"]}
    assert own == set(GROUPS)
    assert all(len(api.get("/groups")["groups"]) < len(GROUPS) for api in apis)
    listed: list[str] = []
    asked: dict[str, Any] = {"limit": 2, "broker": "all"}
    while True:
        page = apis[0].get("/groups", **asked)
        assert (page["total"], page["matched"]) == (len(GROUPS), len(GROUPS))
        listed += [group["id"] for group in page["groups"]]
        if page["next"] is None:
            break
        asked["after"] = page["next"]
    assert listed == GROUPS
    for group in page["groups"]:
        assert apis[group["broker_id"]].get("/groups/{id}", id=group["id"])


def test_a_group_is_found_at_every_broker(apis: list[Api]) -> None:
    for api in apis:
        told = api.get("/groups/{id}", id="group-0", broker="all")
        assert (told["id"], told["lag_records"]) == ("group-0", 6)
        assert apis[told["coordinator_id"]].get("/groups/{id}", id="group-0")["id"] == "group-0"


def test_a_group_that_no_broker_has_is_not_found(apis: list[Api]) -> None:
    for api in apis:
        with pytest.raises(Refused) as refused:
            api.get("/groups/{id}", id="no-such-group", broker="all")
        assert refused.value.status == 404


def test_connections_and_requests_say_whose_they_are(apis: list[Api]) -> None:
    told = apis[0].get("/clients", broker="all")
    assert told["total"] >= len(told["connections"]) > 0
    assert {row["broker_id"] for row in told["connections"]} == {0, 1, 2}

    def is_of_all() -> bool:
        # Followers fetch from each other, and this page has a sample taken.
        rows = apis[0].get("/requests", kind="recent", broker="all")["requests"]
        ages = [row["age_ms"] for row in rows]
        assert ages == sorted(ages, reverse=True)
        return {row["broker_id"] for row in rows} == {0, 1, 2}

    eventually(is_of_all)


def test_the_stream_adds_up_what_all_brokers_do(cluster: kl.Cluster, apis: list[Api]) -> None:
    first, second = events(apis[0], 2, "all")
    assert sources(first) == sources(second) == ALL
    assert second["broker_id"] == 0
    # Three brokers whose followers fetch from each other.
    assert second["requests_per_second"] > 0
    one = events(apis[0], 1, 2)[0]
    assert (one["broker_id"], sources(one)) == (2, {2: True})
    own = events(apis[0], 1, 0)[0]
    assert "figures_of" not in own
    threads = {stage["name"]: stage["threads"] for stage in own["stages"]}["network_threads"]
    of_all = {stage["name"]: stage["threads"] for stage in second["stages"]}["network_threads"]
    assert of_all == 3 * threads


def test_what_is_no_broker_is_refused(apis: list[Api]) -> None:
    for broker, status in (("7", 404), ("both", 400), ("", 400), ("-1", 404)):
        with pytest.raises(Refused) as refused:
            apis[0].get("/overview", broker=broker)
        assert refused.value.status == status
    with pytest.raises(Refused) as refused:
        apis[0].get("/config", broker="all")
    assert refused.value.status == 400


def test_a_single_broker_is_all_there_is() -> None:
    with kl.Broker(admin_port=0, topics=["t"]) as broker:
        told = api_of(broker).get("/overview", broker="all")
        assert list(sources(told).values()) == [True]
        assert told["here"]["replicas"] == 1


def test_a_dead_broker_is_named_and_holds_nothing_up() -> None:
    with kl.Cluster(topics={"t": 3}, admin_port=0) as cluster:
        api = api_of(cluster.brokers[0])
        of_all = OfAll(url_of(cluster.brokers[0]))
        # Followers open their logs a little later than the leaders.
        eventually(lambda: of_all.get("/overview", broker="all")["here"]["replicas"] == 3 * 3)
        before = of_all.get("/overview", broker="all")
        assert sources(before) == ALL
        cluster.brokers[2].kill()

        def told_in_time(path: str, **asked: Any) -> Any:
            began = time.monotonic()
            try:
                return api.get(path, **asked, broker="all")
            finally:
                assert time.monotonic() - began < LIMIT_S

        # At once, when it does not answer, and later, when the cluster has fenced it.
        for is_fenced in (False, True):
            if is_fenced:
                eventually(lambda: bool(api.get("/cluster")["brokers"][2]["fenced"]))
            told = told_in_time("/overview")
            assert sources(told) == {0: True, 1: True, 2: False}
            (away,) = (one for one in told["figures_of"] if not one["answered"])
            assert away["last_answer_ms_ago"] is not None
            assert away["why"]
            assert told["here"]["replicas"] < before["here"]["replicas"]
            assert sources(told_in_time("/topics")) == {0: True, 1: True, 2: False}
            with pytest.raises(Refused) as refused:
                api.get("/overview", broker=2)
            assert refused.value.status == 504
            assert "broker 2 does not answer" in refused.value.body["what"]
        assert sources(events(api, 1, "all")[0]) == {0: True, 1: True, 2: False}
        cluster.brokers[2].start()
        eventually(lambda: sources(api.get("/overview", broker="all")) == ALL)


def test_no_event_counts_longer_than_its_interval_while_a_broker_stands_still() -> None:
    """The event after the broker was fenced told the requests of 1.5 s as those of one ms."""
    keys = {"broker.session.timeout.ms": 3_000}
    with kl.Cluster(config=keys, admin_port=0, in_process=False) as cluster:
        assert sources(OfAll(url_of(cluster.brokers[0])).get("/overview", broker="all")) == ALL
        os.kill(cluster.brokers[2].pid, signal.SIGSTOP)
        try:
            found = events(api_of(cluster.brokers[0]), 6, "all")
        finally:
            os.kill(cluster.brokers[2].pid, signal.SIGCONT)
        assert min(event["interval_ms"] for event in found) > 500.0


def test_brokers_answer_those_that_have_their_token(processes: Processes) -> None:
    secret, other = uuid.uuid4().hex, uuid.uuid4().hex
    first = processes.serve("--set", f"kafkalite.admin.token={secret}")
    second = processes.serve("--join", first.ready, "--set", f"kafkalite.admin.token={secret}")
    third = processes.serve("--join", first.ready, "--set", f"kafkalite.admin.token={other}")
    eventually(lambda: len(brokers_of(first.ready)) == 3)
    for process, token in ((first, secret), (second, secret), (third, other)):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{process.admin}/api/v1/overview?broker=all")
        told = Api(process.admin, token).get("/overview", broker="all")
        know_it = {1, 2} if token == secret else {3}
        assert {one for one, answered in sources(told).items() if answered} == know_it
        for away in (one for one in told["figures_of"] if not one["answered"]):
            assert "give all brokers the same kafkalite.admin.token" in away["why"]


def test_lag_of_partitions_that_the_coordinator_has_no_replica_of_is_added() -> None:
    keys = {"default.replication.factor": 1, "min.insync.replicas": 1}
    with kl.Cluster(topics={"spread": 3}, config=keys, admin_port=0) as cluster:
        servers = cluster.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers})
        for number in range(30):
            producer.produce("spread", b"x", partition=number % 3)
        assert producer.flush(PATIENCE_S) == 0
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "g"})
        committed = [TopicPartition("spread", number, number) for number in range(3)]
        consumer.commit(offsets=committed, asynchronous=False)
        consumer.close()
        apis = [api_of(broker) for broker in cluster.brokers]
        own = [api.get("/groups")["groups"] for api in apis]
        # Each broker has one of the partitions: the coordinator alone knows a third.
        assert [row["partitions_elsewhere"] for rows in own for row in rows] == [2]
        for api in apis:
            (row,) = api.get("/groups", broker="all")["groups"]
            assert (row["lag_records"], row["partitions_elsewhere"]) == (27, 0)
            told = api.get("/groups/{id}", id="g", broker="all")
            assert [offset["lag_records"] for offset in told["offsets"]] == [10, 9, 8]
            assert all(offset["lag_seconds"] is not None for offset in told["offsets"])
            assert (told["lag_records"], told["partitions_elsewhere"]) == (27, 0)


def test_lag_ends_where_the_leader_says_and_not_a_follower_that_is_behind() -> None:
    keys = {"replica.lag.time.max.ms": 1_500, "min.insync.replicas": 1}
    with kl.Cluster(topics={"t": 3}, config=keys, admin_port=0) as cluster:
        servers = cluster.bootstrap_servers
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "g"})
        committed = [TopicPartition("t", number, 0) for number in range(3)]
        consumer.commit(offsets=committed, asynchronous=False)
        consumer.close()
        apis = [api_of(broker) for broker in cluster.brokers]
        first = OfAll(url_of(cluster.brokers[0]))
        coordinator = first.get("/groups/{id}", id="g", broker="all")["coordinator_id"]
        rows = first.get("/topics/{name}", name="t")["partitions"]
        led_elsewhere = next(row["partition"] for row in rows if row["leader"] != coordinator)
        behind = cluster.brokers[coordinator]
        behind.faults.stall("log", topic="t", partition=led_elsewhere)
        producer = Producer({"bootstrap.servers": servers, "acks": 1})
        for _ in range(50):
            producer.produce("t", b"x", partition=led_elsewhere)
        assert producer.flush(PATIENCE_S) == 0

        def is_counted(api: Api) -> bool:
            (row,) = api.get("/groups", broker="all")["groups"]
            told = api.get("/groups/{id}", id="g", broker="all")
            lags = [offset["lag_records"] for offset in told["offsets"]]
            return [row["lag_records"], told["lag_records"], sum(lags)] == [50, 50, 50]

        # The high watermark moves when the follower is out of the in-sync set.
        for api in apis:
            eventually(partial(is_counted, api))


def test_top_adds_up_all_brokers(cluster: kl.Cluster) -> None:
    at = ("--admin-url", str(cluster.brokers[0].admin_url), "-n", "1")
    done = told("top", *at, "--broker", "all")
    assert done.stdout.startswith("3 of 3 brokers"), done.stderr
    assert told("top", *at, "--broker", "2").stdout.startswith("broker 2 ")
    assert told("top", *at, "--broker", "some").returncode == 2
