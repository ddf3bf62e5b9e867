"""Kafka as a source and a sink of Apache Spark, without a jar.

``spark.read.format("kafkalite")``, ``spark.readStream``, ``df.write`` and ``df.writeStream``, with
the options of Spark's own Kafka connector. What each file is:

- ``options``: one table of options, parsed once
- ``kafka_keys``: clients' keys, checked before a task has them
- ``offsets``: offsets as JSON, in Spark's own shape
- ``plan``: from offsets and limits to the ranges that tasks read; pure
- ``cluster``: what is asked of brokers to plan
- ``reader``, ``stream_reader``: batches and streams of records
- ``writer``, ``sending``: the sinks
- ``tasks``, ``clients``: how a task reads, and the clients that its worker keeps
- ``foreach_batch``: the sink for the output mode `update`
- ``decision``, ``exactly_once``: how micro-batches will be delivered once; pure, not yet in use
- ``lag``, ``progress``: how far a stream is behind
- ``versions``: what an older Spark lacks
- ``checkpoints``: settings for checkpoints on a local disk
- ``source``: what Spark calls
"""

__all__ = ["KafkaliteSource"]


def __getattr__(name: str) -> object:
    """Load the source when it is first used: the pure parts need no Spark."""
    if name != "KafkaliteSource":
        raise AttributeError(f"module 'kafkalite_spark' has no attribute {name!r}")
    from .source import KafkaliteSource

    return KafkaliteSource
