"""Numbers and places in partitions as people write them: an offset, a word, a time."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..admin import AdminClient
    from .connecting import Cluster

_WORDS = {
    "earliest": "earliest",
    "beginning": "earliest",
    "start": "earliest",
    "latest": "latest",
    "end": "latest",
}
#: The most that 32 and 64 bits hold, as the protocol has its numbers.
_MOST_32, _MOST_64 = 2**31 - 1, 2**63 - 1

#: A partition's number.
PARTITION = click.IntRange(0, _MOST_32)
#: How many partitions.
PARTITIONS = click.IntRange(1, _MOST_32)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
#: Days that are meant by a word, before today; a day begins at midnight of this machine's zone.
_DAYS = {"today": 0, "yesterday": 1}


@dataclass(frozen=True)
class PlaceValue:
    """A place: a word, an offset, or a time; one of the three."""

    word: str | None = None
    offset: int | None = None
    time: datetime | None = None

    def __str__(self) -> str:
        """Write it as it was meant."""
        if self.time is not None:
            return self.time.isoformat(timespec="seconds")
        return self.word if self.word is not None else str(self.offset)

    def resolve(
        self, admin: AdminClient, partitions: Iterable[tuple[str, int]], cluster: Cluster
    ) -> dict[tuple[str, int], int]:
        """Look the offset up for each partition.

        Returns:
            Offsets; for a time that no record has reached it is the end. A negative offset
            counts from the end.
        """
        places = list(partitions)
        if self.offset is not None and self.offset >= 0:
            return dict.fromkeys(places, self.offset)
        level: Any = cluster.config.get("isolation.level", "read_uncommitted").strip().lower()
        ends = admin.list_offsets(places, "latest", isolation_level=level, timeout=cluster.timeout)
        end_of = {(place.topic, place.partition): at.offset for place, at in ends.items()}
        if self.word == "latest":
            return end_of
        if self.offset is not None:
            starts = admin.list_offsets(places, "earliest", timeout=cluster.timeout)
            return {
                (place.topic, place.partition): max(
                    at.offset, end_of[place.topic, place.partition] + self.offset
                )
                for place, at in starts.items()
            }
        found = admin.list_offsets(
            places, "earliest" if self.time is None else self.time, timeout=cluster.timeout
        )
        offsets = {(place.topic, place.partition): at.offset for place, at in found.items()}
        return {place: end_of[place] if at < 0 else at for place, at in offsets.items()}


def within(
    admin: AdminClient, offsets: dict[tuple[str, int], int], cluster: Cluster
) -> dict[tuple[str, int], int]:
    """Return offsets, and for one outside its partition the nearer of start and end."""
    places = list(offsets)
    starts = admin.list_offsets(places, "earliest", timeout=cluster.timeout)
    first = {(place.topic, place.partition): at.offset for place, at in starts.items()}
    last = PlaceValue(word="latest").resolve(admin, places, cluster)
    return {place: max(first[place], min(at, last[place])) for place, at in offsets.items()}


class Seconds(click.FloatRange):
    """A time to wait; thirty years are the most, for nothing waits longer and all can count it."""

    name = "seconds"

    def __init__(self, *, min_open: bool = False) -> None:
        """Take 0 as well, unless ``min_open``."""
        super().__init__(0, 1e9, min_open=min_open)

    def _describe_range(self) -> str:
        """Leave the range out of the help: thirty years say nothing to a reader."""
        return ""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read a number; nan lies in no range."""
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail("nan is no number of seconds", param, ctx)
        return seconds


class Place(click.ParamType["PlaceValue"]):
    """``12``, ``-10`` (from the end), ``earliest``, ``latest``, or a time.

    A time is ``2h`` or ``-2h`` (two hours ago; s, m, h, d and w, as in ``1h30m``), ``today`` or
    ``yesterday``. It may also be in ISO 8601; without a zone, the zone of this machine applies.
    """

    name = "PLACE"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> PlaceValue:
        """Read a place."""
        if isinstance(value, PlaceValue):
            return value
        text = str(value).strip()
        if text in _WORDS:
            return PlaceValue(word=_WORDS[text])
        try:
            return _read(text)
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{text!r} is not a position. Give an offset, earliest, latest, 2h (two hours "
                "ago), today, yesterday, or a time from 1970 on: 2026-03-01T12:00Z",
                param,
                ctx,
            )


def _read(text: str) -> PlaceValue:
    if re.fullmatch(r"-?[0-9]+", text):
        # A longer one fits into no offset, and Python would not even read it.
        offset = int(text[:21])
        if abs(offset) > _MOST_64:
            raise ValueError("an offset has 64 bits")
        return PlaceValue(offset=offset)
    if re.fullmatch(r"-?(?:[0-9]{1,18}[smhdw])+", text):
        parts = re.findall(r"([0-9]+)([smhdw])", text)
        time = datetime.now(UTC) - sum(
            (timedelta(**{_UNITS[unit]: int(count)}) for count, unit in parts), timedelta()
        )
    elif text in _DAYS:
        midnight = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
        time = (midnight - timedelta(days=_DAYS[text])).astimezone()
    else:
        time = datetime.fromisoformat(text)
        time = time if time.tzinfo else time.astimezone()
    if time < _EPOCH:
        # Negative times mean something else to a broker: -1 is the end.
        raise ValueError("a time before 1970")
    return PlaceValue(time=time)
