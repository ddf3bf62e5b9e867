//! What must hold of any bytes, as plain functions: the fuzz targets call them, and
//! `rust/protocol/tests` replays the corpora through them on a stable compiler.

#![allow(dead_code, reason = "each target uses one of the functions")]

use bytes::Bytes;
use kafkalite_protocol::compression::{self, Codec, CompressionError};
use kafkalite_protocol::header::RequestHeader;
use kafkalite_protocol::messages::{self, Versioned};
use kafkalite_protocol::record_batch::{BatchHeader, Batches, HEADER_LENGTH, walk_records};
use kafkalite_protocol::{ApiKey, Reader, Writer, for_each_api};

/// The largest output that a target lets a codec produce, in bytes.
const CAP: usize = 1 << 20;

/// A request as a connection reads it: header, then the body of the API and version it names.
pub fn frames(data: &[u8]) {
    let mut reader = Reader::new(Bytes::copy_from_slice(data));
    let Ok(header) = RequestHeader::decode(&mut reader) else { return };
    let Some(api) = header.api() else { return };
    if api.versions().contains(header.api_version) {
        let mut writer = Writer::new();
        header.encode(&mut writer);
        let mut again = Reader::new(writer.into_bytes());
        assert_eq!(RequestHeader::decode(&mut again), Ok(header.clone()));
        message(api, header.api_version, true, &reader.into_rest());
    }
}

/// `data` is the index of an API, a version, 0 for a request or 1 for a response, and the message.
pub fn messages(data: &[u8]) {
    let Some((&[index, version, kind], body)) = data.split_first_chunk() else { return };
    let api = ApiKey::ALL[usize::from(index) % ApiKey::ALL.len()];
    let versions = api.versions();
    let count = i16::from(version) % (versions.max - versions.min + 1);
    message(api, versions.min + count, kind & 1 == 0, &Bytes::copy_from_slice(body));
}

/// A message of `api`, whatever its bytes.
pub fn message(api: ApiKey, version: i16, is_request: bool, body: &Bytes) {
    macro_rules! run {
        ($key:ident, $module:ident, $request:ident, $response:ident) => {
            if api == ApiKey::$key {
                return if is_request {
                    settles::<messages::$module::$request>(version, body)
                } else {
                    settles::<messages::$module::$response>(version, body)
                };
            }
        };
    }
    for_each_api!(run);
}

/// What was decoded is encoded to bytes that decode and encode to themselves. The first bytes may
/// differ: unknown tags are dropped, and a varint has many spellings.
fn settles<T: Versioned>(version: i16, body: &Bytes) {
    let Ok(value) = T::decode(&mut Reader::new(body.clone()), version) else { return };
    let first = encode(&value, version);
    let mut reader = Reader::new(first.clone());
    let value = T::decode(&mut reader, version).expect("what was encoded can be decoded");
    assert_eq!(reader.remaining(), 0, "what was encoded is decoded to its end");
    assert_eq!(encode(&value, version), first);
}

fn encode<T: Versioned>(value: &T, version: i16) -> Bytes {
    let mut writer = Writer::new();
    value.encode(&mut writer, version);
    writer.into_bytes()
}

/// Record batches one after the other, as in a produce request.
pub fn record_batches(data: &[u8]) {
    for batch in Batches::new(data).map_while(Result::ok) {
        let header = *batch.header();
        assert_eq!(header.to_bytes()[..], batch.bytes()[..HEADER_LENGTH]);
        let _ = batch.verify_crc();
        let mut walked = 0;
        let walk = walk_records(&header, batch.payload(), CAP, |_, _| walked += 1);
        if let Ok(records) = batch.records(CAP) {
            let whole = records.iter().take_while(Result::is_ok).count();
            let headers = records.iter().flatten().flat_map(|record| record.headers()).count();
            assert!(headers <= records.payload().len());
            if walk.is_ok() {
                assert_eq!((whole, walked), (header.record_count.max(0) as usize, whole));
            }
        } else {
            assert!(walk.is_err(), "what walks also decompresses");
        }
    }
    let _ = BatchHeader::parse(data);
}

/// `data` is a codec's number and bytes: it need not inflate, but whatever is compressed comes
/// back.
pub fn compression(data: &[u8]) {
    let Some((&id, bytes)) = data.split_first() else { return };
    let codec = Codec::ALL[usize::from(id) % Codec::ALL.len()];
    if let Ok(out) = compression::decompress(codec, bytes, CAP) {
        assert!(codec == Codec::None || out.len() <= CAP);
    }
    let packed = compression::compress(codec, bytes).expect("anything can be compressed");
    match compression::decompress(codec, &packed, CAP) {
        Ok(out) => assert_eq!(out, bytes),
        Err(CompressionError::TooLarge { .. }) => assert!(bytes.len() > CAP),
        Err(error) => panic!("{codec:?} does not read what it wrote: {error}"),
    }
}
