"""Keeps the decisions (``adr``) out of the search: readers of the guides do not look for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx


def leave_out(app: Sphinx, _doctree: nodes.document) -> None:
    """Mark the page that was just read, if it is a decision."""
    page = app.env.docname
    if page.startswith("adr/"):
        app.env.metadata[page]["nosearch"] = "true"


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen for pages."""
    app.connect("doctree-read", leave_out)
    return {"parallel_read_safe": True}
