"""What the connector refuses, in words a person can act on."""

__all__ = ["MissingError", "OptionError", "ReadError", "WriteError"]


class OptionError(ValueError):
    """An option that does not exist, or a value that it cannot have.

    Attributes:
        option: The option's name as documentation spells it.
    """

    def __init__(self, option: str, why: str, hint: str = "") -> None:
        """Say which option, what is wrong with it, and what would be right."""
        super().__init__(f"option {option}: {why}{'. ' + hint if hint else ''}")
        self.option = option


class ReadError(RuntimeError):
    """Records that cannot be read as asked; with ``failOnDataLoss``, offsets that are gone."""


class MissingError(ReadError):
    """Topics or partitions that are not there, or no more."""


class WriteError(RuntimeError):
    """Rows that cannot be written as asked."""
