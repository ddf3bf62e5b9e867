"""Names of topics and groups for a shell that completes a word, out of the cluster itself.

Who presses the tab key waits: no broker that answers at once means no names, and no word of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..errors import KafkaliteError
from .connecting import Cluster, key_values
from .contexts import chosen
from .failures import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from click.shell_completion import CompletionItem

    from ..admin import AdminClient

#: Seconds that a shell may be kept waiting.
_PATIENCE_S = 0.5


def topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the topics whose names begin so, but those that stand there already."""
    return _named(ctx, param, incomplete, _topics)


def groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the groups whose names begin so, but those that stand there already."""
    return _named(ctx, param, incomplete, _groups)


def _topics(admin: AdminClient) -> Iterable[str]:
    return (topic.name for topic in admin.list_topics(timeout=_PATIENCE_S))


def _groups(admin: AdminClient) -> Iterable[str]:
    return (group.group_id for group in admin.list_groups(timeout=_PATIENCE_S))


def _named(
    ctx: click.Context,
    param: click.Parameter,
    incomplete: str,
    ask: Callable[[AdminClient], Iterable[str]],
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    given = ctx.params.get(str(param.name))
    others = given if isinstance(given, tuple) else ()
    try:
        where = chosen(ctx.params.get("servers"), ctx.params.get("context"))
        pairs = key_values(ctx.params.get("client_pairs") or (), "--client-config")
        bounds = {"kafkalite.bootstrap.timeout.ms": str(int(_PATIENCE_S * 1000))}
        config = where.client_config | pairs | bounds
        with Cluster(where.bootstrap_servers, config).admin() as admin:
            found = sorted(ask(admin))
    except (KafkaliteError, TimeoutError, click.ClickException, CommandError):
        return []
    return [
        CompletionItem(name) for name in found if name.startswith(incomplete) and name not in others
    ]
