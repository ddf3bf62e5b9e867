"""Streams: micro-batches, each between two offsets that Spark stores.

An idle query asks for the latest offset about every 12 ms, so `Pace` delays such polls. Each poll
ends with a request to the brokers. So `processAllAvailable` waits for all records that were written
before. A micro-batch is planned from its two offsets alone, so a replay reads the same records.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from . import plan
from .cluster import Cluster
from .errors import MissingError, OptionError, ReadError
from .notes import Notes, notes_of, start_kept_by_spark, with_notes
from .offsets import Offsets, Partition, from_json, to_json
from .options import ReadOptions
from .pace import Pace
from .tasks import in_tasks, read_ranges

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    # Spark 4.0 and 4.1 know no limits and end AvailableNow after one micro-batch.
    ReadAllAvailable = ReadLimit = ReadMaxRows = SupportsTriggerAvailableNow = None  # type: ignore

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KafkaliteStreamReader", "RefusedStreamReader"]

log = logging.getLogger(__name__)

#: Partitions are looked for again after so long, in seconds.
DISCOVERY_S = 1.0
#: Seconds between a commit that failed and the next one.
COMMIT_AGAIN_S = 10.0

_MIXIN: tuple[type, ...] = (
    () if SupportsTriggerAvailableNow is None else (SupportsTriggerAvailableNow,)
)


class KafkaliteStreamReader(DataSourceStreamReader, *_MIXIN):  # type: ignore[misc]
    """Plans in a process of the driver, for as long as the query runs; reads in tasks."""

    def __init__(
        self,
        options: ReadOptions,
        columns: list[str],
        clock: Callable[[], float] = time.monotonic,
        cluster: Cluster | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Hold plain data until it is asked something: it is pickled."""
        self._options = options
        self._columns = columns
        self._clock = clock
        self._sleep = sleep
        self._pace = Pace()
        self._cluster = cluster
        self._known: Offsets = {}
        self._looked_at = self._triggered_at = float("-inf")
        self._partitions: list[tuple[str, int]] = []
        self._pinned: Offsets | None = None
        self._first: Offsets | None = None
        self._at_their_ends: frozenset[Partition] = frozenset()
        #: Why there is no `_first`: raised when a new query needs it.
        self._refused: Exception | None = None
        #: Answers to Spark: the start of the query, and the end of the last micro-batch.
        self._first_told: dict[str, Any] | None = None
        self._planned: dict[str, Any] | None = None
        #: The last end that Spark got. Another end means a replay.
        self._answered: dict[str, Any] | None = None
        self._topic_ids: dict[str, str | None] = {}
        #: Topics that had another id when partitions were looked for.
        self._doubted: set[str] = set()
        self._noted_ids: Mapping[str, str] = {}
        #: The last offsets committed to the group, and the time of the next try after a refusal.
        self._committed: Offsets | None = None
        self._commit_again_at = float("-inf")

    def __getstate__(self) -> dict[str, Any]:
        """Leave connections and what is remembered here: tasks need none of it."""
        return {"_options": self._options, "_columns": self._columns}

    def _asked(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self._options)
        return self._cluster

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query begins: the same, however often Spark asks.

        Spark asks for the first end and again for the first micro-batch; what came between is read.
        After a restart Spark asks once more if that micro-batch was not finished. That answer is
        not used: the checkpoint has it. So a failure to find it is no error yet: a
        new query gets the error from `latestOffset`.
        """
        if self._first_told is None:
            try:
                self._first = self._resolved()
            except (OptionError, ReadError) as error:
                self._refused = error
            self._first_told = to_json(self._first or {})
        return self._first_told

    def _resolved(self) -> Offsets:
        cluster = self._asked()
        resolved = cluster.resolved(self._options.start, cluster.partitions())
        if self._pinned is None:
            self._at_their_ends = resolved.at_their_ends
            return resolved.offsets
        # Ends are those that were pinned, though more may have come since.
        there = {one: at for one, at in resolved.offsets.items() if one in self._pinned}
        self._at_their_ends = resolved.at_their_ends & there.keys()
        return there | {one: self._pinned[one] for one in self._at_their_ends}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return the limit of a micro-batch; Spark hands it to ``latestOffset``."""
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember what there is now: the query ends there."""
        cluster = self._asked()
        self._pinned = cluster.ends(cluster.partitions(), "latest")
        self._known = self._pinned

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends; ``start`` again if there is none.

        Spark 4.0 and 4.1 tell neither the start nor a limit: the last micro-batch that was planned
        ends where the next one starts. The end of a query's first micro-batch records its start.
        """
        given = start is not None
        if not given and self._planned is not None and self._answered is None:
            return self._first_after_a_restart(self._planned)
        if start is None:
            start = self._planned if self._planned is not None else self.initialOffset()
        is_new = start == self._first_told
        if is_new:
            if self._refused is not None:
                raise self._refused
        elif given:
            # Spark asks when the micro-batch that ends here is finished and written down.
            self._commit_to_group(from_json(start))
        # After a restart the checkpoint knows which topics they were.
        self._noted_ids = notes_of(start).ids
        begun = from_json(start)
        end = self._next_end(begun)
        if getattr(limit, "max_rows", None) is not None:
            # A partition that is new in `end` has no start yet, and no records this time.
            end = plan.limited(begun, end, limit.max_rows)
        now = self._clock()
        self._pace.asked(now, found=end != begun)
        if end != begun:
            self._triggered_at = now
        if end == begun and not is_new:
            # Spark compares offsets as text.
            self._answered = dict(start)
        else:
            self._answered = with_notes(end, Notes(self._ids_of(end), begun if is_new else None))
        return self._answered

    def _first_after_a_restart(self, start: dict[str, Any]) -> dict[str, Any]:
        """Return the end of all logs: Spark 4.0 and 4.1 may run one micro-batch only.

        Partitions that came while the query did not run are in it; `partitions` begins them at 0.
        """
        end = self._latest()
        self._answered = dict(start) if end == from_json(start) else to_json(end)
        return self._answered

    def _ids_of(self, offsets: Offsets) -> dict[str, str]:
        known = ((topic, self._topic_ids.get(topic)) for topic, _ in offsets)
        return {topic: one for topic, one in known if one is not None}

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return what there is, whatever the limits: lag is measured against it."""
        return to_json(self._known) if self._known else None

    def _next_end(self, begun: Offsets) -> Offsets:
        latest = self._latest()
        again = self._created_again(begun, latest)
        if again:
            shorter = [
                f"{_name(one)} ends at {latest[one]}, before {at}"
                for one, at in sorted(begun.items())
                if one[0] in again and latest.get(one, at) < at
            ]
            self._lost("; ".join([f"{', '.join(again)} was deleted and created again", *shorter]))
            # Its partitions begin as those do that are new.
            begun = {partition: at for partition, at in begun.items() if partition[0] not in again}
            if self._pinned is not None:
                # It may have fewer partitions than the topic whose ends were pinned.
                there = [one for one in self._asked().partitions() if one in latest]
                others = [partition for partition in there if partition[0] in again]
                latest = {one: at for one, at in latest.items() if one[0] not in again}
                self._pinned = latest = latest | self._asked().ends(others, "latest")
        end: Offsets = {}
        for partition, at in latest.items():
            if partition not in begun:
                continue
            if at < begun[partition]:
                self._lost(f"{_name(partition)} ends at {at}, before {begun[partition]}")
            end[partition] = at
        gone = sorted(set(begun) - set(latest))
        if gone:
            self._lost(f"{', '.join(map(_name, gone))} are gone")
        new = sorted(set(latest) - set(begun))
        if new:
            # They begin at their first record, in the micro-batch after this one.
            first = self._asked().ends(new, "earliest")
            late = [partition for partition in new if first[partition] > 0]
            if late:
                self._lost(f"{', '.join(map(_name, late))} began before they were seen")
            end |= first
        if not new and not gone and self._waits_for_more(begun, end):
            return begun
        return end

    def _created_again(self, begun: Offsets, latest: Offsets) -> list[str]:
        """Return the topics that are others than those of the same names at the last look.

        Their ids are asked for behind the ends of their logs: if they are the same as before, the
        ends were theirs. Topics are asked about at the first look, when an end moves, and when one
        had another id as partitions were looked for. A new log may end where the former one did.
        """
        topics = {topic for topic, _ in latest}
        moved = {partition[0] for partition, at in latest.items() if begun.get(partition) != at}
        asked = moved | (topics & self._doubted) | (topics - self._topic_ids.keys())
        if not asked:
            return []
        ids = self._asked().topic_ids(asked)
        known = {**self._noted_ids, **self._topic_ids}
        self._topic_ids |= ids
        # One that went at one look and came at another is new as it is.
        read = {topic for topic, _ in begun}
        return sorted(
            topic
            for topic, now in ids.items()
            if topic in read and now and known.get(topic) not in (None, now)
        )

    def _waits_for_more(self, begun: Offsets, end: Offsets) -> bool:
        least = self._options.min_offsets
        if least is None or self._pinned is not None:
            return False
        late = self._clock() - self._triggered_at >= self._options.max_delay_s
        return not late and plan.size_of(begun, end) < least

    def _latest(self) -> Offsets:
        if self._pinned is not None:
            # Partitions that came since do not count, those that a checkpoint has do.
            return self._pinned
        cluster = self._asked()
        # Not after it is asked: what an answer says would be old, and `processAllAvailable` wrong.
        self._sleep(self._pace.wait_s(self._clock()))
        now = self._clock()
        if now - self._looked_at >= DISCOVERY_S:
            self._partitions = cluster.partitions()
            self._looked_at = now
            # Before the ends: a poll ends with the question for them.
            ids = cluster.topic_ids({topic for topic, _ in self._partitions})
            known = self._topic_ids
            self._doubted = {topic for topic, one in ids.items() if known.get(topic, one) != one}
        while True:
            try:
                self._known = cluster.ends(self._partitions, "latest")
                return self._known
            except MissingError:
                # A pattern has a topic less since; what was named is missed at this look.
                there = cluster.partitions()
                if there == self._partitions:
                    raise
                self._partitions = there

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise ReadError(
                f"{what}: records may be lost. Was a topic deleted and created again, or is this "
                "the checkpoint of another subscription? With failOnDataLoss=false the query "
                "continues with the records that exist"
            )
        log.warning("kafkalite: %s: records may be lost", what)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return what each task reads: a function of the two offsets and the options alone.

        A partition that came while a query of Spark 4.0 or 4.1 did not run has no start: its log
        begins at 0.
        """
        self._planned = end
        until = from_json(end)
        begun = self._first_start(end) if start == self._first_told else from_json(start)
        ranges = plan.ranges_between({**dict.fromkeys(until, 0), **begun}, until)
        ids = notes_of(end).ids
        if end != self._answered:
            ranges = self._of_the_same_topics(ranges, ids)
        return in_tasks(ranges, self._options, self._asked(), ids)

    def _of_the_same_topics(
        self, ranges: list[plan.Range], ids: Mapping[str, str]
    ) -> list[plan.Range]:
        """Return those ranges of a replay whose topics were not deleted and created again since."""
        asked = ids.keys() & {one.topic for one in ranges}
        now = self._asked().topic_ids(asked) if asked else {}
        again = sorted(topic for topic in asked if now.get(topic) not in (None, ids[topic]))
        if again:
            self._lost(f"{', '.join(again)} was deleted and created again")
        return [one for one in ranges if one.topic not in again]

    def _first_start(self, end: dict[str, Any]) -> Offsets:
        """Return where the first micro-batch begins, which may be replayed.

        The start is known from

        - case A: its end, as this connector records it
        - case B: the checkpoint, if Spark's own connector began the query
        - case C: the options, unless the log may have lost records since then
        """
        began = notes_of(end).began
        if began is not None:
            return began
        until = from_json(end)
        if self._options.checkpoint is not None:
            kept = start_kept_by_spark(self._options.checkpoint, until)
            if kept is not None:
                return kept
        if self._refused is not None:
            raise self._refused
        begun = self._first or {}
        asked_for = self._options.checkpoint is None and self._options.fail_on_data_loss
        if asked_for and (unsure := self._unsure(begun, until)):
            raise ReadError(
                "the first micro-batch of this checkpoint was not finished, and where "
                f"{', '.join(map(_name, unsure))} began is not known: records may be lost. Give "
                "the source the option checkpointLocation as well, so that it reads where a query "
                "of Spark's own connector began. With failOnDataLoss=false it begins where the "
                "options say now"
            )
        return begun

    def _unsure(self, begun: Offsets, until: Offsets) -> list[Partition]:
        """Return the partitions that may have begun elsewhere than the options say now."""
        fixed = {one for one, at in (self._options.start.offsets or {}).items() if at >= 0}
        asked = [one for one, at in until.items() if at > 0 and one in begun and one not in fixed]
        log_start = self._asked().ends(asked, "earliest")
        return sorted(one for one in asked if one in self._at_their_ends or log_start[one] > 0)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        return read_ranges(partition, self._options, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Tell lag tools how far the query is, if that was asked for.

        Spark calls this for a micro-batch when it begins the next one. From Spark 4.2 on
        `latestOffset` has told them before.
        """
        self._commit_to_group(from_json(end))

    def _commit_to_group(self, done: Offsets) -> None:
        """Commit what is finished, once; what keeps it from that never fails the query."""
        group, now = self._options.commit_to_group, self._clock()
        if group is None or done == self._committed or now < self._commit_again_at:
            return
        try:
            self._asked().committed_to(group, done)
            self._committed = done
        except Exception as error:  # noqa: BLE001
            self._commit_again_at = self._clock() + COMMIT_AGAIN_S
            log.warning("kafkalite: offsets were not committed to group %s: %s", group, error)

    def stop(self) -> None:
        """End the connection."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


class RefusedStreamReader(DataSourceStreamReader):
    """Answers every question with the error that it was made of.

    An error while the reader is made would be hidden. Spark then stops a reader that it never got,
    and ends the query with an ``UnboundLocalError``.
    """

    def __init__(self, error: Exception) -> None:
        """Remember what is wrong."""
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Say what is wrong."""
        raise self._error

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Say what is wrong."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Say what is wrong."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Say what is wrong."""
        raise self._error


def _name(partition: tuple[str, int]) -> str:
    return f"{partition[0]}-{partition[1]}"
