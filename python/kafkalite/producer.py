"""The producer: records in, batches out, on a thread of its own.

Nothing needs to be polled. Records of one partition stay in the order in which they were sent, even
if batches are sent again. With ``enable_idempotence`` (the default) none is written twice.

Source:
    Kafka protocol, Produce (key 0) and InitProducerId (key 22); KIP-98, KIP-360, KIP-794.
"""

from __future__ import annotations

import atexit
import contextlib
import types
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Self

from . import _native
from ._native import BatchDelivery, DeliveredRange, Delivery, RecordMetadata
from .arguments import absent, checked_callables, refuse_positional
from .config import merged, warn
from .errors import KafkaliteError
from .typevars import SentKey, SentValue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Never, Unpack

    from .config import ConfigValue, ProducerOptions

__all__ = ["BatchDelivery", "DeliveredRange", "Delivery", "Producer", "RecordMetadata"]

#: How long the interpreter's end may take to deliver what is left, in seconds.
EXIT_TIMEOUT_S = 5.0

_open: weakref.WeakSet[Producer[Any, Any]] = weakref.WeakSet()
_watching = False


if TYPE_CHECKING:
    from ._native import Producer as _Producer
else:

    class _Producer(_native.Producer):
        """The binary's producer, with brackets behind its name: they say something to readers."""

        __class_getitem__ = classmethod(types.GenericAlias)


class Producer(_Producer[SentKey, SentValue]):
    """Sends records to topics.

    ``Producer[K, V]`` takes keys and values of these types; without serializers bytes or text.
    Safe to use from several threads. A context manager: leaving it closes it. A producer that is
    left open is closed at the end of the interpreter.

    Examples:
        >>> with Producer(bootstrap_servers="localhost:9092") as producer:
        ...     producer.send("orders", b"hello", key=b"k1").result(timeout=5)
    """

    def __new__(
        cls,
        *_positional: Never,
        config: Mapping[str, ConfigValue | None] | None = None,
        key_serializer: Callable[[SentKey], bytes] | None = None,
        value_serializer: Callable[[SentValue], bytes] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> Self:
        """Make a producer; nothing is connected before the first record.

        Args:
            config: Keys as Kafka spells them, ``{"linger.ms": 5}``.
            key_serializer: Makes keys into bytes; ``None`` stays ``None``.
            value_serializer: Makes values into bytes; ``None`` stays ``None``.
            **options: Keys as keywords, ``linger_ms=5``; they win over ``config``.

        Raises:
            ConfigError: A key that no producer has, or a value that it cannot have.
        """
        refuse_positional("Producer", _positional)
        checked_callables(key_serializer=key_serializer, value_serializer=value_serializer)
        producer = super().__new__(cls, merged(config, options), key_serializer, value_serializer)
        warn(producer._warnings)
        _remember(producer)
        return producer

    def close(self, timeout: float = 5.0) -> None:
        """Deliver what was added so far, call its callbacks, and end. Closing again does nothing.

        What is not delivered in time fails with ``ClosedError``, and a warning tells how many
        records that are.

        Args:
            timeout: Seconds to deliver; what is left then takes a second at most.
        """
        lost = self._close(timeout)
        _open.discard(self)
        if lost:
            warnings.warn(lost_at_close(lost), RuntimeWarning, stacklevel=2)

    def __enter__(self) -> Self:
        """Return the producer."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the producer."""
        self.close()

    def __del__(self) -> None:
        """Close a producer that was left open."""
        # An object whose making failed has nothing to close.
        with contextlib.suppress(KafkaliteError, TypeError):
            if not self.closed:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
                self.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say what to do in place of what other producers have."""
            raise absent(self, name)

    def __repr__(self) -> str:
        """Return what it is, and whether it is open."""
        return f"<kafkalite.Producer {'closed' if self.closed else 'open'}>"


def lost_at_close(count: int) -> str:
    """Return what a warning says of so many records that were not delivered."""
    return f"{count} records were not delivered before the producer was closed"


def _remember(producer: Producer[Any, Any]) -> None:
    """Have the producer closed at the end of the interpreter.

    What is registered last is called first: here, while threads may still call Python.
    """
    global _watching
    _open.add(producer)
    if not _watching:
        _watching = True
        atexit.register(_close_all)


def _close_all() -> None:
    for producer in list(_open):
        with contextlib.suppress(KafkaliteError):
            producer.close(EXIT_TIMEOUT_S)
