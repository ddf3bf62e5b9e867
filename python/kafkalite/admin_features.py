"""The calls of ``AdminClient`` about the features of a cluster."""

from __future__ import annotations

from collections.abc import Mapping

from . import feature_calls
from .admin_groups import GroupAdmin
from .descriptions import FeatureMetadata
from .feature_calls import UpgradeType


class FeatureAdmin(GroupAdmin):
    """What an admin client does with features."""

    def describe_features(
        self, *, broker: int | None = None, timeout: float | None = None
    ) -> FeatureMetadata:
        """Return the finalized level of each feature, and the levels that a broker supports.

        Args:
            broker: Id of the broker to ask; any broker by default.
            timeout: In seconds.
        Source:
            Kafka protocol, ApiVersions (key 18).
        """
        return self._wait(feature_calls.describe_features(self._native, broker, timeout))

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = "upgrade",
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Finalize other levels of features: all of them, or none if there is an error.

        Args:
            levels: The new level of each feature; 0 disables it.
            upgrade_type: ``upgrade`` only raises levels. ``safe_downgrade`` lowers levels if no
                metadata are lost, ``unsafe_downgrade`` in any case.
            validate_only: Only check the change.
            timeout: In seconds.

        Raises:
            BrokerError: The cluster cannot have such a level.
        Source:
            Kafka protocol, UpdateFeatures (key 57).
        """
        self._wait(
            feature_calls.update_features(
                self._native, levels, upgrade_type, validate_only, timeout
            )
        )
