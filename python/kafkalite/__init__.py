"""kafkalite: a Kafka broker that pip installs.

Importing this package imports nothing but itself; each public name is loaded
when it is first used, so that ``python -m kafkalite serve`` listens at once.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._native import BatchDelivery as BatchDelivery
    from ._native import DeliveredRange as DeliveredRange
    from ._native import Delivery as Delivery
    from ._native import RecordMetadata as RecordMetadata
    from ._native import __version__ as __version__
    from .admin import AdminClient as AdminClient
    from .admin_calls import OffsetAt as OffsetAt
    from .aio.admin import AsyncAdminClient as AsyncAdminClient
    from .aio.consumer import AsyncConsumer as AsyncConsumer
    from .aio.producer import AsyncProducer as AsyncProducer
    from .broker import Broker as Broker
    from .cluster import Cluster as Cluster
    from .consumer import Consumer as Consumer
    from .descriptions import Append as Append
    from .descriptions import BrokerDescription as BrokerDescription
    from .descriptions import ClusterDescription as ClusterDescription
    from .descriptions import CommittedOffset as CommittedOffset
    from .descriptions import ConfigEntry as ConfigEntry
    from .descriptions import ConfigResource as ConfigResource
    from .descriptions import ConfigSynonym as ConfigSynonym
    from .descriptions import CreatedTopic as CreatedTopic
    from .descriptions import FeatureLevels as FeatureLevels
    from .descriptions import FeatureMetadata as FeatureMetadata
    from .descriptions import GroupDescription as GroupDescription
    from .descriptions import GroupListing as GroupListing
    from .descriptions import ListedOffset as ListedOffset
    from .descriptions import LogDirDescription as LogDirDescription
    from .descriptions import MemberDescription as MemberDescription
    from .descriptions import NewTopic as NewTopic
    from .descriptions import PartitionDescription as PartitionDescription
    from .descriptions import PartitionLag as PartitionLag
    from .descriptions import QuorumDescription as QuorumDescription
    from .descriptions import QuorumReplica as QuorumReplica
    from .descriptions import Reassignment as Reassignment
    from .descriptions import ReplicaDescription as ReplicaDescription
    from .descriptions import Subtract as Subtract
    from .descriptions import TopicDescription as TopicDescription
    from .errors import AuthenticationError as AuthenticationError
    from .errors import AuthorizationError as AuthorizationError
    from .errors import BrokerError as BrokerError
    from .errors import BrokerStartError as BrokerStartError
    from .errors import BufferFullError as BufferFullError
    from .errors import ClosedError as ClosedError
    from .errors import ConfigError as ConfigError
    from .errors import ConnectionLostError as ConnectionLostError
    from .errors import CoordinatorUnavailableError as CoordinatorUnavailableError
    from .errors import DeliveryTimeout as DeliveryTimeout
    from .errors import FencedInstanceError as FencedInstanceError
    from .errors import ForkedClientError as ForkedClientError
    from .errors import GroupError as GroupError
    from .errors import GroupNotEmptyError as GroupNotEmptyError
    from .errors import GroupNotFoundError as GroupNotFoundError
    from .errors import IllegalStateError as IllegalStateError
    from .errors import InvalidArgumentError as InvalidArgumentError
    from .errors import InvalidPartitionsError as InvalidPartitionsError
    from .errors import InvalidRecordError as InvalidRecordError
    from .errors import InvalidTopicError as InvalidTopicError
    from .errors import KafkaliteError as KafkaliteError
    from .errors import LeaderUnavailableError as LeaderUnavailableError
    from .errors import MalformedResponse as MalformedResponse
    from .errors import MessageTooLarge as MessageTooLarge
    from .errors import NoBrokerReachable as NoBrokerReachable
    from .errors import NoOffsetError as NoOffsetError
    from .errors import NotEnoughReplicasError as NotEnoughReplicasError
    from .errors import OffsetOutOfRangeError as OffsetOutOfRangeError
    from .errors import OutOfOrderSequenceError as OutOfOrderSequenceError
    from .errors import PartialError as PartialError
    from .errors import PolicyViolationError as PolicyViolationError
    from .errors import ProducerFencedError as ProducerFencedError
    from .errors import RebalanceError as RebalanceError
    from .errors import RequestTimedOut as RequestTimedOut
    from .errors import SerializationError as SerializationError
    from .errors import StorageError as StorageError
    from .errors import TopicExistsError as TopicExistsError
    from .errors import TransactionError as TransactionError
    from .errors import UnknownTopicError as UnknownTopicError
    from .errors import UnsupportedVersionError as UnsupportedVersionError
    from .logs import forward_logs as forward_logs
    from .producer import Producer as Producer
    from .ranges import ColumnBatch as ColumnBatch
    from .ranges import OffsetRange as OffsetRange
    from .ranges import RangeReader as RangeReader
    from .reading import Reading as Reading
    from .reading import read as read
    from .records import Record as Record
    from .records import RecordBatch as RecordBatch
    from .records import TopicPartition as TopicPartition
    from .serializers import JsonSerializer as JsonSerializer
    from .serializers import StringSerializer as StringSerializer

__all__ = [
    "AdminClient",
    "Append",
    "AsyncAdminClient",
    "AsyncConsumer",
    "AsyncProducer",
    "AuthenticationError",
    "AuthorizationError",
    "BatchDelivery",
    "Broker",
    "BrokerDescription",
    "BrokerError",
    "BrokerStartError",
    "BufferFullError",
    "ClosedError",
    "Cluster",
    "ClusterDescription",
    "ColumnBatch",
    "CommittedOffset",
    "ConfigEntry",
    "ConfigError",
    "ConfigResource",
    "ConfigSynonym",
    "ConnectionLostError",
    "Consumer",
    "CoordinatorUnavailableError",
    "CreatedTopic",
    "DeliveredRange",
    "Delivery",
    "DeliveryTimeout",
    "FeatureLevels",
    "FeatureMetadata",
    "FencedInstanceError",
    "ForkedClientError",
    "GroupDescription",
    "GroupError",
    "GroupListing",
    "GroupNotEmptyError",
    "GroupNotFoundError",
    "IllegalStateError",
    "InvalidArgumentError",
    "InvalidPartitionsError",
    "InvalidRecordError",
    "InvalidTopicError",
    "JsonSerializer",
    "KafkaliteError",
    "LeaderUnavailableError",
    "ListedOffset",
    "LogDirDescription",
    "MalformedResponse",
    "MemberDescription",
    "MessageTooLarge",
    "NewTopic",
    "NoBrokerReachable",
    "NoOffsetError",
    "NotEnoughReplicasError",
    "OffsetAt",
    "OffsetOutOfRangeError",
    "OffsetRange",
    "OutOfOrderSequenceError",
    "PartialError",
    "PartitionDescription",
    "PartitionLag",
    "PolicyViolationError",
    "Producer",
    "ProducerFencedError",
    "QuorumDescription",
    "QuorumReplica",
    "RangeReader",
    "Reading",
    "Reassignment",
    "RebalanceError",
    "Record",
    "RecordBatch",
    "RecordMetadata",
    "ReplicaDescription",
    "RequestTimedOut",
    "SerializationError",
    "StorageError",
    "StringSerializer",
    "Subtract",
    "TopicDescription",
    "TopicExistsError",
    "TopicPartition",
    "TransactionError",
    "UnknownTopicError",
    "UnsupportedVersionError",
    "__version__",
    "forward_logs",
    "read",
]

_HOMES = {
    "AdminClient": "kafkalite.admin",
    "Append": "kafkalite.descriptions",
    "AsyncAdminClient": "kafkalite.aio.admin",
    "AsyncConsumer": "kafkalite.aio.consumer",
    "AsyncProducer": "kafkalite.aio.producer",
    "AuthenticationError": "kafkalite.errors",
    "AuthorizationError": "kafkalite.errors",
    "BatchDelivery": "kafkalite._native",
    "Broker": "kafkalite.broker",
    "BrokerDescription": "kafkalite.descriptions",
    "BrokerError": "kafkalite.errors",
    "BrokerStartError": "kafkalite.errors",
    "BufferFullError": "kafkalite.errors",
    "ClosedError": "kafkalite.errors",
    "Cluster": "kafkalite.cluster",
    "ClusterDescription": "kafkalite.descriptions",
    "ColumnBatch": "kafkalite.ranges",
    "CommittedOffset": "kafkalite.descriptions",
    "ConfigEntry": "kafkalite.descriptions",
    "ConfigError": "kafkalite.errors",
    "ConfigResource": "kafkalite.descriptions",
    "ConfigSynonym": "kafkalite.descriptions",
    "ConnectionLostError": "kafkalite.errors",
    "Consumer": "kafkalite.consumer",
    "CoordinatorUnavailableError": "kafkalite.errors",
    "CreatedTopic": "kafkalite.descriptions",
    "DeliveredRange": "kafkalite._native",
    "Delivery": "kafkalite._native",
    "DeliveryTimeout": "kafkalite.errors",
    "FeatureLevels": "kafkalite.descriptions",
    "FeatureMetadata": "kafkalite.descriptions",
    "FencedInstanceError": "kafkalite.errors",
    "ForkedClientError": "kafkalite.errors",
    "GroupDescription": "kafkalite.descriptions",
    "GroupError": "kafkalite.errors",
    "GroupListing": "kafkalite.descriptions",
    "GroupNotEmptyError": "kafkalite.errors",
    "GroupNotFoundError": "kafkalite.errors",
    "IllegalStateError": "kafkalite.errors",
    "InvalidArgumentError": "kafkalite.errors",
    "InvalidPartitionsError": "kafkalite.errors",
    "InvalidRecordError": "kafkalite.errors",
    "InvalidTopicError": "kafkalite.errors",
    "JsonSerializer": "kafkalite.serializers",
    "KafkaliteError": "kafkalite.errors",
    "LeaderUnavailableError": "kafkalite.errors",
    "ListedOffset": "kafkalite.descriptions",
    "LogDirDescription": "kafkalite.descriptions",
    "MalformedResponse": "kafkalite.errors",
    "MemberDescription": "kafkalite.descriptions",
    "MessageTooLarge": "kafkalite.errors",
    "NewTopic": "kafkalite.descriptions",
    "NoBrokerReachable": "kafkalite.errors",
    "NoOffsetError": "kafkalite.errors",
    "NotEnoughReplicasError": "kafkalite.errors",
    "OffsetAt": "kafkalite.admin_calls",
    "OffsetOutOfRangeError": "kafkalite.errors",
    "OffsetRange": "kafkalite.ranges",
    "OutOfOrderSequenceError": "kafkalite.errors",
    "PartialError": "kafkalite.errors",
    "PartitionDescription": "kafkalite.descriptions",
    "PartitionLag": "kafkalite.descriptions",
    "PolicyViolationError": "kafkalite.errors",
    "Producer": "kafkalite.producer",
    "ProducerFencedError": "kafkalite.errors",
    "QuorumDescription": "kafkalite.descriptions",
    "QuorumReplica": "kafkalite.descriptions",
    "RangeReader": "kafkalite.ranges",
    "Reading": "kafkalite.reading",
    "Reassignment": "kafkalite.descriptions",
    "RebalanceError": "kafkalite.errors",
    "Record": "kafkalite.records",
    "RecordBatch": "kafkalite.records",
    "RecordMetadata": "kafkalite._native",
    "ReplicaDescription": "kafkalite.descriptions",
    "RequestTimedOut": "kafkalite.errors",
    "SerializationError": "kafkalite.errors",
    "StorageError": "kafkalite.errors",
    "StringSerializer": "kafkalite.serializers",
    "Subtract": "kafkalite.descriptions",
    "TopicDescription": "kafkalite.descriptions",
    "TopicExistsError": "kafkalite.errors",
    "TopicPartition": "kafkalite.records",
    "TransactionError": "kafkalite.errors",
    "UnknownTopicError": "kafkalite.errors",
    "UnsupportedVersionError": "kafkalite.errors",
    "__version__": "kafkalite._native",
    "forward_logs": "kafkalite.logs",
    "read": "kafkalite.reading",
}


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in."""
    home = _HOMES.get(name)
    if home is None:
        hint = ""
        if not name.startswith("_"):
            from .arguments import class_hint

            hint = class_hint(name)
        raise AttributeError(f"module 'kafkalite' has no attribute {name!r}{hint}")
    import importlib

    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, sorted."""
    return sorted(__all__)
