"""What the connector refuses, in words a person can act on."""

from __future__ import annotations

__all__ = ["MissingError", "OptionError", "ReadError", "WriteError"]


class _TextFirst(Exception):
    """An error whose text stands before the traceback in Spark's error.

    Spark shows an error of Python as text that begins with the traceback, and takes its cause away.
    Python prints a cause before the traceback, and a cause that was never raised is one line. So
    the cause of this error is always its own text.
    """

    _text: _TextFirst | None = None
    _is_text = False

    @property
    def __cause__(self) -> BaseException | None:
        if self._text is None and not self._is_text:
            self._text = type(self).__new__(type(self), *self.args)
            self._text._is_text = True
        return self._text

    @__cause__.setter
    def __cause__(self, cause: BaseException | None) -> None:
        """Keep the text."""


class OptionError(_TextFirst, ValueError):
    """An option that does not exist, or a value that it cannot have.

    Attributes:
        option: The option's name as documentation spells it.
    """

    def __init__(self, option: str, why: str, hint: str = "") -> None:
        """Say which option, what is wrong with it, and what would be right."""
        super().__init__(f"option {option}: {why}{'. ' + hint if hint else ''}")
        self.option = option


class ReadError(_TextFirst, RuntimeError):
    """Records that cannot be read as asked; with ``failOnDataLoss``, offsets that are gone."""


class MissingError(ReadError):
    """Topics or partitions that are not there, or no more."""


class WriteError(_TextFirst, RuntimeError):
    """Rows that cannot be written as asked."""
