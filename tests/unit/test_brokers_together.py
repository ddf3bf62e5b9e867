"""``kafkalite.Cluster``: brokers that replicate, and can be killed and divided."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

import kafkalite as kl
from tests.harness.patience import eventually
from tests.harness.session import Session

LEADER_NOT_AVAILABLE = 5
MODES = pytest.mark.parametrize("in_process", [True, False], ids=["threads", "processes"])


def in_sync(admin: kl.AdminClient, topic: str) -> list[tuple[int, ...]]:
    """The in-sync replicas of each partition, sorted."""
    partitions = admin.describe_topic(topic).partitions
    return [tuple(sorted(partition.isr)) for partition in partitions]


def test_topics_have_three_replicas_of_which_two_acknowledge(kafkalite_cluster: kl.Cluster) -> None:
    with kl.AdminClient(bootstrap_servers=kafkalite_cluster.bootstrap_servers) as admin:
        admin.create_topics({"orders": 3, "more": 2})
        assert in_sync(admin, "orders") == [(0, 1, 2)] * 3
        assert in_sync(admin, "more") == [(0, 1, 2)] * 2
        assert admin.describe_topic_config("more")["min.insync.replicas"].value == "2"
        leaders = {kafkalite_cluster.leader_of("orders", number) for number in range(3)}
        assert leaders == set(kafkalite_cluster.brokers)
        quorum = admin.describe_quorum()
        assert [voter.id for voter in quorum.voters] == [0, 1, 2]
        assert quorum.leader == admin.describe_cluster().controller


def test_clients_of_others_produce_and_consume(kafkalite_cluster: kl.Cluster) -> None:
    servers = kafkalite_cluster.bootstrap_servers
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all"})
    producer.produce("by-confluent", b"hello")
    assert producer.flush(20) == 0
    (record,) = kafkalite_cluster.brokers[2].expect("by-confluent", 1)
    assert record.value == b"hello"

    async def by_aiokafka() -> bytes:
        async with AIOKafkaProducer(bootstrap_servers=servers, acks="all") as writer:
            await writer.send_and_wait("by-aiokafka", b"hello")
        async with AIOKafkaConsumer(
            "by-aiokafka", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest"
        ) as reader:
            record = await asyncio.wait_for(reader.getone(), 20)
            return bytes(record.value)

    assert asyncio.run(by_aiokafka()) == b"hello"


@MODES
def test_a_killed_leader_is_replaced_and_comes_back_with_its_data(in_process: bool) -> None:
    with (
        kl.Cluster(topics=["t"], in_process=in_process) as cluster,
        kl.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer,
        kl.AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        producer.send("t", b"before").result(timeout=20)
        pids = {broker.pid for broker in cluster.brokers}
        assert len(pids) == (1 if in_process else 3)
        killed = cluster.kill_leader("t", 0)
        producer.send("t", b"after").result(timeout=20)
        assert cluster.leader_of("t", 0) is not killed
        killed.start()
        cluster.wait_ready(20)
        eventually(lambda: in_sync(admin, "t") == [(0, 1, 2)])
        records = killed.expect("t", 2, timeout=20)
        assert [record.value for record in records] == [b"before", b"after"]


def test_clients_of_others_go_on_when_the_leader_is_killed() -> None:
    async def write(cluster: kl.Cluster) -> None:
        servers = cluster.bootstrap_servers
        confluent = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True}
        )
        async with AIOKafkaProducer(bootstrap_servers=servers, acks="all") as writer:
            await asyncio.wait_for(writer.send_and_wait("t", b"aiokafka, before"), 30)
            confluent.produce("t", b"confluent, before")
            assert confluent.flush(30) == 0
            cluster.kill_leader("t", 0)
            await asyncio.wait_for(writer.send_and_wait("t", b"aiokafka, after"), 60)
            confluent.produce("t", b"confluent, after")
            assert confluent.flush(60) == 0

    with kl.Cluster(topics=["t"]) as cluster:
        asyncio.run(write(cluster))
        records = cluster.leader_of("t", 0).expect("t", 4, timeout=30)
    assert [record.value for record in records] == [
        b"aiokafka, before",
        b"confluent, before",
        b"aiokafka, after",
        b"confluent, after",
    ]


@MODES
def test_an_isolated_leader_is_replaced_and_follows_when_healed(in_process: bool) -> None:
    with (
        kl.Cluster(topics=["t"], in_process=in_process) as cluster,
        kl.AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        leader = cluster.leader_of("t", 0)
        cluster.isolate({leader})
        # It runs and is reached, but the others elect another leader.
        eventually(lambda: cluster.leader_of("t", 0) is not leader)
        with kl.AdminClient(bootstrap_servers=leader.bootstrap_servers) as of_the_minority:
            old = of_the_minority.describe_topic("t").partitions[0].leader
            assert old == cluster.brokers.index(leader)
        cluster.heal()
        cluster.wait_ready(20)
        eventually(lambda: in_sync(admin, "t") == [(0, 1, 2)])


@MODES
def test_a_broker_that_starts_while_it_is_isolated_stays_alone(in_process: bool) -> None:
    config = {"initial.broker.registration.timeout.ms": 3_000}
    with kl.Cluster(config=config, in_process=in_process) as cluster:
        cluster.isolate({2})
        cluster.brokers[2].kill()
        with pytest.raises(kl.BrokerStartError, match="did not register this broker"):
            cluster.brokers[2].start()
        cluster.heal()
        cluster.start()
        assert len({broker.pid for broker in cluster.brokers}) == (1 if in_process else 3)


@MODES
def test_a_broker_whose_directory_was_emptied_joins_the_others(
    tmp_path: Path, in_process: bool
) -> None:
    """The first broker began a cluster of its own."""
    with kl.Cluster(topics=["t"], data_dir=tmp_path, in_process=in_process) as cluster:
        with kl.Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
            producer.send("t", b"kept")
            producer.flush(timeout=60)
        with kl.AdminClient(bootstrap_servers=cluster.brokers[1].bootstrap_servers) as admin:
            for number in (0, 2):
                eventually(lambda: in_sync(admin, "t") == [(0, 1, 2)], 60)
                cluster.brokers[number].kill()
                shutil.rmtree(tmp_path / f"broker-{number}")
                cluster.brokers[number].start()
                cluster.wait_ready(60)
            eventually(lambda: in_sync(admin, "t") == [(0, 1, 2)], 60)
        (record,) = cluster.brokers[0].expect("t", 1)
        assert record.value == b"kept"


def test_a_leader_that_died_leads_nothing_before_the_controller_says_so() -> None:
    """Clients got the dead leader, and some asked again a second later only.

    The controller of two brokers is the first one. While it is dead the metadata do not change.
    """
    with kl.Cluster(2, topics={"t": 2}) as cluster:
        dies, stays = cluster.brokers
        with kl.AdminClient(bootstrap_servers=stays.bootstrap_servers) as admin:
            parts = admin.describe_topic("t").partitions
        led = next(part.partition for part in parts if part.leader == 0)
        session = Session(stays.bootstrap_servers, "dies")

        def described() -> tuple[int, int]:
            parts = session.metadata("t")["Partitions"]
            part = next(one for one in parts if one["PartitionIndex"] == led)
            return part["ErrorCode"], part["LeaderId"]

        def is_noticed() -> bool:
            eventually(lambda: described() == (0, 0))
            dies.kill()
            until = time.monotonic() + 3
            while time.monotonic() < until:
                if described() == (LEADER_NOT_AVAILABLE, -1):
                    return True
            dies.start()
            return False

        # It lasts for a second, and a busy machine may stand still for as long.
        assert any(is_noticed() for _ in range(5))
        # Only its address may be wrong.
        eventually(lambda: described() == (0, 0))
        session.close()


def test_a_broker_without_the_others_says_so_in_time(tmp_path: Path) -> None:
    with kl.Cluster(data_dir=tmp_path):
        pass
    config = {"node.id": 0, "initial.broker.registration.timeout.ms": 100}
    alone = kl.Broker(data_dir=tmp_path / "broker-0", config=config)
    with pytest.raises(kl.BrokerStartError, match=r"within 100 ms") as raised:
        alone.start()
    assert raised.value.hint == "start the other brokers of the cluster too, at the same time."
    # Nothing of it runs: the directory is free.
    with kl.Cluster(data_dir=tmp_path) as again:
        assert len(again.brokers) == 3


def test_records_stay_in_the_directory_of_the_cluster(tmp_path: Path) -> None:
    data_dir = tmp_path / "new" / "cluster"
    with (
        kl.Cluster(data_dir=data_dir, topics=["t"]) as cluster,
        kl.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        producer.send("t", b"kept").result(timeout=20)
        servers = cluster.bootstrap_servers
    directories = {path.name for path in data_dir.iterdir() if path.is_dir()}
    assert directories == {"broker-0", "broker-1", "broker-2"}
    with kl.Cluster(data_dir=data_dir, topics=["t"]) as again:
        (record,) = again.brokers[1].expect("t", 1, timeout=20)
        assert (record.value, again.bootstrap_servers) == (b"kept", servers)
    with pytest.raises(kl.InvalidArgumentError, match="of a cluster of 3 brokers"):
        kl.Cluster(1, data_dir=data_dir).start()


@pytest.mark.parametrize(("brokers", "replicas", "least"), [(1, 1, "1"), (2, 2, "1")])
def test_a_smaller_cluster_has_as_many_replicas_as_brokers(
    brokers: int, replicas: int, least: str
) -> None:
    with kl.Cluster(brokers, topics=["t"]) as cluster:
        assert cluster.leader_of("t", 0) in cluster.brokers
        with kl.AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            assert admin.describe_topic("t").replication_factor == replicas
            assert admin.describe_topic_config("t")["min.insync.replicas"].value == least


def test_what_cannot_be_is_refused_in_words(kafkalite_cluster: kl.Cluster) -> None:
    with pytest.raises(kl.InvalidArgumentError, match="one broker or more"):
        kl.Cluster(0)
    with pytest.raises(kl.ConfigError, match=r"node\.id: each broker of a cluster has its own"):
        kl.Cluster(config={"node.id": 7})
    with pytest.raises(kl.IllegalStateError, match="the cluster does not run"):
        _ = kl.Cluster().bootstrap_servers
    with pytest.raises(kl.InvalidArgumentError, match="7 is not a broker of this cluster"):
        kafkalite_cluster.isolate({0}, {7})
    with pytest.raises(kl.InvalidArgumentError, match="in one group"):
        kafkalite_cluster.isolate({0, 1}, {1, 2})
    with pytest.raises(kl.UnknownTopicError):
        kafkalite_cluster.leader_of("nothing", 0)
    with pytest.raises(kl.InvalidArgumentError, match="the partitions 0 to 2, not 3"):
        kafkalite_cluster.leader_of("orders", 3)
