"""A stream with the settings for local checkpoints, then one without.

``children.py SERVERS TOPIC PLACE`` runs three micro-batches of each, with their checkpoints in
``PLACE/with`` and ``PLACE/without``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import kafkalite as kl
from kafkalite_spark.checkpoints import MANAGER, local_checkpoints


def fed(spark: SparkSession, servers: str, topic: str, place: Path) -> None:
    """Run three micro-batches, the first without records."""
    records = (
        spark.readStream.format("kafkalite")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .load()
    )
    query = records.writeStream.format("noop").option("checkpointLocation", str(place)).start()
    query.processAllAvailable()
    with kl.Producer(bootstrap_servers=servers) as producer:
        for _ in range(2):
            producer.send(topic, b"record").result(30)
            query.processAllAvailable()
    query.stop()


def main(servers: str, topic: str, where: str) -> None:
    """Run both."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config(map=local_checkpoints())
        .getOrCreate()
    )
    fed(spark, servers, topic, Path(where, "with"))
    # Spark's own way does not look at the other setting.
    spark.conf.unset(MANAGER)
    fed(spark, servers, topic, Path(where, "without"))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
