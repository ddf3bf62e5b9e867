"""Settings of a session whose checkpoints are on a local disk: files with fewer processes.

Hadoop, without its native library, which PySpark does not have, starts `chmod` and `readlink` for
what it asks of a local disk: ten processes for each of the two files of a micro-batch, one after
the other, 4 to 5 ms each. With these settings it is one. Their price:

- no local file of the session has a checksum beside it (`.crc`), nor is one looked at
- a checkpoint that was begun without them keeps its old `.crc` files: before it goes on without
  the settings again those must be deleted, or a file that was written anew is taken for damaged

Files are still written under another name and renamed, which a local disk does at once or not at
all. Not for checkpoints on HDFS or in an object store, which start no processes.
"""

from __future__ import annotations

__all__ = ["MANAGER", "local_checkpoints"]

#: Which class writes the files of checkpoints; Spark has it for itself and does not document it.
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_STREAMING = "org.apache.spark.sql.execution.streaming"


def local_checkpoints(version: str | None = None) -> dict[str, str]:
    """Return the settings: ``SparkSession.builder.config(map=local_checkpoints())``.

    Args:
        version: Of PySpark, such as ``4.1.4``; that which is installed if it is not told.
    """
    if version is None:
        import pyspark

        version = pyspark.__version__
    # Its package is another since 4.1.
    package = _STREAMING if version.startswith("4.0.") else f"{_STREAMING}.checkpointing"
    return {
        MANAGER: f"{package}.FileSystemBasedCheckpointFileManager",
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    }
