"""What both admin clients do: arguments to the binary, and its tuples to descriptions.

Each function starts an operation and returns it with what makes its result; one twin waits
blocking, the other in asyncio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, cast

from . import descriptions as told
from .arguments import checked_count
from .config import ConfigValue, checked_mapping, text_of
from .errors import ConfigError, InvalidArgumentError, KafkaliteError, PartialError
from .records import Place, TopicPartition

if TYPE_CHECKING:
    from ._native import AdminClient, Operation

T = TypeVar("T")
K = TypeVar("K")

#: A partition: a ``TopicPartition``, or any pair of a topic's name and a number.
Partition = tuple[str, int]

#: A place in a partition: a word, a time in milliseconds, or a ``datetime`` with a time zone.
OffsetAt = Literal["earliest", "latest", "max_timestamp"] | int | datetime

#: A new value, ``None`` for the default, or what to add to or take from a list.
ConfigChange = ConfigValue | told.Append | told.Subtract | None

#: What a topic is made of.
TopicLike = str | told.NewTopic

_KINDS: dict[str, int] = {
    "topic": 2,
    "broker": 4,
    "broker_logger": 8,
    "client_metrics": 16,
    "group": 32,
}
_KIND_NAMES: dict[int, Any] = {number: name for name, number in _KINDS.items()}
_SOURCES: dict[int, Any] = {
    1: "topic",
    2: "broker",
    3: "brokers",
    4: "file",
    5: "default",
    6: "broker_logger",
    7: "client_metrics",
    8: "group",
}
_TYPES: tuple[Any, ...] = (
    "unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password",
)  # fmt: skip
_TIMES = {"latest": -1, "earliest": -2, "max_timestamp": -3}

_TOPIC_EXISTS = 36
_UNKNOWN_TOPIC = 3
_ELECTION_NOT_NEEDED = 84


class Call(NamedTuple, Generic[T]):
    """An operation under way, and what makes its result."""

    operation: Operation
    finish: Callable[[Any], T]


#: What the binary returns for each of several things: its key, its result, its error.
Results = Sequence[tuple[Any, Any, KafkaliteError | None]]


def settled(
    results: Results,
    key: Callable[[Any], K],
    value: Callable[[Any], T],
    ignoring: int | None = None,
) -> dict[K, T]:
    """Return all results by key.

    Args:
        results: As the binary told them.
        key: Makes the key.
        value: Makes the result; of an ignored error it is given ``None``.
        ignoring: A code of Kafka that counts as success.

    Raises:
        KafkaliteError: The one thing that was asked for failed.
        PartialError: Some of several failed.
    """
    done: dict[K, T] = {}
    errors: dict[K, KafkaliteError] = {}
    for of, result, error in results:
        ignored = error is not None and ignoring is not None and error.code == ignoring
        if error is None or ignored:
            done[key(of)] = value(result)
        else:
            errors[key(of)] = error
    if not errors:
        return done
    first = next(iter(errors.values()))
    if len(results) == 1:
        raise first
    lines = "".join(f"\n  {of}  {error}" for of, error in errors.items())
    text = f"PARTLY_FAILED: {len(errors)} of {len(results)} failed{lines}"
    raise PartialError(text, done=done, errors=errors)


def _hinted(results: Results, given: Mapping[Any, tuple[Any, Iterable[str]]]) -> Results:
    """Return results whose errors tell which key was meant by one that no such thing has.

    Args:
        results: As the binary told them.
        given: Whose keys they should be, ``"topic"`` or ``"broker"``, and the keys.
    """
    for of, _, error in results:
        if isinstance(error, ConfigError) and error.hint is None and of in given:
            from .config_table import meant_by

            level, names = given[of]
            if hint := meant_by(names, level):
                error.give_hint(hint)
    return results


def _same(value: Any) -> Any:
    return value


def _nothing(_value: Any) -> None:
    return None


def time_of(at: OffsetAt) -> int:
    """Return a place in a partition as the wire spells it.

    Raises:
        InvalidArgumentError: A word that is none of ours, a time before 1970 or without a zone.
    """
    if isinstance(at, str):
        if at in _TIMES:
            return _TIMES[at]
        words = ", ".join(_TIMES)
        raise InvalidArgumentError(f"INVALID_REQUEST: at: {at!r} is not one of {words}")
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise InvalidArgumentError(f"INVALID_REQUEST: at: {at!r} has no time zone")
        at = int(at.timestamp() * 1000)
    if at < 0:
        raise InvalidArgumentError(f"INVALID_REQUEST: at: {at} is before 1970")
    return at


def one_or_many(given: Iterable[T]) -> list[T]:
    """Return a list; a text, or one new topic, is meant as the only thing in it."""
    alone = isinstance(given, str | told.NewTopic)
    return [cast("T", given)] if alone else list(given)


def _new_topic(topic: TopicLike) -> told.NewTopic:
    if isinstance(topic, str):
        return told.NewTopic(topic)
    if isinstance(topic, told.NewTopic):
        return topic
    raise InvalidArgumentError(
        f"INVALID_REQUEST: topics: {topic!r} is not a topic",
        hint='give names, or as in NewTopic("orders", partitions=3).',
    )


def create_topics(
    native: AdminClient,
    topics: Iterable[TopicLike] | Mapping[str, int],
    exist_ok: bool,
    validate_only: bool,
    timeout: float | None,
) -> Call[dict[str, told.CreatedTopic]]:
    """Start making topics."""
    if isinstance(topics, Mapping):
        topics = [told.NewTopic(name, checked_count(name, n)) for name, n in topics.items()]
    all_topics = [_new_topic(topic) for topic in one_or_many(topics)]
    arguments = [
        (
            topic.name,
            topic.partitions,
            topic.replication_factor,
            [(number, list(brokers)) for number, brokers in (topic.assignments or {}).items()],
            [
                (key.replace("_", "."), None if value is None else text_of(key, value))
                for key, value in checked_mapping(topic.config).items()
            ],
        )
        for topic in all_topics
    ]
    operation = native.create_topics(arguments, validate_only, timeout)

    def finish(results: Results) -> dict[str, told.CreatedTopic]:
        existing = _TOPIC_EXISTS if exist_ok else None
        given = {name: ("topic", [key for key, _ in config]) for name, *_, config in arguments}
        made = settled(_hinted(results, given), _same, _same, existing)
        return {
            name: told.CreatedTopic(name, numbers is not None, *(numbers or ()))
            for name, numbers in made.items()
        }

    return Call(operation, finish)


def delete_topics(
    native: AdminClient, names: Iterable[str], missing_ok: bool, timeout: float | None
) -> Call[None]:
    """Start removing topics."""
    operation = native.delete_topics(one_or_many(names), timeout)
    ignoring = _UNKNOWN_TOPIC if missing_ok else None
    return Call(operation, lambda results: _nothing(settled(results, _same, _nothing, ignoring)))


def create_partitions(
    native: AdminClient, totals: Mapping[str, int], validate_only: bool, timeout: float | None
) -> Call[None]:
    """Start giving topics more partitions."""
    operation = native.create_partitions(list(totals.items()), validate_only, timeout)
    return Call(operation, lambda results: _nothing(settled(results, _same, _nothing)))


def list_topics(
    native: AdminClient, internal: bool, timeout: float | None
) -> Call[list[told.TopicDescription]]:
    """Start listing topics."""

    def finish(topics: Any) -> list[told.TopicDescription]:
        described = [_topic(topic) for topic in topics]
        return [topic for topic in described if internal or not topic.internal]

    return Call(native.list_topics(timeout), finish)


def describe_topics(
    native: AdminClient, names: Iterable[str], timeout: float | None
) -> Call[dict[str, told.TopicDescription]]:
    """Start describing topics."""
    operation = native.describe_topics(one_or_many(names), timeout)
    return Call(operation, lambda results: settled(results, _same, _topic))


def _topic(fields: Any) -> told.TopicDescription:
    name, topic_id, internal, partitions = fields
    described = tuple(
        told.PartitionDescription(
            number, leader, epoch, tuple(replicas), tuple(isr), tuple(offline)
        )
        for number, leader, epoch, replicas, isr, offline in partitions
    )
    return told.TopicDescription(name, topic_id, internal, described)


def describe_configs(
    native: AdminClient,
    resources: Iterable[told.ConfigResource],
    keys: Iterable[str] | None,
    synonyms: bool,
    documentation: bool,
    timeout: float | None,
) -> Call[dict[told.ConfigResource, dict[str, told.ConfigEntry]]]:
    """Start describing configurations."""
    wanted = None if keys is None else [key.replace("_", ".") for key in keys]
    arguments = [_resource(resource) for resource in resources]
    operation = native.describe_configs(arguments, wanted, synonyms, documentation, timeout)
    return Call(operation, lambda results: settled(results, _resource_of, _entries))


def list_config_resources(
    native: AdminClient, kinds: Iterable[told.ResourceKind] | None, timeout: float | None
) -> Call[list[told.ConfigResource]]:
    """Start listing what has a configuration."""
    numbers = [_kind(kind) for kind in kinds or ()]

    def finish(listed: Any) -> list[told.ConfigResource]:
        return [_resource_of(resource) for resource in listed if resource[0] in _KIND_NAMES]

    return Call(native.list_config_resources(numbers, timeout), finish)


def alter_configs(
    native: AdminClient,
    changes: Mapping[told.ConfigResource, Mapping[str, ConfigChange]],
    validate_only: bool,
    timeout: float | None,
) -> Call[None]:
    """Start changing configurations."""
    arguments = [
        (_resource(resource), [_change(key, value) for key, value in of.items()])
        for resource, of in changes.items()
    ]
    operation = native.alter_configs(arguments, validate_only, timeout)
    given = {
        resource: (_KIND_NAMES[resource[0]], [key for key, *_ in changed])
        for resource, changed in arguments
        if _KIND_NAMES[resource[0]] in ("topic", "broker")
    }
    return Call(
        operation,
        lambda results: _nothing(settled(_hinted(results, given), _resource_of, _nothing)),
    )


def _kind(kind: str) -> int:
    number = _KINDS.get(kind)
    if number is None:
        raise InvalidArgumentError(f"INVALID_REQUEST: kinds: {kind!r} is not {', '.join(_KINDS)}")
    return number


def _resource(resource: told.ConfigResource) -> tuple[int, str]:
    return _KINDS[resource.kind], str(resource.name)


def _resource_of(pair: Any) -> told.ConfigResource:
    kind, name = pair
    return told.ConfigResource(_KIND_NAMES.get(kind, "topic"), name)


def _change(key: str, value: ConfigChange) -> tuple[str, int, str | None]:
    name = key.replace("_", ".")
    if value is None:
        return name, 1, None
    if isinstance(value, told.Append):
        return name, 2, text_of(key, value.values)
    if isinstance(value, told.Subtract):
        return name, 3, text_of(key, value.values)
    return name, 0, text_of(key, value)


def _entries(entries: Any) -> dict[str, told.ConfigEntry]:
    described = {}
    for name, value, source, read_only, sensitive, kind, documentation, synonyms in entries:
        described[name] = told.ConfigEntry(
            name,
            value,
            _SOURCES.get(source, "unknown"),
            read_only,
            sensitive,
            _TYPES[kind] if 0 <= kind < len(_TYPES) else "unknown",
            documentation,
            tuple(
                told.ConfigSynonym(other, its, _SOURCES.get(place, "unknown"))
                for other, its, place in synonyms
            ),
        )
    return described


def list_offsets(
    native: AdminClient,
    partitions: Iterable[Partition],
    at: OffsetAt,
    read_committed: bool,
    timeout: float | None,
) -> Call[dict[TopicPartition, told.ListedOffset]]:
    """Start looking up offsets."""
    time = time_of(at)
    operation = native.list_offsets(
        [(_pair(of), time) for of in partitions], read_committed, timeout
    )

    def listed(fields: Any) -> told.ListedOffset:
        offset, timestamp_ms, epoch = fields
        return told.ListedOffset(offset, timestamp_ms if timestamp_ms >= 0 else None, epoch)

    return Call(operation, lambda results: settled(results, partition_of, listed))


def delete_records(
    native: AdminClient,
    before: Mapping[Place, int | Literal["end"]],
    timeout: float | None,
) -> Call[dict[TopicPartition, int]]:
    """Start removing records."""
    arguments = [(_pair(of), -1 if at == "end" else at) for of, at in before.items()]
    operation = native.delete_records(arguments, timeout)
    return Call(operation, lambda results: settled(results, partition_of, _same))


def partition_of(pair: Any) -> TopicPartition:
    """Return a pair of the binary as a partition."""
    return TopicPartition(*pair)


def _pair(of: Partition) -> tuple[str, int]:
    topic, number = of
    return topic, number


def pairs(partitions: Iterable[Partition] | None) -> list[tuple[str, int]] | None:
    """Return partitions as the binary takes them."""
    return None if partitions is None else [(topic, number) for topic, number in partitions]


def describe_cluster(native: AdminClient, timeout: float | None) -> Call[told.ClusterDescription]:
    """Start describing the cluster."""

    def finish(fields: Any) -> told.ClusterDescription:
        cluster_id, controller, brokers = fields
        described = tuple(told.BrokerDescription(*broker) for broker in brokers)
        return told.ClusterDescription(cluster_id, controller, described)

    return Call(native.describe_cluster(timeout), finish)


def describe_quorum(native: AdminClient, timeout: float | None) -> Call[told.QuorumDescription]:
    """Start describing the controller quorum."""

    def finish(fields: Any) -> told.QuorumDescription:
        leader, epoch, high_watermark, voters, observers = fields
        return told.QuorumDescription(
            leader,
            epoch,
            high_watermark,
            tuple(told.QuorumReplica(*voter) for voter in voters),
            tuple(told.QuorumReplica(*observer) for observer in observers),
        )

    return Call(native.describe_quorum(timeout), finish)


def describe_log_dirs(
    native: AdminClient, brokers: Iterable[int] | None, timeout: float | None
) -> Call[dict[int, list[told.LogDirDescription]]]:
    """Start describing directories."""

    def described(dirs: Any) -> list[told.LogDirDescription]:
        return [
            told.LogDirDescription(
                path,
                error,
                total,
                usable,
                tuple(
                    told.ReplicaDescription(TopicPartition(*of), size, lag, future)
                    for of, size, lag, future in replicas
                ),
            )
            for path, error, total, usable, replicas in dirs
        ]

    asked = None if brokers is None else list(brokers)
    operation = native.describe_log_dirs(asked, timeout)
    return Call(operation, lambda results: settled(results, _same, described))


def elect_leaders(
    native: AdminClient,
    partitions: Iterable[Partition] | None,
    unclean: bool,
    timeout: float | None,
) -> Call[dict[TopicPartition, bool]]:
    """Start electing leaders."""
    operation = native.elect_leaders(unclean, pairs(partitions), timeout)
    return Call(
        operation,
        lambda results: settled(results, partition_of, bool, _ELECTION_NOT_NEEDED),
    )


def reassign_partitions(
    native: AdminClient,
    targets: Mapping[Place, Sequence[int] | None],
    timeout: float | None,
) -> Call[None]:
    """Start moving replicas."""
    arguments = [(_pair(of), None if to is None else list(to)) for of, to in targets.items()]
    operation = native.alter_reassignments(arguments, timeout)
    return Call(operation, lambda results: _nothing(settled(results, partition_of, _nothing)))


def list_reassignments(
    native: AdminClient, partitions: Iterable[Partition] | None, timeout: float | None
) -> Call[dict[TopicPartition, told.Reassignment]]:
    """Start listing moving replicas."""

    def finish(moving: Any) -> dict[TopicPartition, told.Reassignment]:
        return {
            TopicPartition(*of): told.Reassignment(tuple(replicas), tuple(adding), tuple(removing))
            for of, replicas, adding, removing in moving
        }

    return Call(native.list_reassignments(pairs(partitions), timeout), finish)
