"""UpdateFeatures (57): levels of features go up, and down where nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.session import Session
from tests.harness.wire.versions import edges

INVALID_UPDATE_VERSION = 95
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
RECORDS, METADATA = "kafkalite.record.version", "metadata.version"


def update(name: str, level: int, kind: int = UPGRADE) -> dict[str, Any]:
    return {"Feature": name, "MaxVersionLevel": level, "UpgradeType": kind}


def levels(s: Session) -> dict[str, tuple[int, int, int]]:
    """Lowest and highest supported level, and the finalized one."""
    told = s.call("ApiVersions", 4, ClientSoftwareName="a", ClientSoftwareVersion="1")
    assert told["FinalizedFeaturesEpoch"] >= 0
    finalized = {one["Name"]: one["MaxVersionLevel"] for one in told["FinalizedFeatures"]}
    return {
        one["Name"]: (one["MinVersion"], one["MaxVersion"], finalized[one["Name"]])
        for one in told["SupportedFeatures"]
    }


def test_a_new_broker_has_the_highest_levels_that_it_supports(s: Session) -> None:
    assert levels(s) == {METADATA: (7, 30, 30), RECORDS: (1, 2, 2)}


@pytest.mark.parametrize("version", edges("UpdateFeatures"))
def test_the_level_that_a_feature_has_is_taken_in_version(s: Session, version: int) -> None:
    asked = update(METADATA, 30)
    if version == 0:
        del asked["UpgradeType"]
        asked["AllowDowngrade"] = False
    answer = s.call("UpdateFeatures", version, FeatureUpdates=[asked], timeoutMs=5000)
    assert (answer["ErrorCode"], answer["ErrorMessage"]) == (0, None)
    results = [(one["Feature"], one["ErrorCode"]) for one in answer.get("Results", [])]
    assert results == ([(METADATA, 0)] if version < 2 else [])


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (update(RECORDS, 1), "without setting the upgrade type"),
        (update(RECORDS, 1, SAFE_DOWNGRADE), "might delete metadata information"),
        (update(RECORDS, 1, UNSAFE_DOWNGRADE), "Unsafe metadata downgrade is not supported"),
        (update(RECORDS, 3), "only supports versions 1-2"),
        (update("no.such.feature", 1), "does not support this feature"),
    ],
)
def test_a_level_that_cannot_be_is_refused(s: Session, asked: dict[str, Any], words: str) -> None:
    before = levels(s)
    answer = s.call("UpdateFeatures", 2, FeatureUpdates=[asked], timeoutMs=5000)
    assert answer["ErrorCode"] == INVALID_UPDATE_VERSION
    assert words in answer["ErrorMessage"]
    assert levels(s) == before
