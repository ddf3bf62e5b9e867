"""Three brokers are rolled from an older release to this one, under load.

``make rolling-upgrade`` builds the older release from an earlier commit. Without that, brokers of
this release stand for it: they support the older level of records only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.test_chase import TOPIC, Chase
from tests.harness.brokers import BrokerFailed
from tests.harness.cluster import Cluster, Member
from tests.harness.patience import eventually
from tests.harness.session import Session

#: The Python that has the older release, if one was built.
OLDER = os.environ.get("KAFKALITE_OLDER_PYTHON")

RECORDS = "kafkalite.record.version"


class Upgraded(Member):
    """A broker that is of the older release until the test says otherwise."""

    is_older = True

    def command(self) -> list[str]:
        """With the older Python, or as one that supports what the older release does."""
        words = super().command()
        if not self.is_older:
            return words
        return [OLDER, *words[1:]] if OLDER else [*words, "--test-record-version", "1"]


class Rolled(Cluster):
    """A cluster of brokers that are upgraded."""

    def make(self, data_dir: Path, join: str | None) -> Member:
        """A broker of the older release."""
        return Upgraded(data_dir, self.config, join)

    def _features(self, of: int) -> dict[str, Any]:
        names = {"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"}
        return self.ask(lambda session: session.call("ApiVersions", 4, **names), of) or {}

    def level(self, of: int) -> int:
        """The finalized level of records, as a broker tells it."""
        found = self._features(of).get("FinalizedFeatures", [])
        return next((int(one["MaxVersionLevel"]) for one in found if one["Name"] == RECORDS), 0)

    def newest(self, of: int) -> int:
        """The newest level of records that a broker supports."""
        found = self._features(of).get("SupportedFeatures", [])
        return next((int(one["MaxVersion"]) for one in found if one["Name"] == RECORDS), 0)

    def raise_level(self, level: int, of: int) -> tuple[int, str | None]:
        """Ask a broker to finalize a level of records."""
        asked = [{"Feature": RECORDS, "MaxVersionLevel": level, "UpgradeType": 1}]

        def told(session: Session) -> Any:
            return session.call("UpdateFeatures", 2, FeatureUpdates=asked, timeoutMs=10_000)

        answer = self.ask(told, of)
        return answer["ErrorCode"], answer["ErrorMessage"]


@pytest.fixture
def rolled(broker_kind: str, tmp_path: Path) -> Iterator[Rolled]:
    """Three brokers of the older release, with a topic of three replicas."""
    if broker_kind != "kafkalite":
        pytest.skip("three brokers are started of ours only")
    cluster = Rolled(tmp_path)
    try:
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        safe = {"min.insync.replicas": "2"}
        topic = NewTopic(TOPIC, 1, replica_assignment=[[2, 3, 1]], config=safe)
        admin.create_topics([topic])[TOPIC].result(30)
        cluster.wait_in_sync(TOPIC)
        yield cluster
    finally:
        cluster.close()


def test_three_brokers_are_rolled_to_this_release_under_load(rolled: Rolled) -> None:
    chase = Chase(rolled)
    older = rolled.level(1)
    for number, member in rolled.members.items():
        assert isinstance(member, Upgraded)
        marks, began = chase.marks(), time.monotonic()
        assert member.stop() == 0
        chase.seconds_to_go_on(began, marks)
        member.is_older = False
        member.start()
        rolled.wait_in_sync(TOPIC)
        assert rolled.level(number) == older
        newest = rolled.newest(number)
        if number < len(rolled.members) and newest > older:
            code, words = rolled.raise_level(newest, number)
            assert (code, "only supports versions 1" in (words or "")) == (95, True)
    if newest > older:
        assert rolled.raise_level(newest, 3) == (0, None)
        eventually(lambda: all(rolled.level(number) == newest for number in rolled.members))
    chase.finish()
    print(f"level {older} before, {newest} after")
    late = rolled.members[3]
    assert isinstance(late, Upgraded)
    assert late.stop() == 0
    late.is_older = True
    if OLDER is None:
        # The release before features gives up after a minute.
        with pytest.raises(BrokerFailed, match=f"the finalized level 2 of {RECORDS}"):
            late.start()
        # It never said that it is ready.
        late.starts -= 1
    elif newest == older:
        # A release that supports the level can come back.
        late.start()
        rolled.wait_in_sync(TOPIC)
        assert late.stop() == 0
    late.is_older = False
    late.start()
    rolled.wait_in_sync(TOPIC)
