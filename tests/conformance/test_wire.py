"""The raw codec is proven before it judges: what it writes it reads back, in every version."""

from __future__ import annotations

import dataclasses
import gzip

import pytest

from tests.conformance import hostile_frames
from tests.harness.wire import batches, codec, schemas

MESSAGES = sorted(
    name for name, one in schemas.messages().items() if one.valid.low <= one.valid.high
)


@pytest.mark.parametrize("name", MESSAGES)
def test_every_version_of_a_message_reads_back_as_it_was_written(name: str) -> None:
    message = schemas.messages()[name]
    for version in range(message.valid.low, message.valid.high + 1):
        value = hostile_frames.body(message.fields, version)
        assert codec.decode(message, version, codec.encode(message, version, value)) == value
        empty = codec.encode(message, version, {})
        assert codec.encode(message, version, codec.decode(message, version, empty)) == empty


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_cut_short_is_unreadable(name: str) -> None:
    message = schemas.messages()[name]
    version = message.valid.high
    whole = codec.encode(message, version, hostile_frames.body(message.fields, version))
    for end in range(len(whole)):
        with pytest.raises((codec.Unreadable, UnicodeDecodeError)):
            codec.decode(message, version, whole[:end])


def test_the_checksum_is_castagnoli() -> None:
    """The check value of CRC-32C, and 32 zero bytes as RFC 3720 (B.4) has them."""
    assert batches.crc32c(b"123456789") == 0xE3069283
    assert batches.crc32c(bytes(32)) == 0x8A9136AA


def test_hostile_frames_are_the_same_for_the_same_seed() -> None:
    first = list(hostile_frames.frames(7, 500))
    assert first == list(hostile_frames.frames(7, 500))
    assert first != list(hostile_frames.frames(8, 500))


def test_batches_compare_by_their_records_and_not_by_compression_or_numbers() -> None:
    one = batches.Batch((batches.Record(b"value" * 10),), attributes=batches.GZIP)
    body = one.encode()[61:]
    again = dataclasses.replace(one, payload=gzip.compress(gzip.decompress(body), 1))
    other = batches.Batch((batches.Record(b"other" * 10),), attributes=batches.GZIP)
    told = [batches.comparable(batch.encode()) for batch in (one, again, other)]
    assert one.encode() != again.encode()
    assert told[0] == told[1] != told[2]
    ids = [batches.comparable(batches.simple(b"v", producer_id=number)) for number in (1, 2, -1)]
    assert ids[0] == ids[1] != ids[2]
    plain = batches.simple(b"v")
    assert batches.comparable(one.encode() + plain + b"cut") == told[0] + (plain + b"cut").hex()
