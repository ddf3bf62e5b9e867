#![no_main]

#[path = "../src/log.rs"]
mod log;

libfuzzer_sys::fuzz_target!(|data: &[u8]| log::recovery(data));
