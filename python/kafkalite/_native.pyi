import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import GenericAlias
from typing import Any, Final, Generic, Self, TypeVar, final, overload

from .errors import KafkaliteError
from .records import ArrowArray, ArrowStream, Data, Headers

__all__ = [
    "AdminClient",
    "BatchDelivery",
    "Broker",
    "ColumnBatch",
    "ConfigKey",
    "ConfigOrigin",
    "Consumer",
    "DeliveredRange",
    "Delivery",
    "EventLoop",
    "Handover",
    "LogBatch",
    "LogRecord",
    "Operation",
    "Producer",
    "RangeReader",
    "RecentRequest",
    "Record",
    "RecordBatch",
    "RecordMetadata",
    "SegmentCheck",
    "Turn",
    "__version__",
    "check_client_keys",
    "client_keys",
    "config_keys",
    "config_origins",
    "error_codes",
    "forward_log",
    "log_adopt",
    "log_batches",
    "log_check",
    "log_check_epochs",
    "log_group_record",
    "log_index",
    "log_segments",
    "nearest",
    "next_log_lines",
    "serve",
    "stop_log",
]

__version__: str

@final
class Operation:
    def result(self, timeout: float | None = None) -> Any: ...
    def done(self) -> bool: ...
    def cancel(self) -> None: ...
    def add_done_callback(self, callback: Callable[[], object]) -> None: ...

@final
class AdminClient:
    def __new__(cls, pairs: dict[str, str]) -> AdminClient: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def closed(self) -> bool: ...
    def close(self, timeout: float) -> bool: ...
    def create_topics(
        self,
        topics: list[
            tuple[str, int, int, list[tuple[int, list[int]]], list[tuple[str, str | None]]]
        ],
        validate_only: bool,
        timeout: float | None,
    ) -> Operation: ...
    def delete_topics(self, names: list[str], timeout: float | None) -> Operation: ...
    def create_partitions(
        self, totals: list[tuple[str, int]], validate_only: bool, timeout: float | None
    ) -> Operation: ...
    def list_topics(self, timeout: float | None) -> Operation: ...
    def describe_topics(self, names: list[str], timeout: float | None) -> Operation: ...
    def describe_configs(
        self,
        resources: list[tuple[int, str]],
        keys: list[str] | None,
        synonyms: bool,
        documentation: bool,
        timeout: float | None,
    ) -> Operation: ...
    def alter_configs(
        self,
        changes: list[tuple[tuple[int, str], list[tuple[str, int, str | None]]]],
        validate_only: bool,
        timeout: float | None,
    ) -> Operation: ...
    def list_offsets(
        self,
        times: list[tuple[tuple[str, int], int]],
        read_committed: bool,
        timeout: float | None,
    ) -> Operation: ...
    def delete_records(
        self, before: list[tuple[tuple[str, int], int]], timeout: float | None
    ) -> Operation: ...
    def describe_cluster(self, timeout: float | None) -> Operation: ...
    def describe_log_dirs(self, brokers: list[int] | None, timeout: float | None) -> Operation: ...
    def elect_leaders(
        self, unclean: bool, of: list[tuple[str, int]] | None, timeout: float | None
    ) -> Operation: ...
    def alter_reassignments(
        self, targets: list[tuple[tuple[str, int], list[int] | None]], timeout: float | None
    ) -> Operation: ...
    def list_reassignments(
        self, of: list[tuple[str, int]] | None, timeout: float | None
    ) -> Operation: ...
    def list_groups(
        self, states: list[str], kinds: list[str], timeout: float | None
    ) -> Operation: ...
    def describe_groups(self, groups: list[str], timeout: float | None) -> Operation: ...
    def delete_groups(self, groups: list[str], timeout: float | None) -> Operation: ...
    def list_group_offsets(
        self, group: str, of: list[tuple[str, int]] | None, timeout: float | None
    ) -> Operation: ...
    def alter_group_offsets(
        self,
        group: str,
        offsets: list[tuple[tuple[str, int], tuple[int, int | None, str]]],
        timeout: float | None,
    ) -> Operation: ...
    def reset_group_offsets(
        self, group: str, of: list[tuple[str, int]] | None, time: int, timeout: float | None
    ) -> Operation: ...
    def delete_group_offsets(
        self, group: str, of: list[tuple[str, int]], timeout: float | None
    ) -> Operation: ...
    def group_lag(self, group: str, timeout: float | None) -> Operation: ...

