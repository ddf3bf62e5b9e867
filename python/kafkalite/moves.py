"""Leaders and coordinators that move on purpose: ``broker.faults.move_leader("orders", 0)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .faults import Fault, command

if TYPE_CHECKING:
    from .broker import Broker
    from .cluster import Cluster
    from .faults import Send

__all__ = ["ClusterFaults", "MovedLeader", "Moves"]


@dataclass(frozen=True)
class MovedLeader:
    """A leader that moved."""

    topic: str
    """The topic."""
    partition: int
    """The partition's number."""
    before: int
    """The broker that led it; -1 is none."""
    leader: int
    """The broker that leads it now: the same one where no other replica is in sync."""
    leader_epoch: int
    """The epoch of that leader."""


@dataclass(frozen=True)
class Moves:
    """What moved. In ``with`` its faults are removed at the end of the block; leaders stay."""

    moved: list[MovedLeader]
    """The leaders, by topic and partition."""
    faults: list[Fault]
    """The errors that clients get, where the same broker leads on."""

    def __enter__(self) -> Moves:
        """Return what moved."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the faults."""
        for fault in self.faults:
            fault.remove()


def move(send: Send, path: str, **members: Any) -> Moves:
    """Send a command that moves leaders.

    Args:
        send: What sends it.
        path: The path below ``/api/v1``.
        **members: The command; ``None`` is left out.

    Raises:
        IllegalStateError: The broker does not run, or test control is off.
        InvalidArgumentError: There is no such partition, or no such replica can lead it.
    """
    given = {name: value for name, value in members.items() if value is not None}
    told = command(send, "POST", path, given)
    moved = [
        MovedLeader(
            topic=one["topic"],
            partition=one["partition"],
            before=one["from"],
            leader=one["to"],
            leader_epoch=one["leader_epoch"],
        )
        for one in told["moved"]
    ]
    faults = [Fault(send, command(send, "GET", f"/faults/{number}")) for number in told["faults"]]
    return Moves(moved, faults)


class ClusterFaults:
    """Leaders of a cluster that move. Other faults are those of its brokers."""

    def __init__(self, cluster: Cluster) -> None:
        """Use the brokers of a cluster."""
        self._cluster = cluster

    def move_leader(self, topic: str, partition: int, to: int | None = None) -> MovedLeader:
        """Have another in-sync replica lead a partition.

        Args:
            topic: The topic.
            partition: The partition's number.
            to: The id of a broker; ``None`` is the next replica that is in sync.

        Raises:
            UnknownTopicError: There is no such topic.
            InvalidArgumentError: The broker has no replica that is in sync.
            RequestTimedOut: No running broker leads the partition.
        """
        leader = self._cluster.leader_of(topic, partition)
        (moved,) = leader.faults.move_leader(topic, partition, to, times=0).moved
        return moved

    def shuffle_leaders(self, topic: str | None = None, *, seed: int = 0) -> list[MovedLeader]:
        """Have another in-sync replica lead each partition, chosen by chance.

        Args:
            topic: The topic; ``None`` is every topic but internal ones.
            seed: The same seed chooses the same leaders.
        """
        return self._any().faults.shuffle_leaders(topic, seed=seed, times=0).moved

    def move_coordinator(self, group: str, to: int | None = None) -> MovedLeader:
        """Have another broker coordinate a group.

        Args:
            group: The group's id.
            to: The id of a broker; ``None`` is the next one that has its offsets.

        Raises:
            InvalidArgumentError: No group was coordinated yet, or the broker lacks the offsets.
        """
        (moved,) = self._any().faults.move_coordinator(group, to, times=0).moved
        return moved

    def clear(self) -> int:
        """Remove the faults of all brokers that run; return how many there were."""
        running = [broker for broker in self._cluster.brokers if broker._servers is not None]
        return sum(broker.faults.clear() for broker in running)

    def _any(self) -> Broker:
        running = [broker for broker in self._cluster.brokers if broker._servers is not None]
        if not running:
            from .errors import IllegalStateError

            raise IllegalStateError("ILLEGAL_STATE: the cluster does not run")
        return running[0]
