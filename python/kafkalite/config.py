"""How clients are configured: keywords, a dictionary, or both.

A key is Kafka's, with dots in ``config=`` and with underscores as a keyword; both spellings mean
the same key everywhere. Keywords win over ``config=``. Names, types, ranges and defaults stand in
one table in the binary, which checks everything. The types below are for editors and type
checkers only.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict, TypeVar

from .errors import ConfigError

__all__ = [
    "AdminOptions",
    "ClientOptions",
    "ConfigValue",
    "ConsumerOptions",
    "ProducerOptions",
]

Value = TypeVar("Value")

#: What a value may be; a sequence is a list of texts. ``None`` leaves the default.
ConfigValue = str | int | float | bool | Sequence[str]


class ClientOptions(TypedDict, total=False):
    """Keywords of every client. Times are in milliseconds, sizes in bytes."""

    bootstrap_servers: str | Sequence[str] | None
    client_id: str | None
    client_dns_lookup: Literal["use_all_dns_ips"] | None
    request_timeout_ms: int | None
    kafkalite_bootstrap_timeout_ms: int | None
    socket_connection_setup_timeout_ms: int | None
    socket_connection_setup_timeout_max_ms: int | None
    reconnect_backoff_ms: int | None
    reconnect_backoff_max_ms: int | None
    retry_backoff_ms: int | None
    retry_backoff_max_ms: int | None
    metadata_max_age_ms: int | None
    metadata_recovery_strategy: Literal["rebootstrap", "none"] | None
    connections_max_idle_ms: int | None
    send_buffer_bytes: int | None
    receive_buffer_bytes: int | None
    security_protocol: Literal["plaintext", "PLAINTEXT"] | None
    kafkalite_response_max_bytes: int | None


class AdminOptions(ClientOptions, total=False):
    """Keywords of ``AdminClient`` and ``AsyncAdminClient``."""

    default_api_timeout_ms: int | None


class ProducerOptions(ClientOptions, total=False):
    """Keywords of ``Producer`` and ``AsyncProducer``."""

    acks: Literal["all", -1, 0, 1, "-1", "0", "1"] | None
    enable_idempotence: bool | None
    linger_ms: int | None
    batch_size: int | None
    buffer_memory: int | None
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    compression_gzip_level: int | None
    compression_lz4_level: int | None
    compression_zstd_level: int | None
    delivery_timeout_ms: int | None
    max_block_ms: int | None
    max_in_flight_requests_per_connection: int | None
    max_request_size: int | None
    retries: int | None
    partitioner: Literal["murmur2", "consistent_random", "round_robin"] | None
    partitioner_ignore_keys: bool | None
    partitioner_adaptive_partitioning_enable: bool | None
    partitioner_availability_timeout_ms: int | None
    metadata_max_idle_ms: int | None


class ConsumerOptions(ClientOptions, total=False):
    """Keywords of ``Consumer`` and ``AsyncConsumer``, ``group_id`` aside."""

    default_api_timeout_ms: int | None
    group_instance_id: str | None
    group_protocol: Literal["classic"] | None
    partition_assignment_strategy: str | Sequence[str] | None
    auto_offset_reset: Literal["latest", "earliest", "none"] | None
    enable_auto_commit: bool | None
    auto_commit_interval_ms: int | None
    session_timeout_ms: int | None
    heartbeat_interval_ms: int | None
    max_poll_interval_ms: int | None
    max_poll_records: int | None
    fetch_min_bytes: int | None
    fetch_max_wait_ms: int | None
    fetch_max_bytes: int | None
    max_partition_fetch_bytes: int | None
    isolation_level: Literal["read_uncommitted", "read_committed"] | None
    check_crcs: bool | None
    client_rack: str | None
    exclude_internal_topics: bool | None
    allow_auto_create_topics: bool | None
    kafkalite_fetch_buffer_max_bytes: int | None
    kafkalite_batch_max_bytes: int | None


def merged(
    config: Mapping[str, ConfigValue | None] | None, keywords: Mapping[str, object]
) -> dict[str, str]:
    """Return all keys with dots and all values as text, as the binary takes them.

    Args:
        config: What was given as ``config=``.
        keywords: What was given as keywords, which win.

    Raises:
        ConfigError: A key that is no text, or a value of a type that no key has.
    """
    pairs: dict[str, str] = {}
    for source in (checked_mapping(config), keywords):
        for key, value in source.items():
            if not isinstance(key, str):
                raise ConfigError(f"INVALID_CONFIG: {key!r}: a key is a text")
            if value is not None:
                name = key.replace("_", ".")
                pairs[name] = text_of(name, value)
    return pairs


def checked_mapping(config: Mapping[str, Value] | None) -> Mapping[str, Value]:
    """Return a configuration, an empty one for ``None``.

    Raises:
        ConfigError: It is no mapping.
    """
    if config is None or isinstance(config, Mapping):
        return config or {}
    raise ConfigError(
        f"INVALID_CONFIG: config: {config!r} is not a mapping of keys to values",
        hint='write config={"linger.ms": 5}, or linger_ms=5.',
    )


def text_of(key: str, value: object) -> str:
    """Return a value as configurations spell it.

    Raises:
        ConfigError: No key has a value of this type.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    hint = "a value is a text, a number, True, False, or a list of texts."
    if callable(value):
        hint = (
            "no key takes a function: produce() takes on_delivery=, commit_async() callback=, a "
            "consumer on_assign= and the like, and failures are raised."
        )
    raise ConfigError(f"INVALID_CONFIG: {key}: {value!r} is not a value of a key", hint=hint)


def warn(texts: Sequence[str], *, stacklevel: int = 3) -> None:
    """Warn of what a configuration has that changes nothing.

    Args:
        texts: The warnings.
        stacklevel: Whose line they name: 3 is that of the caller's caller, who makes a client.
    """
    for text in texts:
        warnings.warn(text, stacklevel=stacklevel)
