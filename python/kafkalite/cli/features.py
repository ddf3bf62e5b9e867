"""``kafkalite cluster features``: the levels of features, and changes of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from ..errors import BrokerError
from .answers import answer_json, answer_table, json_option, say
from .connecting import Cluster, cluster_options, confirm, yes_option
from .failures import CommandError, ExitCode, told
from .helping import examples

if TYPE_CHECKING:
    from ..admin import AdminClient
    from ..descriptions import FeatureLevels, FeatureMetadata
    from ..feature_calls import UpgradeType

#: A level is a number of 16 bits.
_LEVEL = re.compile("[0-9]{1,5}")
_GREATEST_LEVEL = 32_767


class Level(click.ParamType["tuple[str, int]"]):
    """A feature and its level."""

    name = "FEATURE=LEVEL"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Read them."""
        if isinstance(value, tuple):
            return value
        feature, _, level = str(value).rpartition("=")
        if not feature or not _LEVEL.fullmatch(level) or int(level) > _GREATEST_LEVEL:
            example = "metadata.version=30"
            self.fail(f"{value!r} is not a feature and a level, such as {example}", param, ctx)
        return feature, int(level)


@click.command(
    "features",
    epilog=examples(
        "kafkalite cluster features",
        "kafkalite cluster features --json",
        "kafkalite cluster features --upgrade kafkalite.record.version=2 --dry-run",
        "kafkalite cluster features --downgrade metadata.version=29 --yes",
    ),
)
@click.option("--upgrade", type=Level(), multiple=True, help="Raise a feature (repeatable).")
@click.option("--downgrade", type=Level(), multiple=True, help="Lower a feature (repeatable).")
@click.option("--unsafe", is_flag=True, help="Lower a feature even if metadata are lost.")
@click.option("--dry-run", is_flag=True, help="Check the change without making it.")
@yes_option
@json_option
@cluster_options
def features(
    cluster: Cluster,
    upgrade: tuple[tuple[str, int], ...],
    downgrade: tuple[tuple[str, int], ...],
    unsafe: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Show the levels of features, or change them.

    A finalized level counts for the whole cluster. Each broker supports a range of levels. After an
    upgrade of all brokers to a new release, --upgrade finalizes a higher level. Level 0 disables a
    feature.
    """
    if upgrade and downgrade:
        raise click.UsageError("give --upgrade or --downgrade, not both")
    if unsafe and not downgrade:
        raise click.UsageError("--unsafe wants --downgrade")
    if dry_run and not (upgrade or downgrade):
        raise click.UsageError("--dry-run wants --upgrade or --downgrade")
    levels = dict(upgrade or downgrade)
    if len(levels) < len(upgrade or downgrade):
        raise click.UsageError("a feature is named twice")
    with cluster.admin() as admin:
        before = admin.describe_features(timeout=cluster.timeout)
        if not levels:
            return _show(before, as_json)
        way: UpgradeType = "upgrade"
        if downgrade:
            way = "unsafe_downgrade" if unsafe else "safe_downgrade"
        if not dry_run:
            words = ", ".join(f"{name} {level}" for name, level in levels.items())
            confirm(f"Finalize {words}? A level may not go back.", yes)
        _update(admin, levels, way, dry_run, cluster)
    rows = [
        {"feature": name, "before": _of(before, name).finalized, "finalized": level}
        for name, level in levels.items()
    ]
    answer_table(rows, ["feature", "before", "finalized"], as_json=as_json)
    if dry_run:
        say("nothing was changed (--dry-run)")
    return None


def _update(
    admin: AdminClient, levels: dict[str, int], way: UpgradeType, dry_run: bool, cluster: Cluster
) -> None:
    try:
        admin.update_features(
            levels, upgrade_type=way, validate_only=dry_run, timeout=cluster.timeout
        )
    except BrokerError as error:
        refused = told(error)
        raise CommandError(
            refused.what,
            why=refused.why,
            hint=refused.hint or "`kafkalite cluster features` shows the levels that there are.",
            exit_code=ExitCode.REFUSED,
        ) from None


def _of(metadata: FeatureMetadata, feature: str) -> FeatureLevels:
    from ..descriptions import FeatureLevels

    return metadata.features.get(feature, FeatureLevels(0, 0, 0))


def _show(metadata: FeatureMetadata, as_json: bool) -> None:
    rows = [
        {
            "feature": name,
            "finalized": levels.finalized,
            "min_supported": levels.min_supported,
            "max_supported": levels.max_supported,
        }
        for name, levels in metadata.features.items()
    ]
    if as_json:
        return answer_json({"epoch": metadata.epoch, "features": rows})
    return answer_table(
        rows, ["feature", "finalized", "min_supported", "max_supported"], as_json=False
    )
