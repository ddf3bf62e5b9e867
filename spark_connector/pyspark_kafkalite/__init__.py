"""Lets Spark find the format ``kafkalite`` by its name.

At the first unknown format Spark imports every top-level module named ``pyspark_*`` and takes its
``DefaultSource``. One of them that fails to import breaks the look-up for all, so this imports
nothing native and nothing that can fail but the connector's own pure part.
"""

from kafkalite_spark.source import KafkaliteSource as DefaultSource

__all__ = ["DefaultSource"]
