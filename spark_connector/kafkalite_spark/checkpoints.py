"""Settings for checkpoints on a local disk: Spark starts fewer processes for each file.

PySpark comes without Hadoop's native library. So Hadoop starts `chmod` and `readlink` for local
files: ten processes for each of the two files of a micro-batch, 4 to 5 ms each. With these settings
there is one process for each file. Their price:

- Local files of the session have no checksum file (`.crc`), and Spark checks none.
- A checkpoint from before the settings keeps its old `.crc` files. Delete them before you go back.
  Otherwise Spark takes a file that was written again for damaged.

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
