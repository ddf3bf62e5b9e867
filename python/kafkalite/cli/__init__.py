"""The command line: everything but ``serve``, which is the binary's own.

Answers go to stdout, talk to stderr. A command's module is imported when it is named.
"""

from __future__ import annotations

from .program import main

__all__ = ["main"]
