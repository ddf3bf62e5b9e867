"""What can go wrong, as exceptions.

Catch a branch of this tree, or all of it::

    KafkaliteError                     anything kafkalite refuses or cannot do
    ├── BrokerStartError               a broker of ours does not start
    ├── ConfigError                    a key or a value that cannot be        (also a ValueError)
    ├── InvalidArgumentError           an argument that cannot be             (also a ValueError)
    ├── IllegalStateError              not now: the call needs another one before it
    │   ├── ClosedError                the client was closed
    │   └── ForkedClientError          the client was made before a fork
    ├── SerializationError             a value could not be written or read
    ├── MessageTooLarge                a record, or a batch, beyond a limit
    ├── UnsupportedVersionError        the broker does not serve what is needed
    ├── MalformedResponse              the broker sent what the protocol does not allow
    ├── BufferFullError                the producer's memory stayed full
    ├── NoOffsetError                  nothing says where to begin to read
    ├── PartialError                   some of several things failed; ``.done`` and ``.errors``
    ├── NoBrokerReachable              nobody answers at any address        (also a ConnectionError)
    ├── ConnectionLostError            a connection ended too early         (also a ConnectionError)
    ├── RequestTimedOut                no answer in time                      (also a TimeoutError)
    │   └── DeliveryTimeout            a record was not acknowledged in time
    └── BrokerError                    a broker answered, and refused
        ├── UnknownTopicError          no such topic or partition
        ├── TopicExistsError           the name is taken
        ├── InvalidTopicError          a name that no topic can have
        ├── InvalidPartitionsError     a number of partitions or replicas that cannot be
        ├── LeaderUnavailableError     the leader moves or is missing: try again
        ├── CoordinatorUnavailableError the coordinator moves or loads: try again
        ├── NotEnoughReplicasError     fewer in sync than min.insync.replicas
        ├── OffsetOutOfRangeError      no record has this offset
        ├── InvalidRecordError         a record or batch that no broker keeps
        ├── AuthenticationError        who are you?
        ├── AuthorizationError         you may not
        ├── PolicyViolationError       the cluster's own rules
        ├── StorageError               a broker's disk
        ├── ProducerFencedError        another producer took this one's place; fatal
        ├── OutOfOrderSequenceError    batches of this producer are missing
        ├── TransactionError           of a transaction
        └── GroupError                 of a consumer group
            ├── GroupNotFoundError     no such group
            ├── GroupNotEmptyError     it still has members
            ├── RebalanceError         the group forms anew, or did without this member
            └── FencedInstanceError    another member has this ``group.instance.id``; fatal

Every exception's text begins with a name in capitals, Kafka's own where it has one. The text of a
broker that does not start is that of ``kafkalite serve``. Which code of Kafka becomes
which class stands in one place, in the binary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .records import TopicPartition

__all__ = [
    "AuthenticationError",
    "AuthorizationError",
    "BrokerError",
    "BrokerStartError",
    "BufferFullError",
    "ClosedError",
    "ConfigError",
    "ConnectionLostError",
    "CoordinatorUnavailableError",
    "DeliveryTimeout",
    "FencedInstanceError",
    "ForkedClientError",
    "GroupError",
    "GroupNotEmptyError",
    "GroupNotFoundError",
    "IllegalStateError",
    "InvalidArgumentError",
    "InvalidPartitionsError",
    "InvalidRecordError",
    "InvalidTopicError",
    "KafkaliteError",
    "LeaderUnavailableError",
    "MalformedResponse",
    "MessageTooLarge",
    "NoBrokerReachable",
    "NoOffsetError",
    "NotEnoughReplicasError",
    "OffsetOutOfRangeError",
    "OutOfOrderSequenceError",
    "PartialError",
    "PolicyViolationError",
    "ProducerFencedError",
    "RebalanceError",
    "RequestTimedOut",
    "SerializationError",
    "StorageError",
    "TopicExistsError",
    "TransactionError",
    "UnknownTopicError",
    "UnsupportedVersionError",
]


class KafkaliteError(Exception):
    """Anything kafkalite refuses or cannot do.

    Args:
        message: What ``str()`` gives.
        code: Kafka's number of the error, where Kafka has one.
        retriable: Whether the same call can succeed later without a change of the program.
        fatal: Whether this client can do no more, so that only a new one helps.
        hint: What to do about it; it stands below the traceback as well.
    """

    code: int | None
    retriable: bool
    fatal: bool
    hint: str | None

    def __init__(
        self,
        message: str = "",
        *,
        code: int | None = None,
        retriable: bool = False,
        fatal: bool = False,
        hint: str | None = None,
    ) -> None:
        """Make an error."""
        super().__init__(message)
        self.code = code
        self.retriable = retriable
        self.fatal = fatal
        self.hint = None
        if hint:
            self.give_hint(hint)

    def give_hint(self, hint: str) -> None:
        """Set the hint, if the error has none yet."""
        self.hint = hint
        self.add_note(f"hint: {hint}")

    @property
    def name(self) -> str:
        """The name in capitals that the text begins with; empty where there is none."""
        name, colon, _ = str(self).partition(":")
        return name if colon and name.isupper() and " " not in name else ""


class BrokerStartError(KafkaliteError):
    """The broker does not start: a wrong configuration, a taken port, a locked directory."""


class ConfigError(KafkaliteError, ValueError):
    """A key or a value that cannot be, of a client, a topic or a broker."""


class InvalidArgumentError(KafkaliteError, ValueError):
    """An argument that cannot be."""


class IllegalStateError(KafkaliteError):
    """Not now: the call needs another one before it."""


class ClosedError(IllegalStateError):
    """The client was closed."""


class ForkedClientError(IllegalStateError):
    """The client was made before a fork: its thread lives in the parent process."""


class SerializationError(KafkaliteError, ValueError):
    """A serializer or deserializer could not write or read a value.

    Attributes:
        partition: Where the record is that could not be read, and
        offset: its offset there; of one that was to be sent there is neither. To go on without
            it: ``consumer.seek(error.partition, error.offset + 1)``.
    """

    partition: TopicPartition
    offset: int


class MessageTooLarge(KafkaliteError):
    """A record, or a batch, is larger than ``max.request.size`` or ``max.message.bytes``."""


class UnsupportedVersionError(KafkaliteError):
    """The broker does not serve an API, or none of the versions this client speaks."""


class MalformedResponse(KafkaliteError):
    """The broker sent what Kafka's protocol does not allow; the connection was closed."""


