#![no_main]

#[path = "../src/protocol.rs"]
mod protocol;

libfuzzer_sys::fuzz_target!(|data: &[u8]| protocol::frames(data));
