"""A cluster of brokers for tests: they replicate, elect leaders, and can be killed and divided.

Each is the broker that ``kafkalite serve --join`` runs. The first one begins the cluster, the
others join it. A broker's id is its place in ``Cluster.brokers``.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .arguments import checked_count, checked_seconds
from .broker import Broker, partitions_of
from .cluster_member import Member
from .errors import (
    ConfigError,
    ConnectionLostError,
    IllegalStateError,
    InvalidArgumentError,
    NoBrokerReachable,
    RequestTimedOut,
)

if TYPE_CHECKING:
    from typing import Never, Self

    from .admin import AdminClient
    from .descriptions import PartitionDescription
    from .moves import ClusterFaults

__all__ = ["Cluster"]

#: Keys that each broker of a cluster has for itself.
_OWN_KEYS = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "kafkalite.admin.port",
        "kafkalite.join",
        "listeners",
        "log.dir",
        "log.dirs",
        "node.id",
    }
)
#: The most replicas that a topic has unless something else is said.
_REPLICAS = 3
#: Voters of the metadata, as soon as there are as many brokers. One broker votes until then.
_VOTERS = 3
#: The file in a directory of the caller's with the ports that the system chose.
_PORTS = "ports"
#: Seconds until all brokers of a cluster must serve.
_START_S = 30.0
#: Seconds until one broker must answer one question.
_ANSWER_S = 5.0
#: Between two looks at a cluster, in seconds.
_LOOK_S = 0.005


class Cluster:
    """Several real brokers that are one cluster, as a context manager.

    Topics have three replicas, and ``acks=all`` waits for two of them, unless ``config`` or the
    topic says something else. With fewer brokers these are as many as there are, and one less.

    Args:
        brokers: How many brokers.
        host: Address to listen on.
        port: Port of the first broker; the others have the next ones. 0 lets the system choose.
        data_dir: Where each broker has a directory for its records. The ports that the system chose
            are kept there too. ``None`` is temporary directories, as of ``Broker``.
        topics: Topics that are there when the cluster serves: names, or names with their numbers
            of partitions.
        config: Any keys of the broker, with dots; they count for every broker.
        racks: The rack of each broker, in their order. With ``replica.selector.class`` a consumer
            with ``client.rack`` reads from a replica in its rack.
        admin_port: Port of metrics and health of the first broker; the others have the next ones.
            ``None`` is off, 0 lets the system choose.
        in_process: ``False`` runs each broker in a process of its own, so that ``kill()`` is a real
            crash.
        log_level: From which level on log lines go to Python's ``logging``, as of ``Broker``.

    Source:
        The keys are those of Apache Kafka's broker and ``kafkalite.*``.
    """

    def __init__(
        self,
        brokers: int = 3,
        *_positional: Never,
        host: str = "127.0.0.1",
        port: int = 0,
        data_dir: str | os.PathLike[str] | None = None,
        topics: Iterable[str] | Mapping[str, int] = (),
        config: Mapping[str, object] | None = None,
        racks: Sequence[str] | None = None,
        admin_port: int | None = None,
        in_process: bool = True,
        log_level: str | int | None = None,
    ) -> None:
        """Configure a cluster; ``start()`` or ``with`` starts it."""
        if _positional:
            raise TypeError("Cluster() takes the number of brokers, and keywords after it")
        if checked_count("brokers", brokers) < 1:
            raise InvalidArgumentError("INVALID_REQUEST: a cluster has one broker or more")
        if config is not None and not isinstance(config, Mapping):
            raise TypeError(f"config must be a mapping of keys, not {type(config).__name__}")
        if racks is not None and (isinstance(racks, str) or len(racks) != brokers):
            raise InvalidArgumentError(
                f"INVALID_REQUEST: racks names {brokers} racks, one for each broker, not {racks!r}"
            )
        keys = _defaults(brokers) | dict(config or {})
        if own := sorted(_OWN_KEYS.intersection(keys)):
            raise ConfigError(
                f"INVALID_CONFIG: {own[0]}: each broker of a cluster has its own",
                hint="host=, port=, data_dir= and admin_port= say where the brokers are.",
            )
        self._topics = partitions_of(topics)
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._brokers = tuple(
            Member(
                host=host,
                port=port and port + number,
                data_dir=self._data_dir and self._data_dir / f"broker-{number}",
                config={"node.id": number, **keys, **_rack(racks, number)},
                admin_port=admin_port and admin_port + number,
                in_process=in_process,
                log_level=log_level,
            )
            for number in range(brokers)
        )
        for broker in self._brokers:
            broker.others = tuple(other for other in self._brokers if other is not broker)
        self._admins: dict[int, AdminClient] = {}
        self._addresses: tuple[str, ...] | None = None
        self._lock = threading.RLock()

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """All brokers, by id; ``kill()``, ``stop()`` and ``start()`` one of them."""
        return self._brokers

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, for clients: also of those that are down now.

        Raises:
            IllegalStateError: The cluster does not run.
        """
        return ",".join(self._running())

    @property
    def faults(self) -> ClusterFaults:
        """Leaders and coordinators that move on purpose; other faults are those of ``brokers``."""
        from .moves import ClusterFaults

        return ClusterFaults(self)

    def start(self) -> None:
        """Start all brokers that are down; all serve when this returns, with the data they had.

        Raises:
            BrokerStartError: A wrong configuration, a taken port, a locked directory.
            RequestTimedOut: The brokers do not form a cluster in time.
        """
        with self._lock:
            is_new = self._addresses is None
            try:
                self._prepare()
                _all_together([broker.start for broker in self._brokers])
                self._addresses = tuple(broker.bootstrap_servers for broker in self._brokers)
                self.wait_ready(_START_S)
                self._make_topics()
            except BaseException:
                # What was there before stays.
                if is_new:
                    self.close()
                raise

    def stop(self) -> None:
        """Stop all brokers cleanly; data and ports stay, for another ``start()``."""
        with self._lock:
            self._forget_admins()
            for broker in self._brokers:
                broker.stop()

    def close(self) -> None:
        """Stop all brokers, and remove temporary directories."""
        with self._lock:
            self._forget_admins()
            if self._data_dir is None:
                # What is removed need not be complete.
                _all_together([broker.kill for broker in self._brokers])
            for broker in self._brokers:
                broker.end()
            self._addresses = None

    def wait_ready(self, timeout: float = 10.0) -> None:
        """Wait until every broker is in service, knows all others, and metadata have all voters.

        Args:
            timeout: Seconds to wait, at most.

        Raises:
            RequestTimedOut: They do not by then.
        """
        checked_seconds(timeout)
        deadline = time.monotonic() + timeout
        self._running()
        voters = _VOTERS if len(self._brokers) >= _VOTERS else 1

        def lacking() -> str | None:
            for number, broker in enumerate(self._brokers):
                if not broker.is_running:
                    return f"broker {number} is down"
                described = self._admin(number).describe_cluster(timeout=_left(deadline))
                there = sum(not broker.fenced for broker in described.brokers)
                if there < len(self._brokers):
                    return f"broker {number} knows {there} of {len(self._brokers)} brokers"
            found = len(self._admin(0).describe_quorum(timeout=_left(deadline)).voters)
            return f"metadata have {found} of {voters} voters" if found < voters else None

        _until(lacking, deadline, timeout)

    def leader_of(self, topic: str, partition: int, *, timeout: float = 10.0) -> Broker:
        """Return the broker that leads a partition, waiting until there is one that runs.

        While the cluster is divided, the newest leader counts: the one that the majority elected.

        Args:
            topic: The topic.
            partition: The partition's number.
            timeout: Seconds to wait, at most.

        Raises:
            UnknownTopicError: There is no such topic.
            InvalidArgumentError: The topic has no such partition.
            RequestTimedOut: No running broker leads it by then.
        """
        checked_seconds(timeout)
        deadline = time.monotonic() + timeout
        self._running()
        found: list[Broker] = []

        def lacking() -> str | None:
            newest = self._newest(topic, partition, deadline)
            if newest is None or newest.leader is None:
                return f"{topic}-{partition} has no leader"
            leader = self._brokers[newest.leader]
            if not leader.is_running:
                return f"broker {newest.leader} led {topic}-{partition} and is down"
            found.append(leader)
            return None

        _until(lacking, deadline, timeout)
        return found[0]

    def kill_leader(self, topic: str, partition: int, *, timeout: float = 10.0) -> Broker:
        """Kill the broker that leads a partition; ``start()`` brings it back with its data.

        In this process that is as much as threads allow; with ``in_process=False`` it is a SIGKILL.

        Args:
            topic: The topic.
            partition: The partition's number.
            timeout: Seconds to wait for a leader, at most.

        Returns:
            The broker that was killed.

        Raises:
            UnknownTopicError: There is no such topic.
            RequestTimedOut: No running broker leads the partition.
        """
        leader = self.leader_of(topic, partition, timeout=timeout)
        leader.kill()
        return leader

    def isolate(self, *groups: Collection[int | Broker]) -> None:
        """Cut every link between brokers of different groups; clients still reach all of them.

        Links that were cut before are mended first. It also counts for brokers that are down.

        Args:
            groups: Brokers or their ids, as in ``isolate({0}, {1, 2})``. One group alone is cut off
                from all others. A broker in no group keeps its links.

        Raises:
            InvalidArgumentError: No such broker, or one in two groups.
            IllegalStateError: The cluster does not run.
        """
        numbers = [{self._number(one) for one in group} for group in groups]
        if len(numbers) == 1:
            numbers.append(set(range(len(self._brokers))) - numbers[0])
        if len(set[int]().union(*numbers)) < sum(len(group) for group in numbers):
            raise InvalidArgumentError("INVALID_REQUEST: a broker is in one group of isolate()")
        self._cut(
            {
                one: {other for group in numbers if group is not own for other in group}
                for own in numbers
                for one in own
            }
        )

    def heal(self) -> None:
        """Mend all links that ``isolate`` cut."""
        self._cut({})

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and remove temporary directories."""
        self.close()

    def __repr__(self) -> str:
        """Tell where it serves."""
        where = "not running" if self._addresses is None else ",".join(self._addresses)
        return f"<kafkalite.Cluster of {len(self._brokers)} {where}>"

    def _prepare(self) -> None:
        """Choose all ports and directories, once. A broker finds the others where they were."""
        file, ports = None, [0] * len(self._brokers)
        if self._data_dir is not None:
            self._data_dir.mkdir(parents=True, exist_ok=True)
            file = self._data_dir / _PORTS
            if file.exists():
                ports = [int(port) for port in file.read_text().split()]
        if len(ports) != len(self._brokers):
            raise InvalidArgumentError(
                f"INVALID_REQUEST: {self._data_dir} is of a cluster of {len(ports)} brokers"
            )
        join = None
        for broker, port in zip(self._brokers, ports, strict=True):
            listens = broker.prepare(join, port)
            join = join or listens
        if file is not None:
            chosen = [broker.prepare().rpartition(":")[2] for broker in self._brokers]
            file.write_text(" ".join(chosen) + "\n")

    def _make_topics(self) -> None:
        from .descriptions import NewTopic

        topics = [NewTopic(name, -1 if count is None else count) for name, count in self._topics]
        if topics:
            self._admin(0).create_topics(topics, exist_ok=True, timeout=_START_S)

    def _running(self) -> tuple[str, ...]:
        if self._addresses is None:
            text = "ILLEGAL_STATE: the cluster does not run"
            raise IllegalStateError(text, hint="start() it, or use it in `with`.")
        return self._addresses

    def _number(self, one: int | Broker) -> int:
        numbers = [n for n, broker in enumerate(self._brokers) if one is broker or one == n]
        if not numbers:
            last = len(self._brokers) - 1
            raise InvalidArgumentError(
                f"INVALID_REQUEST: isolate: {one!r} is not a broker of this cluster",
                hint=f"brokers have the ids 0 to {last}, as in isolate({{0}}, {{{last}}}).",
            )
        return numbers[0]

    def _cut(self, cut: Mapping[int, Collection[int]]) -> None:
        addresses = self._running()
        with self._lock:
            for number, broker in enumerate(self._brokers):
                broker.cut_links([addresses[other] for other in sorted(cut.get(number, ()))])

    def _admin(self, number: int) -> AdminClient:
        """Return a client that asks only the broker with this number."""
        if (admin := self._admins.get(number)) is None:
            from .admin import AdminClient

            admin = AdminClient(bootstrap_servers=self._running()[number])
            self._admins[number] = admin
        return admin

    def _forget_admins(self) -> None:
        admins, self._admins = self._admins, {}
        for admin in admins.values():
            admin.close()

    def _newest(self, topic: str, number: int, deadline: float) -> PartitionDescription | None:
        """Return a partition as the broker describes it that knows the newest leader."""
        from .errors import KafkaliteError, UnknownTopicError

        told: list[PartitionDescription] = []
        unknown: UnknownTopicError | None = None
        for at, broker in enumerate(self._brokers):
            if not broker.is_running:
                continue
            try:
                described = self._admin(at).describe_topic(topic, timeout=_left(deadline))
            except UnknownTopicError as error:
                unknown = error
                continue
            except KafkaliteError:
                # It has no leader, or the broker goes down just now.
                continue
            if not 0 <= number < len(described.partitions):
                count = len(described.partitions)
                raise InvalidArgumentError(
                    f"INVALID_REQUEST: {topic} has the partitions 0 to {count - 1}, not {number}"
                )
            told.append(described.partitions[number])
        if not told and unknown is not None:
            raise unknown
        return max(told, key=lambda one: one.leader_epoch or 0, default=None)


def _defaults(brokers: int) -> dict[str, object]:
    replicas = min(brokers, _REPLICAS)
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": max(1, replicas - 1),
        "offsets.topic.replication.factor": replicas,
        # A broker that starts alone, without the majority, says so in time.
        "initial.broker.registration.timeout.ms": 25_000,
    }


def _rack(racks: Sequence[str] | None, number: int) -> dict[str, object]:
    return {} if racks is None else {"broker.rack": racks[number]}


def _left(deadline: float) -> float:
    """Return how long one question may take: a broker that hangs must not hold up all others."""
    return max(0.05, min(_ANSWER_S, deadline - time.monotonic()))


def _until(lacking: Callable[[], str | None], deadline: float, timeout: float) -> None:
    """Look until nothing is lacking.

    Raises:
        RequestTimedOut: Something still is, which the text tells.
    """
    while True:
        try:
            what = lacking()
        except (NoBrokerReachable, ConnectionLostError, RequestTimedOut) as error:
            # A broker that goes down just now, or does not serve yet.
            what = str(error)
        if what is None:
            return
        if time.monotonic() >= deadline:
            raise RequestTimedOut(f"REQUEST_TIMED_OUT: after {timeout:g} s {what}")
        time.sleep(_LOOK_S)


def _all_together(calls: Sequence[Callable[[], None]]) -> None:
    """Call all on threads, as brokers that start need each other, and raise the first failure."""
    # It brings logging along, and an import of this module needs none.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(calls)) as pool:
        for called in [pool.submit(call) for call in calls]:
            called.result()
