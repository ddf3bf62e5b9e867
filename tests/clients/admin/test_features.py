"""Features of a cluster, by both admin clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import kafkalite as kl

METADATA = "metadata.version"


def test_each_feature_has_its_finalized_and_its_supported_levels(admin: kl.AdminClient) -> None:
    told = admin.describe_features()
    assert told.epoch is not None
    metadata = told.features[METADATA]
    assert 0 < metadata.min_supported <= metadata.finalized <= metadata.max_supported
    broker = admin.describe_cluster().brokers[0].id
    assert admin.describe_features(broker=broker).features == told.features


def test_a_broker_that_is_not_there_has_no_features(admin: kl.AdminClient) -> None:
    with pytest.raises(kl.BrokerError, match="broker 99"):
        admin.describe_features(broker=99, timeout=1)


def test_the_level_that_a_feature_has_may_be_finalized_again(admin: kl.AdminClient) -> None:
    level = admin.describe_features().features[METADATA].finalized
    admin.update_features({METADATA: level})
    admin.update_features({METADATA: level}, upgrade_type="safe_downgrade", validate_only=True)


def test_a_refusal_is_a_brokers_error_with_its_words(kafkalite_bootstrap: str) -> None:
    async def ask() -> None:
        async with kl.AsyncAdminClient(bootstrap_servers=kafkalite_bootstrap) as admin:
            before = (await admin.describe_features()).features
            with pytest.raises(kl.BrokerError, match=r"INVALID_UPDATE_VERSION.*only supports"):
                await admin.update_features({METADATA: 32_000})
            assert (await admin.describe_features()).features == before

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("levels", "upgrade_type", "text"),
    [
        ({METADATA: -1}, "upgrade", "-1 is not a feature level"),
        ({METADATA: 40_000}, "upgrade", "40000 is not a feature level"),
        ({METADATA: 1}, "downgrade", "'downgrade' is not upgrade, safe_downgrade"),
    ],
)
def test_what_is_no_level_is_refused_before_it_is_sent(
    admin: kl.AdminClient, levels: dict[str, int], upgrade_type: Any, text: str
) -> None:
    with pytest.raises(kl.InvalidArgumentError, match=text):
        admin.update_features(levels, upgrade_type=upgrade_type)
