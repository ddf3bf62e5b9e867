"""The topic or group that was probably meant by a name that does not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import GroupNotFoundError, KafkaliteError, PartialError, UnknownTopicError
from .failures import CommandError, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .connecting import Cluster

#: What a command calls the parameters that name topics or groups.
_NAMING = ("words", "topic", "names", "name")
#: Seconds that the list of names may take: the failure itself is known already.
_PATIENCE_S = 2.0

Missing = UnknownTopicError | GroupNotFoundError | PartialError


def with_name_meant(error: Missing, cluster: Cluster, given: Mapping[str, Any]) -> CommandError:
    """Return what to say about a failure; the hint is the name that was meant, if one is near.

    Args:
        error: The failure.
        cluster: Where the names are.
        given: The parameters of the command, by name.
    """
    failure = told(error)
    errors = list(error.errors.values()) if isinstance(error, PartialError) else [error]
    kinds = {type(one) for one in errors}
    if kinds not in ({UnknownTopicError}, {GroupNotFoundError}):
        return failure
    values = [value for name in _NAMING if (value := given.get(name))]
    words = [word for value in values for word in ([value] if isinstance(value, str) else value)]
    is_group = GroupNotFoundError in kinds
    if near := nearest(cluster, [word.partition(":")[0] for word in words], groups=is_group):
        failure.hint = f"did you mean {near}?"
    return failure


def nearest(cluster: Cluster, names: Iterable[str], *, groups: bool = False) -> str | None:
    """Return the topic, or the group, that one of ``names`` comes near to.

    Args:
        cluster: Where the names are.
        names: Names as they were given; the first that does not exist and comes near to one counts.
        groups: Look for groups.
    """
    from ..config_table import nearest as nearest_of

    try:
        with cluster.admin(beside=True) as admin:
            if groups:
                known = [group.group_id for group in admin.list_groups(timeout=_PATIENCE_S)]
            else:
                known = [topic.name for topic in admin.list_topics(timeout=_PATIENCE_S)]
    except (KafkaliteError, TimeoutError):
        return None
    found = (nearest_of(name, known) for name in names if name not in known)
    return next((near for near in found if near is not None), None)
