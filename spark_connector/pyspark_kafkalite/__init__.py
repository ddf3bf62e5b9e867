"""Lets Spark find the format ``kafkalite`` by its name.

At the first unknown format Spark imports every top-level module named ``pyspark_*`` and takes its
``DefaultSource``. A module that fails to import breaks the look-up for all. So this one imports
nothing native, only the connector's own pure part.
"""

from kafkalite_spark.source import KafkaliteSource as DefaultSource

__all__ = ["DefaultSource"]