class BufferFullError(KafkaliteError):
    """The producer's ``buffer.memory`` stayed full for ``max.block.ms``."""


class NoOffsetError(KafkaliteError):
    """A partition has no committed offset, and ``auto.offset.reset`` is ``none``: seek first."""


class PartialError(KafkaliteError):
    """Some of several things failed, the others were done.

    Attributes:
        done: What came of those that succeeded, by name, group or partition.
        errors: What the others failed with.
    """

    done: Mapping[Any, Any]
    errors: Mapping[Any, KafkaliteError]

    def __init__(
        self,
        message: str = "",
        *,
        done: Mapping[Any, Any] | None = None,
        errors: Mapping[Any, KafkaliteError] | None = None,
    ) -> None:
        """Make an error of several."""
        self.done = done or {}
        self.errors = errors or {}
        retriable = all(error.retriable for error in self.errors.values())
        hints = {error.hint for error in self.errors.values()}
        shared = hints.pop() if len(hints) == 1 else None
        super().__init__(message, retriable=retriable, hint=shared)


class NoBrokerReachable(KafkaliteError, ConnectionError):
    """No broker answers at any address of the cluster.

    Attributes:
        causes: Each address that was tried, and what happened there.
    """

    causes: Mapping[str, str]

    def __init__(
        self, message: str = "", *, causes: Mapping[str, str] | None = None, **attributes: Any
    ) -> None:
        """Make an error."""
        super().__init__(message, **attributes)
        self.causes = causes or {}


class ConnectionLostError(KafkaliteError, ConnectionError):
    """The connection ended while something was on its way."""


class RequestTimedOut(KafkaliteError, TimeoutError):
    """No answer came in time; the request may still have taken effect."""


class DeliveryTimeout(RequestTimedOut):
    """A record was not acknowledged within ``delivery.timeout.ms``; it may be stored even so."""


class BrokerError(KafkaliteError):
    """A broker answered, and refused; ``code`` is Kafka's."""


class UnknownTopicError(BrokerError):
    """There is no such topic, or it has no such partition."""


class TopicExistsError(BrokerError):
    """A topic of this name exists."""


class InvalidTopicError(BrokerError):
    """A name that no topic can have."""


class InvalidPartitionsError(BrokerError):
    """A number of partitions, a replication factor or an assignment that cannot be."""


class LeaderUnavailableError(BrokerError):
    """The partition's leader moves or is missing; trying again helps."""


class CoordinatorUnavailableError(BrokerError):
    """The group's coordinator moves or is not ready; trying again helps."""


class NotEnoughReplicasError(BrokerError):
    """Fewer replicas are in sync than ``min.insync.replicas`` asks for."""


class OffsetOutOfRangeError(BrokerError):
    """No record of the partition has this offset any more, or yet."""


class InvalidRecordError(BrokerError):
    """A record or a batch that the broker does not keep: its key, timestamp, checksum, codec."""


class AuthenticationError(BrokerError):
    """The broker does not know who this client is."""


class AuthorizationError(BrokerError):
    """The broker knows who this client is, and does not let it."""


class PolicyViolationError(BrokerError):
    """The cluster's own rules forbid it."""


class StorageError(BrokerError):
    """A disk of the broker failed."""


class ProducerFencedError(BrokerError):
    """Another producer took this one's place; this one can send no more."""


class OutOfOrderSequenceError(BrokerError):
    """The broker misses batches that this producer sent before."""


class TransactionError(BrokerError):
    """Of a transaction: its state does not allow what was asked."""


class GroupError(BrokerError):
    """Of a consumer group."""


class GroupNotFoundError(GroupError):
    """There is no such group."""


class GroupNotEmptyError(GroupError):
    """The group still has members."""


class RebalanceError(GroupError):
    """The group rebalances, or has done so without this member."""


class FencedInstanceError(GroupError):
    """Another member has this ``group.instance.id``."""
