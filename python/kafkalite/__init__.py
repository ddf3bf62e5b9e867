"""kafkalite: a Kafka broker that pip installs.

Importing this package imports nothing but itself; each public name is loaded
when it is first used, so that ``python -m kafkalite serve`` listens at once.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._native import __version__ as __version__
    from .broker import Broker as Broker
    from .errors import BrokerStartError as BrokerStartError
    from .errors import KafkaliteError as KafkaliteError
    from .logs import forward_logs as forward_logs

__all__ = ["Broker", "BrokerStartError", "KafkaliteError", "__version__", "forward_logs"]

_HOMES = {
    "Broker": "kafkalite.broker",
    "BrokerStartError": "kafkalite.errors",
    "KafkaliteError": "kafkalite.errors",
    "__version__": "kafkalite._native",
    "forward_logs": "kafkalite.logs",
}


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'kafkalite' has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, sorted."""
    return sorted(__all__)
