"""Examples below the help of a command."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """Return the end of a help text: commands to paste, one a line.

    Args:
        lines: Each begins with ``kafkalite``, or with a program that is piped into it.
    """
    # The first character tells click to leave the lines alone.
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
