//! The corpora of `fuzz/` and mutations of golden messages, on a stable compiler: nothing panics,
//! and nothing takes more memory than the reader's account allows.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;

use bytes::Bytes;
use kafkalite_protocol::ApiKey;
use kafkalite_protocol::primitives::MAX_MEMORY_BYTES;

#[path = "../../testing/counting.rs"]
mod counting;
#[path = "../../../fuzz/src/protocol.rs"]
mod protocol;

use counting::peak_of;

fn replay(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let outcome = std::panic::catch_unwind(|| body(&bytes));
        assert!(outcome.is_ok(), "{}", path.display());
        count += 1;
    }
    assert!(count > 0, "{target} has no corpus");
}

/// SplitMix64: the same mutations every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((z ^ (z >> 27)) >> 16) as usize % bound
    }
}

/// One to three wounds: a flipped byte, a large number over it, a cut, or a run of bytes twice.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => bytes[at] = random.below(256) as u8,
            1 => {
                let large = [&[0xff; 4][..], &[0x7f, 0xff, 0xff, 0xff], &[0xff, 0xff, 0x03]];
                let large = large[random.below(large.len())];
                let end = bytes.len().min(at + large.len());
                bytes.splice(at..end, large.iter().copied());
            }
            2 => bytes.truncate(at),
            _ => {
                let end = bytes.len().min(at + 1 + random.below(20));
                let run = bytes[at..end].to_vec();
                bytes.splice(at..at, run);
            }
        }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

/// (API, version, whether it is a request, bytes) of every golden message.
fn golden() -> Vec<(ApiKey, i16, bool, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/messages.txt");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|words| words[3] != "record")
        .map(|words| {
            let api = ApiKey::from_i16(words[1].parse().unwrap()).unwrap();
            (api, words[2].parse().unwrap(), words[3] == "request", unhex(words[4]))
        })
        .collect()
}

/// One test, so that no other thread allocates while it measures.
#[test]
fn no_bytes_make_the_codec_panic_or_take_more_memory_than_its_account() {
    replay("frames", protocol::frames);
    replay("messages", protocol::messages);
    replay("record_batches", protocol::record_batches);
    replay("compression", protocol::compression);

    let mut random = Random(1);
    for (api, version, is_request, bytes) in golden() {
        for _ in 0..30 {
            let mut mutant = bytes.clone();
            mutate(&mut mutant, &mut random);
            let body = Bytes::from(mutant);
            let label = format!("{} v{version}: {body:02x?}", api.name());
            let outcome = std::panic::catch_unwind(|| {
                peak_of(|| protocol::message(api, version, is_request, &body)).0
            });
            assert!(outcome.is_ok(), "{label}");
            // A small frame cannot buy much either: a struct of a few hundred bytes for each of its
            // own.
            assert!(outcome.unwrap() < 64 * 1024 + 600 * body.len(), "{label}");
        }
    }
    for (api, frame) in large_frames() {
        for version in api.versions().min..=api.versions().max {
            let body = Bytes::from(frame.clone());
            let (peak, ()) = peak_of(|| protocol::message(api, version, true, &body));
            // The account, and the bytes that a decoded frame is encoded to.
            let bound = 2 * MAX_MEMORY_BYTES + 4 * frame.len() + (1 << 20);
            assert!(peak <= bound, "{} v{version}: {peak} bytes", api.name());
        }
    }
}

/// Frames of 16 MiB that are all counts: every byte is a length of one or an element of zeros.
fn large_frames() -> Vec<(ApiKey, Vec<u8>)> {
    let mut frames = Vec::new();
    for api in [ApiKey::Metadata, ApiKey::Fetch, ApiKey::OffsetFetch] {
        for fill in [0x00, 0x01, 0x02, 0xff] {
            let mut frame = vec![fill; 16 << 20];
            // Nearly as many elements as there are bytes, where the version has its first length.
            for lie in [[0x00, 0xff, 0xff, 0xf0], [0xf0, 0xff, 0xff, 0x07]] {
                frame[..4].copy_from_slice(&lie);
                frames.push((api, frame.clone()));
            }
        }
    }
    frames
}
