"""Directives that draw reference pages from the binary: keys, errors, commands.

- `broker-keys`, `topic-keys` and `client-keys` read the tables of keys;
- `error-codes` and `exception-tree` read the table of errors;
- `commands` reads the command line;
- `exceptions` and `public-names` read the docstrings.

Each directive makes Markdown, and MyST reads it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import kafkalite
from kafkalite import _native, errors
from kafkalite.cli.program import program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

CHANGES = {
    "start": "when the broker starts",
    "broker": "while it runs, broker by broker",
    "cluster": "while it runs",
}


class Drawn(SphinxDirective):
    """A directive whose content is Markdown that it makes itself."""

    def markdown(self) -> Iterator[str]:
        """The lines."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Have the lines read where the directive stands."""
        text = "\n".join(self.markdown())
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def shown(default: str | None) -> str:
    """A default as readers see it."""
    if default is None:
        return "unset"
    return f"`{default}`" if default else "empty"


def meant(text: str) -> str:
    """A meaning as one paragraph, in which ``*`` and ``_`` are themselves."""
    return re.sub(r"([*_<>|])", r"\\\1", text)


def cells(*texts: str) -> str:
    """A row of a table."""
    return "| " + " | ".join(texts) + " |"


def head(*texts: str, style: str = "filterable") -> Iterator[str]:
    """The first lines of a table that a reader can filter."""
    yield f"{{.{style.replace(' ', ' .')}}}"
    yield cells(*texts)
    yield "|---" * len(texts) + "|"


def anchored(name: str, level: str) -> str:
    """A name that other pages can link to; ids are unique on the site."""
    prefix = "" if level == "broker" else f"{level}-"
    return f"`{name}`{{#{prefix}{name.replace('.', '-')}}}"


class BrokerKeys(Drawn):
    """Every key of a broker, or of a topic."""

    level = "broker"

    def markdown(self) -> Iterator[str]:
        """A table in alphabetical order."""
        changes = ["changes"] if self.level == "broker" else []
        columns = ("key", "type", "default", "valid", *changes, "meaning")
        yield from head(*columns, style="filterable keys")
        for key in sorted(_native.config_keys(), key=lambda key: key.name):
            if key.level == self.level:
                yield cells(*self.row(key))

    def row(self, key: _native.ConfigKey) -> Iterator[str]:
        """Name, type and unit, default, valid values, when it may change, meaning."""
        yield anchored(key.name, self.level)
        yield f"{key.kind}{f' ({key.unit})' if key.unit else ''}"
        if key.synonyms:
            yield "the broker's " + ", ".join(
                f"[`{name}`](broker-config.md#{name.replace('.', '-')})" for name in key.synonyms
            )
        else:
            yield "by the machine" if key.by_machine else shown(key.default)
        yield f"`{key.valid}`" if key.valid else ""
        if self.level == "broker":
            yield CHANGES[key.changes]
        yield meant(key.doc)


class TopicKeys(BrokerKeys):
    """Every key of a topic."""

    level = "topic"


class ClientKeys(Drawn):
    """Every key of the clients whose name is the argument: all, producer, consumer or admin."""

    required_arguments = 1

    def markdown(self) -> Iterator[str]:
        """A table in alphabetical order."""
        yield from head("key", "type", "default", "valid", "meaning", style="filterable keys")
        for name, owner, kind, default, valid, doc in sorted(_native.client_keys()):
            if owner == self.arguments[0]:
                checked = f"`{valid}`" if valid else ""
                yield cells(
                    anchored(name, owner), kind.lower(), shown(default), checked, meant(doc)
                )


class ErrorCodes(Drawn):
    """Every error code of Kafka and the exception it becomes."""

    def markdown(self) -> Iterator[str]:
        """A table."""
        yield from head("code", "name", "exception", "try again")
        for code, name, exception, retriable in _native.error_codes():
            if code != 0:
                yes = "yes" if retriable else ""
                link = f"[`{exception}`](#kafkalite.errors.{exception})"
                yield f"| {code} | `{name}` | {link} | {yes} |"


class ExceptionTree(Drawn):
    """The tree of exceptions, from the head of its module."""

    def markdown(self) -> Iterator[str]:
        """A block of text."""
        head = errors.__doc__ or ""
        tree = head[head.index("    KafkaliteError") : head.rindex("\n\nEvery")]
        yield "```text"
        yield from (line.removeprefix("    ") for line in tree.splitlines())
        yield "```"


class Exceptions(Drawn):
    """Every exception, in the order of the tree."""

    def markdown(self) -> Iterator[str]:
        """Autodoc's own directives."""
        tree = errors.__doc__ or ""
        yield "```{eval-rst}"
        for name in sorted(errors.__all__, key=lambda name: tree.index(f" {name} ")):
            yield f".. autoexception:: kafkalite.errors.{name}\n"
        yield "```"


class PublicNames(Drawn):
    """The public names of ``kafkalite`` without exceptions: classes, then functions."""

    def markdown(self) -> Iterator[str]:
        """Autodoc's own directives."""
        found = {name: getattr(kafkalite, name) for name in kafkalite.__all__ if name[0] != "_"}
        classes = {name: one for name, one in found.items() if isinstance(one, type)}
        yield "```{eval-rst}"
        for name, one in classes.items():
            if not issubclass(one, Exception):
                yield f".. autoclass:: kafkalite.{name}\n   :members:"
                # Those of our own bases belong to the class; those of Python's do not.
                yield "   :inherited-members: object,tuple\n"
        for name in found.keys() - classes.keys():
            if callable(found[name]):
                yield f".. autofunction:: kafkalite.{name}\n"
        yield "```"


class Commands(Drawn):
    """The help of every command, as it is printed."""

    def markdown(self) -> Iterator[str]:
        """A heading and a block for each command, groups before their members."""
        yield from self.command(program, ["kafkalite"])

    def command(self, command: click.Command, words: list[str]) -> Iterator[str]:
        """One command, then those below it."""
        parent: click.Context | None = None
        for word in words[:-1]:
            parent = click.Context(program, info_name=word, parent=parent)
        context = click.Context(command, info_name=words[-1], parent=parent, max_content_width=90)
        yield f"{'#' * min(len(words) + 1, 4)} `{' '.join(words)}`\n"
        yield f"```text\n{command.get_help(context)}\n```\n"
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                if below is not None and not below.hidden:
                    yield from self.command(below, [*words, name])


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    app.add_directive("broker-keys", BrokerKeys)
    app.add_directive("topic-keys", TopicKeys)
    app.add_directive("client-keys", ClientKeys)
    app.add_directive("error-codes", ErrorCodes)
    app.add_directive("exception-tree", ExceptionTree)
    app.add_directive("exceptions", Exceptions)
    app.add_directive("public-names", PublicNames)
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
