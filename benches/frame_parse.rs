//! What does it cost to read a request, from its frame to the values a handler gets?
//!
//! The batch of a Produce stays a slice of the frame, so its size must not matter here. A Fetch of
//! many partitions is what consumers and followers send hundreds of times a second.
#![allow(missing_docs, reason = "criterion's macros")]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use kafkalite_benches::frames;
use kafkalite_protocol::Reader;
use kafkalite_protocol::header::RequestHeader;
use kafkalite_protocol::messages::Wire;
use kafkalite_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use kafkalite_protocol::messages::produce::ProduceRequest;

/// The frame after its length.
fn body(frame: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&frame[4..])
}

fn read<T: Wire>(frame: &Bytes) -> (RequestHeader, T) {
    let mut reader = Reader::new(frame.clone());
    let header = RequestHeader::decode(&mut reader).expect("the header is well formed");
    let body = T::decode(&mut reader, header.api_version).expect("the body is well formed");
    (header, body)
}

fn produce(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frame_parse_produce");
    for size in [1 << 10, 16 << 10, 1 << 20] {
        let (batch, _) = frames::record_batch(size, 1000, 1_700_000_000_000);
        let frame = body(&frames::produce(1, "topic", 0, 1, &batch));
        group.bench_with_input(BenchmarkId::from_parameter(size), &frame, |bencher, frame| {
            bencher.iter(|| read::<ProduceRequest>(black_box(frame)));
        });
    }
}

fn fetch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frame_parse_fetch");
    for partitions in [1, 100, 1000] {
        let mut writer = kafkalite_protocol::Writer::new();
        let client_id = Some("bench".to_owned());
        RequestHeader { api_key: 1, api_version: 12, correlation_id: 1, client_id }
            .encode(&mut writer);
        let partition = |partition| FetchPartition { partition, ..FetchPartition::default() };
        let topic = FetchTopic {
            topic: "topic".to_owned(),
            partitions: (0..partitions).map(partition).collect(),
            ..FetchTopic::default()
        };
        let request = FetchRequest { topics: vec![topic], ..FetchRequest::default() };
        request.encode(&mut writer, 12);
        let frame = writer.into_bytes();
        group.bench_with_input(
            BenchmarkId::from_parameter(partitions),
            &frame,
            |bencher, frame| {
                bencher.iter(|| read::<FetchRequest>(black_box(frame)));
            },
        );
    }
}

criterion_group!(benches, produce, fetch);
criterion_main!(benches);
