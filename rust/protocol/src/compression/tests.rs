#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn noise(length: usize) -> Vec<u8> {
    // Half noise, half pattern, so that every codec finds something to do.
    (0..length as u32)
        .map(|i| if i % 3 == 0 { 7 } else { (i.wrapping_mul(2_654_435_761) >> 24) as u8 })
        .collect()
}

#[test]
fn what_a_codec_compresses_it_gives_back() {
    for codec in Codec::ALL {
        for length in [0, 1, 100, 32 * 1024, 32 * 1024 + 1, 300_000] {
            let payload = noise(length);
            let compressed = compress(codec, &payload).unwrap();
            let back = decompress(codec, &compressed, 1 << 20).unwrap();
            assert_eq!(back, payload, "{codec:?} of {length} bytes");
        }
    }
}

#[test]
fn output_beyond_the_cap_is_an_error() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let compressed = compress(codec, &vec![0; 100_000]).unwrap();
        let outcome = decompress(codec, &compressed, 99_999);
        assert_eq!(outcome, Err(CompressionError::TooLarge { cap: 99_999 }), "{codec:?}");
    }
}

#[test]
fn a_payload_cut_short_is_an_error() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let compressed = compress(codec, &noise(100_000)).unwrap();
        let cut = &compressed[..compressed.len() - 9];
        assert!(decompress(codec, cut, 1 << 20).is_err(), "{codec:?}");
    }
}

#[test]
fn raw_snappy_without_a_head_is_read_as_one_block() {
    let payload = noise(100_000);
    let raw = snap::raw::Encoder::new().compress_vec(&payload).unwrap();
    assert_eq!(decompress(Codec::Snappy, &raw, 1 << 20).unwrap(), payload);
}

#[test]
fn a_snappy_block_that_claims_gigabytes_allocates_none() {
    // Length 0xffffffff as a varint, and nothing behind it.
    let claim = [0xff, 0xff, 0xff, 0xff, 0x0f];
    assert!(decompress(Codec::Snappy, &claim, usize::MAX).is_err());
}

#[test]
fn linked_lz4_blocks_are_refused() {
    let info = lz4_flex::frame::FrameInfo::new().block_mode(lz4_flex::frame::BlockMode::Linked);
    let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(&noise(1_000)).unwrap();
    let linked = encoder.finish().unwrap();
    let outcome = decompress(Codec::Lz4, &linked, 1 << 20);
    assert_eq!(outcome, Err(damaged("LZ4 blocks are linked")));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(id in 0_u8..5, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let codec = Codec::from_id(id).expect("ids 0 to 4 exist");
        let _ = decompress(codec, &bytes, 1 << 20);
    }
}
