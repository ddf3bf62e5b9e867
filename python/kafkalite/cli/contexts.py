"""Saved contexts: clusters that have a name, in a file of the user.

::

    {"current": "staging",
     "contexts": {"staging": {"bootstrap_servers": "b1:9092,b2:9092", "client_config": {}}}}
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from .failures import CommandError, ExitCode

#: Where the cluster is, if nothing says so.
DEFAULT_SERVERS = "localhost:9092"


@dataclass(frozen=True)
class Context:
    """A cluster that has a name."""

    bootstrap_servers: str
    #: Keys with dots, as every client takes them as ``config=``.
    client_config: dict[str, str] = field(default_factory=dict)


@dataclass
class Contexts:
    """What the file says."""

    current: str | None = None
    contexts: dict[str, Context] = field(default_factory=dict)

    def named(self, name: str) -> Context:
        """Return a context.

        Raises:
            CommandError: No context has this name.
        """
        from ..config_table import nearest

        if name in self.contexts:
            return self.contexts[name]
        meant = nearest(name, list(self.contexts))
        raise CommandError(
            f"no context {name}",
            hint=f"did you mean {meant}?" if meant else "`kafkalite context list` shows them.",
            exit_code=ExitCode.NOT_FOUND,
        )

    def save(self) -> None:
        """Write the file, as a whole or not at all; only the user may read it."""
        import tempfile

        path = path_of_file()
        told = {name: asdict(context) for name, context in sorted(self.contexts.items())}
        text = json.dumps({"current": self.current, "contexts": told}, indent=2)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


def path_of_file() -> Path:
    """Return the path of the file: ``$XDG_CONFIG_HOME/kafkalite/contexts.json`` on Linux."""
    return Path(click.get_app_dir("kafkalite")) / "contexts.json"


def load() -> Contexts:
    """Read the file; one that is missing has no contexts.

    Raises:
        CommandError: The file cannot be read.
    """
    path = path_of_file()
    try:
        return _read(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = getattr(error, "strerror", None) or "the file is not what `context add` writes"
        raise CommandError(
            f"cannot read the contexts in {path}",
            why=[str(why).lower()],
            hint="mend the file, or remove it and add the contexts again.",
            exit_code=ExitCode.USAGE,
        ) from None


def _read(given: Any) -> Contexts:
    contexts = {
        str(name): Context(
            _text(context["bootstrap_servers"]),
            {_text(key): _text(value) for key, value in context["client_config"].items()},
        )
        for name, context in given["contexts"].items()
    }
    current = given["current"]
    return Contexts(current if current in contexts else None, contexts)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def chosen(servers: str | None, name: str | None) -> Context:
    """Return where the cluster is.

    Args:
        servers: As given on the command line or in the environment.
        name: Of the context that was asked for.

    Returns:
        The context of that name; else the servers; else the current context; else the default
        address.

    Raises:
        CommandError: No context has this name, or the contexts cannot be read.
    """
    if name is not None:
        return load().named(name)
    if servers is not None:
        return Context(servers)
    found = load()
    return Context(DEFAULT_SERVERS) if found.current is None else found.contexts[found.current]
