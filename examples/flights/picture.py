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
        windows: Flights and mean delay in minutes by carrier and hour (``2013-01-01T10``, UTC).
        path: Where the PNG goes.

    Returns:
        ``path``.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    flights: dict[str, Any] = defaultdict(lambda: np.zeros(24))
    minutes: dict[str, Any] = defaultdict(lambda: np.zeros(24))
    flown: dict[str, Any] = defaultdict(lambda: np.zeros(24))
    for (carrier, hour), told in windows.items():
        at = datetime.fromisoformat(f"{hour}:00+00:00").astimezone(NEW_YORK).hour
        flights[carrier][at] += told["flights"]
        # A window in which every flight was cancelled has no delay.
        if told.get("dep_delay") is not None:
            minutes[carrier][at] += told["dep_delay"] * told["flights"]
            flown[carrier][at] += told["flights"]
    order = sorted(flights, key=lambda one: flights[one].sum(), reverse=True)
    hours = np.arange(5, 24)
    with np.errstate(invalid="ignore"):
        late = np.array(
            [(minutes[one] / np.where(flown[one], flown[one], np.nan)) for one in order]
        )
    figure, (top, bottom) = plt.subplots(
        2,
        1,
        figsize=(11, 8.5),
        height_ratios=(1, 2.2),
        sharex=True,
        layout="constrained",
    )
    total = sum(flights.values())
    top.bar(hours, total[hours], color="#4878a8", width=0.8)
    top.set_ylabel("flights")
    top.spines[["top", "right"]].set_visible(False)
    top.set_title(
        f"{int(total.sum()):,} flights out of New York City in 2013: late is who flies late",
        loc="left",
        fontsize=14,
    )
    image = bottom.imshow(
        late[:, hours],
        aspect="auto",
        cmap="RdYlBu_r",
        vmin=-5,
        vmax=45,
        extent=(hours[0] - 0.5, hours[-1] + 0.5, len(order) - 0.5, -0.5),
    )
    bottom.set_yticks(range(len(order)), [CARRIERS.get(one, one) for one in order])
    bottom.set_xticks(hours, [f"{hour}:00" for hour in hours], rotation=45, ha="right")
    bottom.set_xlabel("scheduled departure, New York")
    bar = figure.colorbar(image, ax=bottom, pad=0.01, extend="max")
    bar.set_label("mean departure delay, minutes")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path
