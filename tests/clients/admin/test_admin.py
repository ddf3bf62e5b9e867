"""The admin client against a broker: topics, configurations, offsets, records, brokers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer

import kafkalite as kl
from kafkalite import ConfigResource, NewTopic, TopicPartition

PATIENCE_S = 30.0


@pytest.fixture
def fill(kafkalite_bootstrap: str) -> Callable[[str, int], None]:
    """Writes so many records to partition 0 of a topic, each a second newer than the last."""

    def fill(topic: str, count: int) -> None:
        start = int(datetime.now(UTC).timestamp() * 1000) - 60_000
        producer = Producer({"bootstrap.servers": kafkalite_bootstrap})
        for number in range(count):
            producer.produce(topic, b"v", partition=0, timestamp=start + number * 1000)
        assert producer.flush(30) == 0

    return fill


def test_a_topic_is_made_described_listed_and_removed(admin: kl.AdminClient, name: str) -> None:
    made = admin.create_topic(name, partitions=3, config={"retention.ms": 60_000})
    assert made.created
    topic = admin.describe_topic(name)
    assert (topic.name, len(topic.partitions), topic.internal) == (name, 3, False)
    assert topic.topic_id == made.topic_id
    assert [each.partition for each in topic.partitions] == [0, 1, 2]
    assert all(each.leader in each.isr for each in topic.partitions)
    assert topic in admin.list_topics()
    assert admin.describe_topic_config(name)["retention.ms"].value == "60000"
    admin.delete_topic(name)
    deadline = time.monotonic() + PATIENCE_S
    with pytest.raises(kl.UnknownTopicError, match=f"UNKNOWN_TOPIC_OR_PARTITION: topic {name}"):
        # A Kafka broker learns of it from the controller, a moment after the answer.
        while time.monotonic() < deadline:
            admin.describe_topic(name)


def test_a_topic_that_exists_is_an_error_unless_it_may(admin: kl.AdminClient, name: str) -> None:
    admin.create_topic(name)
    with pytest.raises(kl.TopicExistsError, match="TOPIC_ALREADY_EXISTS") as info:
        admin.create_topic(name)
    assert info.value.code == 36
    assert info.value.hint == "pass exist_ok=True if that is fine."
    again = admin.create_topic(name, partitions=5, exist_ok=True)
    assert (again.name, again.created) == (name, False)
    assert len(admin.describe_topic(name).partitions) == 1


def test_a_missing_topic_is_an_error_unless_it_may_be(admin: kl.AdminClient, name: str) -> None:
    with pytest.raises(kl.UnknownTopicError):
        admin.delete_topic(name)
    admin.delete_topic(name, missing_ok=True)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": "a b"}, kl.InvalidTopicError),
        ({"partitions": -7}, kl.InvalidPartitionsError),
        ({"replication_factor": 99}, kl.InvalidPartitionsError),
        ({"config": {"retention.ms": "soon"}}, kl.ConfigError),
        ({"config": {"retentoin.ms": 1}}, kl.ConfigError),
    ],
)
def test_a_topic_that_cannot_be_is_refused(
    admin: kl.AdminClient,
    name: str,
    arguments: dict[str, object],
    error: type[kl.KafkaliteError],
) -> None:
    with pytest.raises(error):
        admin.create_topic(**({"name": name} | arguments))  # type: ignore[arg-type]


def test_a_topic_that_is_only_checked_is_not_made(admin: kl.AdminClient, name: str) -> None:
    admin.create_topic(name, validate_only=True)
    with pytest.raises(kl.UnknownTopicError):
        admin.describe_topic(name)


def test_of_several_topics_those_that_can_be_are_made(admin: kl.AdminClient, name: str) -> None:
    good, bad = f"{name}-good", f"{name}/bad"
    with pytest.raises(kl.PartialError, match="1 of 2 failed") as info:
        admin.create_topics([good, NewTopic(bad, partitions=2)])
    assert list(info.value.done) == [good]
    assert isinstance(info.value.errors[bad], kl.InvalidTopicError)
    assert admin.describe_topic(good).name == good
    both = admin.create_topics({good: 1, f"{name}-2": 1}, exist_ok=True)
    assert [topic.created for topic in both.values()] == [False, True]


def test_topics_are_made_by_name_and_number_of_partitions(admin: kl.AdminClient, name: str) -> None:
    admin.create_topics({f"{name}-1": 1, f"{name}-3": 3})
    made = admin.describe_topics([f"{name}-1", f"{name}-3"])
    assert [len(topic.partitions) for topic in made.values()] == [1, 3]


def test_a_topic_named_twice_is_refused_before_it_is_asked_for(
    admin: kl.AdminClient, name: str
) -> None:
    with pytest.raises(kl.InvalidArgumentError, match="named twice"):
        admin.create_topics([name, name])


def test_replicas_can_be_placed_by_hand(admin: kl.AdminClient, name: str) -> None:
    (broker, *_) = admin.describe_cluster().brokers
    admin.create_topics([NewTopic(name, assignments={0: [broker.id], 1: [broker.id]})])
    assert [each.replicas for each in admin.describe_topic(name).partitions] == [(broker.id,)] * 2


def test_a_topic_gets_more_partitions_but_never_fewer(admin: kl.AdminClient, name: str) -> None:
    admin.create_topic(name, partitions=2)
    admin.create_partitions(name, 3, validate_only=True)
    assert len(admin.describe_topic(name).partitions) == 2
    admin.create_partitions(name, 3)
    assert len(admin.describe_topic(name).partitions) == 3
    with pytest.raises(kl.InvalidPartitionsError):
        admin.create_partitions(name, 1)


def test_keys_of_a_topic_change_one_by_one(admin: kl.AdminClient, name: str) -> None:
    admin.create_topic(name, config={"retention.ms": 60_000})
    admin.alter_topic_config(
        name, {"max.message.bytes": 2_000, "retention.ms": None, "cleanup.policy": "compact"}
    )
    config = admin.describe_topic_config(name)
    assert (config["max.message.bytes"].value, config["max.message.bytes"].source) == (
        "2000",
        "topic",
    )
    assert config["retention.ms"].is_default
    admin.alter_topic_config(name, {"cleanup_policy": kl.Append("delete")})
    policy = admin.describe_topic_config(name)["cleanup.policy"].value or ""
    assert sorted(policy.split(",")) == ["compact", "delete"]
    admin.alter_topic_config(name, {"cleanup.policy": kl.Subtract(["compact"])})
    assert admin.describe_topic_config(name)["cleanup.policy"].value == "delete"


def test_a_configuration_tells_types_synonyms_and_meanings(
    admin: kl.AdminClient, name: str
) -> None:
    admin.create_topic(name, config={"segment.bytes": 1_048_576})
    resource = ConfigResource("topic", name)
    described = admin.describe_configs(
        [resource], keys=["segment_bytes"], synonyms=True, documentation=True
    )
    assert list(described[resource]) == ["segment.bytes"]
    entry = described[resource]["segment.bytes"]
    assert (entry.type, entry.source, entry.read_only) == ("int", "topic", False)
    assert entry.documentation
    assert entry.synonyms[0].value == "1048576"
    assert "default" in {synonym.source for synonym in entry.synonyms}


def test_a_broker_tells_its_configuration(admin: kl.AdminClient) -> None:
    (broker, *_) = admin.describe_cluster().brokers
    config = admin.describe_broker_config(broker.id)
    assert config["num.network.threads"].type == "int"
    assert config["num.network.threads"].value


@pytest.mark.parametrize("key", ["retention.ms", "no.such.key"])
def test_a_change_that_cannot_be_is_refused(admin: kl.AdminClient, name: str, key: str) -> None:
    admin.create_topic(name)
    with pytest.raises(kl.ConfigError, match="INVALID_CONFIG"):
        admin.alter_topic_config(name, {key: "soon"}, validate_only=True)


def test_offsets_are_found_by_word_and_by_time(
    admin: kl.AdminClient, name: str, fill: Callable[[str, int], None]
) -> None:
    admin.create_topic(name, partitions=2)
    fill(name, 10)
    full, empty = TopicPartition(name, 0), TopicPartition(name, 1)
    ends = admin.list_offsets([full, empty])
    assert [ends[full].offset, ends[empty].offset] == [10, 0]
    assert admin.list_offsets([full], "earliest")[full].offset == 0
    newest = admin.list_offsets([full], "max_timestamp")[full]
    assert newest.offset == 9
    assert newest.timestamp_ms is not None
    third = datetime.fromtimestamp(newest.timestamp_ms / 1000, UTC) - timedelta(seconds=6)
    assert admin.list_offsets([full], third)[full].offset == 3
    assert admin.list_offsets([full], newest.timestamp_ms + 1)[full].offset == -1


def test_a_partition_that_is_not_there_has_no_offsets(admin: kl.AdminClient, name: str) -> None:
    admin.create_topic(name)
    with pytest.raises(kl.UnknownTopicError):
        admin.list_offsets([(name, 7)])
    with pytest.raises(kl.PartialError) as info:
        admin.list_offsets([(name, 0), (f"{name}-missing", 0)])
    assert info.value.done[TopicPartition(name, 0)].offset == 0


@pytest.mark.parametrize("at", ["newest", -5, datetime(2026, 1, 1)])
def test_a_place_that_cannot_be_is_refused(admin: kl.AdminClient, at: kl.OffsetAt) -> None:
    with pytest.raises(kl.InvalidArgumentError):
        admin.list_offsets([("t", 0)], at)


def test_records_are_removed_below_an_offset(
    admin: kl.AdminClient, name: str, fill: Callable[[str, int], None]
) -> None:
    admin.create_topic(name)
    fill(name, 10)
    partition = TopicPartition(name, 0)
    assert admin.delete_records({partition: 4}) == {partition: 4}
    assert admin.list_offsets([partition], "earliest")[partition].offset == 4
    with pytest.raises(kl.OffsetOutOfRangeError):
        admin.delete_records({partition: 11})
    assert admin.delete_records({partition: "end"}) == {partition: 10}


def test_the_cluster_lists_its_brokers(admin: kl.AdminClient, kafkalite_bootstrap: str) -> None:
    cluster = admin.describe_cluster()
    assert cluster.cluster_id
    assert kafkalite_bootstrap in [broker.address for broker in cluster.brokers]
    assert cluster.controller in [broker.id for broker in cluster.brokers]


def test_the_leader_of_the_quorum_is_the_controller(
    admin: kl.AdminClient, kafkalite_bootstrap: str
) -> None:
    quorum = admin.describe_quorum()
    assert quorum.leader == admin.describe_cluster().controller
    (leader,) = [voter for voter in quorum.voters if voter.id == quorum.leader]
    assert leader.log_end_offset is not None
    assert leader.log_end_offset >= quorum.high_watermark > 0

    async def ask() -> kl.QuorumDescription:
        async with kl.AsyncAdminClient(bootstrap_servers=kafkalite_bootstrap) as other:
            return await other.describe_quorum()

    assert [voter.id for voter in asyncio.run(ask()).voters] == [
        voter.id for voter in quorum.voters
    ]


def test_brokers_list_their_directories(
    admin: kl.AdminClient, name: str, fill: Callable[[str, int], None]
) -> None:
    admin.create_topic(name)
    fill(name, 10)
    (directories,) = admin.describe_log_dirs().values()
    replicas = {each.partition: each for where in directories for each in where.replicas}
    assert replicas[TopicPartition(name, 0)].size_bytes > 0
    assert all(where.path and where.error is None for where in directories)


def test_a_replica_stays_in_its_directory_and_goes_to_none_that_is_unknown(
    admin: kl.AdminClient, name: str
) -> None:
    admin.create_topic(name)
    ((broker, (directory,)),) = admin.describe_log_dirs().items()
    admin.alter_replica_log_dirs({(name, 0, broker): directory.path})
    with pytest.raises(kl.StorageError):
        admin.alter_replica_log_dirs({(name, 0, broker): Path("/no/such/directory")})
    with pytest.raises(kl.UnknownTopicError):
        admin.alter_replica_log_dirs({(name, 7, broker): directory.path})


def test_an_election_is_not_needed_where_the_preferred_leader_leads(
    admin: kl.AdminClient, name: str
) -> None:
    admin.create_topic(name)
    assert admin.elect_leaders([(name, 0)]) == {TopicPartition(name, 0): False}


def test_nothing_moves_on_one_broker(admin: kl.AdminClient, name: str) -> None:
    admin.create_topic(name)
    assert admin.list_reassignments([(name, 0)]) == {}
