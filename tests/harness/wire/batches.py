"""Record batches (magic 2) as bytes, good ones and ones that are wrong in one chosen place.

```text
base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 | last offset delta 4
base timestamp 8 | max timestamp 8 | producer id 8 | producer epoch 2 | base sequence 4 | count 4
```
Source: Kafka's ``DefaultRecordBatch``; the CRC-32C covers everything from the attributes on.
"""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), by table."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def zigzag(number: int) -> bytes:
    """A signed varint as records use it."""
    number = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _blob(data: bytes | None) -> bytes:
    return zigzag(-1) if data is None else zigzag(len(data)) + data


@dataclass(frozen=True)
class Record:
    """One record of a batch."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_delta: int = 0
    #: None: its place in the batch.
    offset_delta: int | None = None

    def encode(self, place: int) -> bytes:
        """The record with its length in front."""
        delta = place if self.offset_delta is None else self.offset_delta
        body = b"\x00" + zigzag(self.timestamp_delta) + zigzag(delta)
        body += _blob(self.key) + _blob(self.value) + zigzag(len(self.headers))
        for name, value in self.headers:
            body += _blob(name.encode()) + _blob(value)
        return zigzag(len(body)) + body


@dataclass(frozen=True)
class Batch:
    """A record batch; fields left at None are computed as a right producer would."""

    records: tuple[Record, ...]
    base_timestamp_ms: int = 1_700_000_000_000
    attributes: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    base_offset: int = 0
    magic: int = 2
    leader_epoch: int = -1
    max_timestamp_ms: int | None = None
    last_offset_delta: int | None = None
    count: int | None = None
    length: int | None = None
    crc: int | None = None
    #: Bytes put after the records, inside the batch and its CRC.
    trailer: bytes = b""
    #: The records' bytes as they stand, compressed or broken, instead of ``records``.
    payload: bytes | None = None

    def _records(self) -> bytes:
        """The records, compressed with gzip if the attributes say so; else by ``payload``."""
        if self.payload is not None:
            return self.payload
        raw = b"".join(record.encode(place) for place, record in enumerate(self.records))
        return gzip.compress(raw, mtime=0) if self.attributes & 7 == GZIP else raw

    def encode(self) -> bytes:
        """The whole batch."""
        deltas = [record.timestamp_delta for record in self.records] or [0]
        latest = self.base_timestamp_ms + max(deltas)
        count = len(self.records) if self.count is None else self.count
        last = len(self.records) - 1 if self.last_offset_delta is None else self.last_offset_delta
        body = struct.pack(
            ">hiqqqhii",
            self.attributes,
            last,
            self.base_timestamp_ms,
            latest if self.max_timestamp_ms is None else self.max_timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            count,
        )
        body += self._records() + self.trailer
        crc = crc32c(body) if self.crc is None else self.crc
        length = len(body) + 9 if self.length is None else self.length
        head = struct.pack(">qiibI", self.base_offset, length, self.leader_epoch, self.magic, crc)
        return head + body


def simple(*values: bytes, **fields: int) -> bytes:
    """A batch of these values without keys."""
    return Batch(tuple(Record(value) for value in values), **fields).encode()  # type: ignore[arg-type]


def count_records(data: bytes | None) -> int:
    """How many records the whole batches in a fetch answer say they hold."""
    return sum(head[1] for head in batch_heads(data))


def batch_heads(data: bytes | None) -> list[tuple[int, int, int, int]]:
    """(base offset, record count, max timestamp, attributes) of each whole batch."""
    heads, at, data = [], 0, data or b""
    while at + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        if at + 12 + length > len(data):
            break
        (attributes,) = struct.unpack_from(">h", data, at + 21)
        (latest,) = struct.unpack_from(">q", data, at + 35)
        (count,) = struct.unpack_from(">i", data, at + 57)
        heads.append((base, count, latest, attributes))
        at += 12 + length
    return heads


def comparable(data: bytes) -> str:
    """Batches as hex, without what is a broker's own: its producer ids, its compressor's bytes."""
    told, at = "", 0
    while at + 61 <= len(data):
        (length,) = struct.unpack_from(">i", data, at + 8)
        (attributes,) = struct.unpack_from(">h", data, at + 21)
        (producer_id,) = struct.unpack_from(">q", data, at + 43)
        end = at + 12 + length
        if end > len(data):
            break
        if attributes & 7 == GZIP or producer_id >= 0:
            # Without length and checksum, which come of the rest.
            head = data[at : at + 8] + data[at + 12 : at + 17] + data[at + 21 : at + 43]
            head += data[at + 51 : at + 61] if producer_id >= 0 else data[at + 43 : at + 61]
            body = data[at + 61 : end]
            told += (head + (gzip.decompress(body) if attributes & 7 == GZIP else body)).hex()
        else:
            told += data[at:end].hex()
        at = end
    return told + data[at:].hex()
