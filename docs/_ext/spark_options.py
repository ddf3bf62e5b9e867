"""A directive that draws the connector's table of options: `spark-options`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tables import Drawn

sys.path.insert(0, str(Path(__file__).parents[2] / "spark_connector"))

from kafkalite_spark.option_table import FORBIDDEN_KAFKA, OPTIONS, READ

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

#: How documentation calls the four uses.
USES = {
    "read": "batch read",
    "readStream": "stream read",
    "write": "batch write",
    "writeStream": "stream write",
}


def uses(where: frozenset[str]) -> str:
    """The uses of an option, in short."""
    if where == frozenset(USES):
        return "all"
    if where == READ:
        return "reads"
    if where == frozenset(USES) - READ:
        return "writes"
    return ", ".join(USES[one] for one in USES if one in where)


class SparkOptions(Drawn):
    """Every option: name, default, where it has a meaning, and which."""

    def markdown(self) -> Iterator[str]:
        """The lines."""
        yield "| option | default | for | meaning |"
        yield "|---|---|---|---|"
        for option in OPTIONS:
            meaning = f"Refused: {option.refused}." if option.refused else option.meaning
            default = f"`{option.default}`" if option.default is not None else ""
            # A bar would end the cell.
            meaning = meaning.replace("|", "\\|")
            yield f"| `{option.name}` | {default} | {uses(option.where)} | {meaning} |"


class SparkForbidden(Drawn):
    """The clients' keys that may not be given."""

    def markdown(self) -> Iterator[str]:
        """The lines."""
        yield "| key | instead |"
        yield "|---|---|"
        for key, why in FORBIDDEN_KAFKA.items():
            yield f"| `kafka.{key}` | {why} |"


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_directive("spark-options", SparkOptions)
    app.add_directive("spark-forbidden", SparkForbidden)
    return {"parallel_read_safe": True}
