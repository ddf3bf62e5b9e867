"""What is asked of brokers to plan: which partitions there are, and their offsets.

Lives in a process of the driver, with one connection that stays.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .errors import MissingError, OptionError, ReadError
from .kafka_keys import told
from .offsets import EARLIEST, LATEST, Offsets, Partition
from .options import At, ReadOptions

if TYPE_CHECKING:
    from kafkalite.admin import AdminClient

__all__ = ["Cluster", "Resolved", "admin_client"]

log = logging.getLogger(__name__)

#: The sizes of logs are asked for again after so long, in seconds.
SIZES_STAY_S = 60.0
#: How long planning waits for the sizes of logs, in seconds.
SIZES_TIMEOUT_S = 2.0
#: How long a query waits for the commit to its group, in seconds.
COMMIT_TIMEOUT_S = 5.0


def admin_client(kafka: Mapping[str, str]) -> AdminClient:
    """Return an admin client with those of the keys that it understands."""
    from kafkalite.admin import AdminClient
    from kafkalite.config import AdminOptions

    known = {name.replace("_", ".") for name in AdminOptions.__annotations__}
    return AdminClient(config={key: value for key, value in kafka.items() if key in known})


class Resolved(NamedTuple):
    """What an ``At`` means now."""

    offsets: Offsets
    #: Partitions whose offset is the end of their log: asked later, it is another.
    at_their_ends: frozenset[Partition] = frozenset()


class Cluster:
    """Answers the questions of planning."""

    def __init__(self, options: ReadOptions, clock: Callable[[], float] = monotonic) -> None:
        """Connect when first asked."""
        self._options = options
        self._clock = clock
        self._sized: frozenset[str] = frozenset()
        self._sized_at = float("-inf")
        self._sizes: dict[Partition, float] = {}
        self._admin = admin_client(options.kafka)
        level = options.kafka.get("isolation.level", "read_uncommitted")
        self._isolation: Any = level.strip().lower()

    def close(self) -> None:
        """End the connection."""
        self._admin.close(timeout=1.0)

    @contextmanager
    def _patience(self) -> Iterator[None]:
        """Say who did not answer, and how to wait longer; name keys as options do."""
        from kafkalite.errors import (
            KafkaliteError,
            PartialError,
            RequestTimedOut,
            UnknownTopicError,
        )

        try:
            yield
        except RequestTimedOut as error:
            servers = self._options.kafka["bootstrap.servers"]
            raise ReadError(
                f"{error}: is the cluster of {servers} gone? "
                "kafka.default.api.timeout.ms says how long it is waited for"
            ) from error
        except KafkaliteError as error:
            causes = error.errors.values() if isinstance(error, PartialError) else [error]
            missing = any(isinstance(cause, UnknownTopicError) for cause in causes)
            raise (MissingError if missing else ReadError)(told(error)) from error

    def partitions(self) -> list[Partition]:
        """Return the partitions to read, in order.

        Raises:
            MissingError: A topic that was named does not exist.
            ReadError: No broker answers.
        """
        if self._options.assigned:
            return list(self._options.assigned)
        with self._patience():
            if self._options.pattern is not None:
                # As in Spark: a part of the name is enough.
                pattern = re.compile(self._options.pattern)
                topics = [one for one in self._admin.list_topics() if pattern.search(one.name)]
            else:
                topics = list(self._admin.describe_topics(self._options.topics).values())
        return sorted((one.name, each.partition) for one in topics for each in one.partitions)

    def ends(self, partitions: Iterable[Partition], at: Literal["earliest", "latest"]) -> Offsets:
        """Return one end of each log; under ``read_committed`` the latest is the last stable.

        Raises:
            MissingError: A partition is not there.
            ReadError: No broker answers.
        """
        wanted = list(partitions)
        if not wanted:
            return {}
        with self._patience():
            answer = self._admin.list_offsets(wanted, at, isolation_level=self._isolation)
        return {(one.topic, one.partition): found.offset for one, found in answer.items()}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        """Return the id of each topic that exists. A topic that was created again has another id.

        Brokers before Kafka 2.8 give none.

        Raises:
            ReadError: No broker answers.
        """
        from kafkalite.errors import PartialError, UnknownTopicError

        wanted = sorted(topics)
        with self._patience():
            try:
                found = self._admin.describe_topics(wanted)
            except UnknownTopicError:
                found = {}
            except PartialError as error:
                missing = (isinstance(one, UnknownTopicError) for one in error.errors.values())
                if not all(missing):
                    raise
                found = dict(error.done)
        return {name: one.topic_id for name, one in found.items()}

    def record_bytes(self, topics: Iterable[str]) -> dict[Partition, float]:
        """Return about how many bytes a record of each partition takes in its log.

        Partitions may be missing: a cluster may refuse to describe its logs. An answer is used for
        a minute.
        """
        from kafkalite.errors import KafkaliteError

        wanted = frozenset(topics)
        if wanted != self._sized or self._clock() - self._sized_at >= SIZES_STAY_S:
            self._sized, self._sized_at = wanted, self._clock()
            try:
                self._sizes = self._measured(wanted)
            except KafkaliteError as error:
                log.debug("kafkalite: the sizes of records are unknown: %s", error)
                self._sizes = {}
        return self._sizes

    def _measured(self, topics: frozenset[str]) -> dict[Partition, float]:
        logs: Offsets = {}
        directories = self._admin.describe_log_dirs(timeout=SIZES_TIMEOUT_S).values()
        for replica in (one for each in directories for where in each for one in where.replicas):
            partition = (replica.partition.topic, replica.partition.partition)
            if partition[0] in topics and not replica.future:
                logs[partition] = max(logs.get(partition, 0), replica.size_bytes)
        first, last = (
            self._admin.list_offsets(list(logs), at, timeout=SIZES_TIMEOUT_S)
            for at in ("earliest", "latest")
        )
        counts = {(one.topic, one.partition): last[one].offset - first[one].offset for one in last}
        return {one: logs[one] / count for one, count in counts.items() if count > 0}

    def committed_to(self, group: str, offsets: Offsets) -> None:
        """Commit offsets for a group without members; the query waits meanwhile."""
        self._admin.alter_group_offsets(group, offsets, timeout=COMMIT_TIMEOUT_S)

    def resolved(self, at: At, partitions: list[Partition]) -> Resolved:
        """Return the offset of each partition that ``at`` means.

        Raises:
            OptionError: It names other partitions.
            ReadError: No record is so new, or no broker answers.
        """
        if at.everywhere == EARLIEST:
            return Resolved(self.ends(partitions, "earliest"))
        if at.everywhere is not None:
            return Resolved(self.ends(partitions, "latest"), frozenset(partitions))
        if at.offsets is not None:
            self._check_names(at, at.offsets, partitions)
            return self._numbers(at.offsets)
        if at.timestamps is not None:
            self._check_names(at, at.timestamps, partitions)
            times = at.timestamps
        else:
            times = dict.fromkeys(partitions, at.timestamp or 0)
        return self._by_time(at, times)

    def _check_names(self, at: At, told: Offsets, partitions: list[Partition]) -> None:
        """As in Spark: who names one partition names all."""
        if set(told) == set(partitions):
            return
        missing = ", ".join(f"{t}-{p}" for t, p in sorted(set(partitions) - set(told)))
        strange = ", ".join(f"{t}-{p}" for t, p in sorted(set(told) - set(partitions)))
        why = " and ".join(
            text
            for text, names in ((f"leaves out {missing}", missing), (f"names {strange}", strange))
            if names
        )
        raise OptionError(at.option, f"{why}: it must name all partitions that are read")

    def _numbers(self, offsets: Offsets) -> Resolved:
        first = [partition for partition, at in offsets.items() if at == EARLIEST]
        last = [partition for partition, at in offsets.items() if at == LATEST]
        found = self.ends(first, "earliest") | self.ends(last, "latest")
        return Resolved(offsets | found, frozenset(last))

    def _by_time(self, at: At, times: Offsets) -> Resolved:
        resolved: Offsets = {}
        for time in sorted(set(times.values())):
            asked = [partition for partition, one in times.items() if one == time]
            with self._patience():
                found_by = self._admin.list_offsets(asked, time, isolation_level=self._isolation)
            for one, found in found_by.items():
                resolved[one.topic, one.partition] = found.offset
        late = sorted(partition for partition, offset in resolved.items() if offset < 0)
        starts = at.option.startswith("starting")
        if late and starts and not self._options.no_later_record_is_latest:
            names = ", ".join(f"{topic}-{number}" for topic, number in late)
            raise ReadError(
                f"{at.option}: {names} have no record as new as that. "
                "With startingOffsetsByTimestampStrategy=latest they begin at their end"
            )
        return Resolved(resolved | self.ends(late, "latest"), frozenset(late))