_K = TypeVar("_K")
_V = TypeVar("_V")

@final
class Record(Generic[_K, _V]):
    def __new__(
        cls,
        topic: str,
        partition: int,
        offset: int,
        *,
        value: _V | None = None,
        key: _K | None = None,
        headers: tuple[tuple[str, bytes | None], ...] | None = None,
        timestamp_ms: int = ...,
        timestamp_type: str = "CreateTime",
        leader_epoch: int = ...,
    ) -> Record[_K, _V]: ...
    topic: Final[str]
    partition: Final[int]
    offset: Final[int]
    timestamp_ms: Final[int]
    timestamp_type: Final[str]
    leader_epoch: Final[int]
    @property
    def key(self) -> _K | None: ...
    @property
    def value(self) -> _V | None: ...
    headers: Final[tuple[tuple[str, bytes | None], ...]]
    @property
    def _claim(self) -> tuple[str, int, int, int, str, int]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __class_getitem__(cls, key: object) -> GenericAlias: ...

@final
class RecordBatch:
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> Record[Any, Any]: ...
    @overload
    def __getitem__(self, index: slice, /) -> RecordBatch: ...
    def __iter__(self) -> Iterator[Record[Any, Any]]: ...
    def records(self) -> list[Record[Any, Any]]: ...
    def values(self) -> list[Any]: ...
    def keys(self) -> list[Any]: ...
    def headers(self) -> list[tuple[tuple[str, bytes | None], ...]]: ...
    @property
    def offsets(self) -> memoryview: ...
    @property
    def timestamps_ms(self) -> memoryview: ...
    @property
    def partitions(self) -> memoryview: ...
    @property
    def ends(self) -> list[tuple[str, int, int, int]]: ...
    @property
    def _claims(self) -> list[tuple[str, int, int, int, str, int]]: ...
    @property
    def nbytes(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Handover:
    @property
    def what(self) -> str: ...
    @property
    def partitions(self) -> list[tuple[str, int]]: ...

@final
class Consumer:
    def __new__(
        cls,
        pairs: dict[str, str],
        key_deserializer: Callable[[bytes], Any] | None,
        value_deserializer: Callable[[bytes], Any] | None,
    ) -> Consumer: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def closed(self) -> bool: ...
    @property
    def group_id(self) -> str | None: ...
    @property
    def max_poll_records(self) -> int: ...
    @property
    def max_poll_interval(self) -> float: ...
    def subscribe(self, topics: set[str], pattern: str | None) -> None: ...
    def unsubscribe(self) -> None: ...
    def assign(self, partitions: Sequence[tuple[str, int]]) -> None: ...
    def assignment(self) -> list[tuple[str, int]]: ...
    def subscription(self) -> list[str]: ...
    def paused(self) -> list[tuple[str, int]]: ...
    def set_paused(self, partitions: Sequence[tuple[str, int]], paused: bool) -> None: ...
    def seek(self, to: tuple[str, int], offset: int, leader_epoch: int) -> None: ...
    def seek_to(self, partitions: Sequence[tuple[str, int]], time: int) -> None: ...
    def set_listened_to(self, listened_to: bool) -> None: ...
    def poll(self, timeout: float | None) -> Record[Any, Any] | Handover | None: ...
    def consume(
        self, max_records: int, timeout: float | None
    ) -> list[Record[Any, Any]] | Handover: ...
    def next_batch(
        self, max_records: int, max_bytes: int, timeout: float | None
    ) -> RecordBatch | Handover | None: ...
    def before_event(self) -> Operation: ...
    def before_unsubscribe(self) -> Operation: ...
    def finish_event(self) -> None: ...
    def wake_fd(self) -> int: ...
    def arm(self) -> None: ...
    def commit(
        self, offsets: Sequence[tuple[str, int, int, int, str, int]] | None, timeout: float | None
    ) -> Operation: ...
    def committed(
        self, partitions: Sequence[tuple[str, int]], timeout: float | None
    ) -> Operation: ...
    def position(self, of: tuple[str, int], timeout: float | None) -> Operation: ...
    def offsets(
        self, times: Sequence[tuple[str, int, int]], timeout: float | None
    ) -> Operation: ...
    def partitions(self, name: str, timeout: float | None) -> Operation: ...
    def lag(self, of: tuple[str, int]) -> int | None: ...
    def close(self, timeout: float, abandon: bool) -> None: ...

@final
class RangeReader:
    def __new__(cls, pairs: dict[str, str]) -> RangeReader: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def lost(self) -> int: ...
    def start(
        self,
        ranges: Sequence[tuple[str, int, int, int]],
        columns: Sequence[str],
        batch_bytes: int,
        batch_rows: int,
        may_lose: bool,
        stall_timeout: float,
    ) -> None: ...
    def next_batch(self) -> ColumnBatch | None: ...
    def stop(self) -> None: ...
    def close(self, timeout: float) -> None: ...

@final
class ColumnBatch:
    def __len__(self) -> int: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class RecordMetadata:
    def __new__(
        cls, topic: str, partition: int, offset: int, timestamp_ms: int
    ) -> RecordMetadata: ...
    topic: Final[str]
    partition: Final[int]
    offset: Final[int]
    timestamp_ms: Final[int]
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class DeliveredRange:
    def __new__(
        cls, topic: str, partition: int, base_offset: int, count: int
    ) -> DeliveredRange: ...
    topic: Final[str]
    partition: Final[int]
    base_offset: Final[int]
    count: Final[int]
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Delivery:
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    def result(self, timeout: float | None = None) -> RecordMetadata: ...
    def exception(self, timeout: float | None = None) -> KafkaliteError | None: ...
    def done(self) -> bool: ...
    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None: ...

@final
class BatchDelivery:
    def __len__(self) -> int: ...
    def result(self, timeout: float | None = None) -> list[DeliveredRange]: ...
    def errors(self, timeout: float | None = None) -> dict[int, KafkaliteError]: ...
    def done(self) -> bool: ...
    def add_done_callback(self, callback: Callable[[BatchDelivery], object]) -> None: ...

@final
class EventLoop:
    def __new__(cls, event_loop: asyncio.AbstractEventLoop) -> EventLoop: ...

@final
class Turn:
    @property
    def seconds(self) -> float: ...
    def leave(self) -> None: ...
    def subscribe(self, callback: Callable[[KafkaliteError | None], object]) -> None: ...
    def error(self) -> KafkaliteError: ...

class Producer(Generic[_K, _V]):
    def __new__(
        cls,
        pairs: dict[str, str],
        key_serializer: Callable[[_K], bytes] | None = None,
        value_serializer: Callable[[_V], bytes] | None = None,
    ) -> Self: ...
    @property
    def closed(self) -> bool: ...
    @property
    def _warnings(self) -> list[str]: ...
    def send(
        self,
        topic: str,
        value: _V | None = None,
        *,
        key: _K | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery: ...
    def produce(
        self,
        topic: str,
        value: _V | None = None,
        *,
        key: _K | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[KafkaliteError | None, RecordMetadata | None], object] | None = None,
    ) -> None: ...
    def send_batch(
        self,
        topic: str,
        values: Sequence[_V | None] | ArrowArray | ArrowStream,
        *,
        keys: Sequence[_K | None] | ArrowArray | ArrowStream | None = None,
        headers: Mapping[str, Data] | Sequence[Headers | None] | None = None,
        timestamps: int | Sequence[int | None] | ArrowArray | ArrowStream | None = None,
        partitions: int | Sequence[int | None] | ArrowArray | ArrowStream | None = None,
    ) -> BatchDelivery: ...
    def flush(self, timeout: float | None = None) -> None: ...
    def partitions_for(self, topic: str) -> list[int]: ...
    def metrics(self) -> dict[str, float]: ...
    def _begin_close(self) -> None: ...
    def _close(self, timeout: float) -> int: ...
    def _queue_up(self, topic: str) -> Turn: ...
    def _try_send(
        self,
        event_loop: EventLoop,
        future: asyncio.Future[RecordMetadata],
        topic: str,
        value: _V | None,
        key: _K | None,
        partition: int | None,
        headers: Headers | None,
        timestamp_ms: int | None,
        turn: Turn | None,
    ) -> Turn | None: ...

@final
class Broker:
    def __new__(cls, config: dict[str, str], topics: list[tuple[str, int | None]]) -> Broker: ...
    @property
    def bootstrap_servers(self) -> str | None: ...
    @property
    def admin_url(self) -> str | None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def recent_requests(self) -> list[RecentRequest]: ...

@final
class ConfigKey:
    name: Final[str]
    level: Final[str]
    kind: Final[str]
    default: Final[str | None]
    by_machine: Final[bool]
    valid: Final[str]
    unit: Final[str]
    importance: Final[str]
    changes: Final[str]
    doc: Final[str]
    synonyms: Final[list[str]]

@final
class ConfigOrigin:
    key: Final[str]
    value: Final[str | None]
    origin: Final[str]
    known: Final[bool]

@final
class LogRecord:
    offset: Final[int]
    timestamp_ms: Final[int]
    key: Final[bytes | None]
    value: Final[bytes | None]
    headers: Final[list[tuple[str, bytes | None]]]

@final
class LogBatch:
    position: Final[int]
    size: Final[int]
    base_offset: Final[int]
    last_offset: Final[int]
    record_count: Final[int]
    leader_epoch: Final[int]
    producer_id: Final[int]
    producer_epoch: Final[int]
    base_sequence: Final[int]
    codec: Final[str]
    is_transactional: Final[bool]
    is_control: Final[bool]
    base_timestamp_ms: Final[int]
    max_timestamp_ms: Final[int]
    crc: Final[int]
    flaw: Final[str | None]
    records: Final[list[LogRecord]]

@final
class RecentRequest:
    def __new__(
        cls,
        *,
        api: str,
        version: int,
        client_id: str | None,
        peer: str,
        age_ms: float,
        queue_ms: float,
        handler_ms: float | None,
        waited_ms: float | None,
        sending_ms: float | None,
        total_ms: float | None,
    ) -> RecentRequest: ...
    api: Final[str]
    version: Final[int]
    client_id: Final[str | None]
    peer: Final[str]
    age_ms: Final[float]
    queue_ms: Final[float]
    handler_ms: Final[float | None]
    waited_ms: Final[float | None]
    sending_ms: Final[float | None]
    total_ms: Final[float | None]

@final
class SegmentCheck:
    batches: Final[int]
    records: Final[int]
    bytes: Final[int]
    unused_bytes: Final[int]
    next_offset: Final[int]
    index_entries: Final[int]
    problems: Final[list[str]]

def config_keys() -> list[ConfigKey]: ...
def config_origins(words: list[str]) -> list[ConfigOrigin]: ...
def check_client_keys(client: str, pairs: dict[str, str]) -> list[str]: ...
def client_keys() -> list[tuple[str, str, str, str | None, str, str]]: ...
def error_codes() -> list[tuple[int, str, str, bool]]: ...
def forward_log(level: str) -> None: ...
def log_adopt(
    source: Path, topic: str, partition: int, data_dir: Path
) -> tuple[int, int, int, int]: ...
def log_batches(
    path: Path, position: int, most_bytes: int, with_records: bool
) -> tuple[list[LogBatch], int | None]: ...
def log_check(path: Path, newest: bool, progress: Callable[[int], object]) -> SegmentCheck: ...
def log_check_epochs(path: Path) -> str | None: ...
def log_group_record(key: bytes | None, value: bytes | None) -> dict[str, Any]: ...
def log_index(path: Path, first: int, most: int) -> list[tuple[int, int]]: ...
def log_segments(path: Path) -> list[tuple[Path, int, int]]: ...
def nearest(name: str, names: list[str]) -> str | None: ...
def next_log_lines(most: int) -> list[tuple[str, str, str]] | None: ...
def serve(args: list[str], on_ready: Callable[[str, str | None], object] | None = None) -> int: ...
def stop_log() -> None: ...
