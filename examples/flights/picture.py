"""The picture of the flights: who flies when, and how late. Drawn from the topic of aggregates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

__all__ = ["draw"]

NEW_YORK = ZoneInfo("America/New_York")
#: The hours that are drawn; only one flight is planned between midnight and five.
HOURS = list(range(5, 24))
CARRIERS = {
    "9E": "Endeavor",
    "AA": "American",
    "AS": "Alaska",
    "B6": "JetBlue",
    "DL": "Delta",
    "EV": "ExpressJet",
    "F9": "Frontier",
    "FL": "AirTran",
    "HA": "Hawaiian",
    "MQ": "Envoy",
    "OO": "SkyWest",
    "UA": "United",
    "US": "US Airways",
    "VX": "Virgin America",
    "WN": "Southwest",
    "YV": "Mesa",
}


def draw(windows: Mapping[tuple[str, str], Mapping[str, Any]], path: Path) -> Path:
    """Draw mean departure delays by carrier and hour of the day, and flights by hour.

    Args:
        windows: Flights, those that departed and their mean delay in minutes, by carrier and hour
            (``2013-01-01T10``, UTC).
        path: Where the PNG goes.

    Returns:
        ``path``.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    order, total, few, late = _by_hour(windows)
    figure, (top, bottom) = plt.subplots(
        2,
        1,
        figsize=(11, 8.5),
        height_ratios=(1, 2.6),
        sharex=True,
        layout="constrained",
    )
    top.bar(HOURS, total[HOURS], color="#4878a8", width=0.9)
    top.yaxis.set_major_formatter("{x:,.0f}")
    top.set_ylabel("flights")
    top.spines[["top", "right"]].set_visible(False)
    top.set_title("Fly early: delays grow through the day", loc="left", fontsize=16, pad=24)
    told = f"{int(total.sum()):,} flights out of New York City in 2013, by carrier and hour"
    top.text(0, 1.06, told, transform=top.transAxes, color="#555555")
    image = bottom.imshow(
        late,
        aspect="auto",
        cmap="RdYlBu_r",
        vmin=-10,
        vmax=50,
        extent=(HOURS[0] - 0.5, HOURS[-1] + 0.5, len(order) - 0.5, -0.5),
    )
    bottom.set_facecolor("#f0f0f0")
    for row, means in enumerate(late):
        for hour, mean in zip(HOURS, means, strict=True):
            if mean == mean:
                ink = "#333333" if 0 < mean < 42 else "white"
                bottom.text(hour, row, f"{round(mean)}", ha="center", va="center", size=8, c=ink)
    bottom.set_yticks(range(len(order)), [CARRIERS.get(one, one) for one in order])
    bottom.set_xticks(HOURS, [f"{hour}:00" for hour in HOURS], rotation=45, ha="right")
    bottom.set_xlabel(f"scheduled departure, New York; grey: fewer than {few} flights")
    bar = figure.colorbar(image, ax=bottom, pad=0.01, extend="both")
    bar.set_label("mean departure delay, minutes")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def _by_hour(
    windows: Mapping[tuple[str, str], Mapping[str, Any]],
) -> tuple[list[str], Any, int, Any]:
    """Return carriers, flights by hour, how many are too few for a mean, and mean delays.

    Carriers that have a mean stand in the order of their flights. Delays are by carrier and hour of
    ``HOURS``, NaN where there are too few.
    """
    import numpy as np

    flights: dict[str, Any] = defaultdict(lambda: np.zeros(24))
    minutes: dict[str, Any] = defaultdict(lambda: np.zeros(24))
    flown: dict[str, Any] = defaultdict(lambda: np.zeros(24))
    for (carrier, hour), told in windows.items():
        at = datetime.fromisoformat(f"{hour}:00+00:00").astimezone(NEW_YORK).hour
        flights[carrier][at] += told["flights"]
        # A window in which every flight was cancelled has no delay.
        if told.get("dep_delay") is not None:
            minutes[carrier][at] += told["dep_delay"] * told["departed"]
            flown[carrier][at] += told["departed"]
    order = sorted(flights, key=lambda one: flights[one].sum(), reverse=True)
    total = sum(flights.values())
    few = max(1, round(total.sum() / 10_000))
    late = np.array(
        [minutes[one] / np.where(flown[one] >= few, flown[one], np.nan) for one in order]
    )
    late = late[:, HOURS]
    told_of = ~np.isnan(late).all(axis=1)
    return (
        [one for one, told in zip(order, told_of, strict=True) if told],
        total,
        few,
        late[told_of],
    )
