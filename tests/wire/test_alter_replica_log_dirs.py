"""AlterReplicaLogDirs (34): a partition stays in the directory it is in."""

from __future__ import annotations

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges


def move(s: Session, path: str, topic: str, partition: int, version: int = 2) -> int:
    """Ask one partition into a directory; its error."""
    topics = [{"Name": topic, "Partitions": [partition]}]
    answer = s.call("AlterReplicaLogDirs", version, Dirs=[{"Path": path, "Topics": topics}])
    error: int = answer["Results"][0]["Partitions"][0]["ErrorCode"]
    return error


def log_dir(s: Session) -> str:
    """The one directory, as the broker spells it."""
    (place,) = s.call("DescribeLogDirs", 4, Topics=[])["Results"]
    return str(place["LogDir"])


@pytest.mark.parametrize("version", edges("AlterReplicaLogDirs"))
def test_where_it_is_already_it_may_go_in_version(s: Session, version: int) -> None:
    assert move(s, log_dir(s), s.topic(), 0, version) == 0


def test_an_unknown_directory_or_partition_is_an_error(s: Session) -> None:
    topic, here = s.topic(), log_dir(s)
    asked = [(here + "/", topic, 0), ("/no-such-directory", topic, 0), (here, topic, 7),
             (here, "no-such-topic", 0), ("relative", "no-such-topic", 0)]  # fmt: skip
    assert [move(s, *one) for one in asked] == [57, 57, 3, 3, 57]
