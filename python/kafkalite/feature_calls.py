"""What both admin clients do with features; see ``admin_calls``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from .admin_calls import Call
from .descriptions import FeatureLevels, FeatureMetadata
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from ._native import AdminClient

UpgradeType = Literal["upgrade", "safe_downgrade", "unsafe_downgrade"]

#: Kafka's numbers of them.
_UPGRADE_TYPES: dict[str, int] = {"upgrade": 1, "safe_downgrade": 2, "unsafe_downgrade": 3}
#: A level is a number of 16 bits.
_GREATEST_LEVEL = 32_767


def describe_features(
    native: AdminClient, broker: int | None, timeout: float | None
) -> Call[FeatureMetadata]:
    """Start describing features."""

    def finish(fields: Any) -> FeatureMetadata:
        epoch, features = fields
        levels = {name: FeatureLevels(*numbers) for name, *numbers in features}
        return FeatureMetadata(epoch, levels)

    return Call(native.describe_features(broker, timeout), finish)


def update_features(
    native: AdminClient,
    levels: Mapping[str, int],
    upgrade_type: UpgradeType,
    validate_only: bool,
    timeout: float | None,
) -> Call[None]:
    """Start finalizing other levels."""
    number = _UPGRADE_TYPES.get(upgrade_type)
    if number is None:
        names = ", ".join(_UPGRADE_TYPES)
        raise InvalidArgumentError(
            f"INVALID_REQUEST: upgrade_type: {upgrade_type!r} is not {names}"
        )
    for name, level in levels.items():
        if not 0 <= level <= _GREATEST_LEVEL:
            raise InvalidArgumentError(f"INVALID_REQUEST: {name}: {level} is not a feature level")
    operation = native.update_features(dict(levels), number, validate_only, timeout)
    return Call(operation, lambda _: None)
