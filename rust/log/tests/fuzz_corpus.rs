//! The corpora of `fuzz/` that concern the log, replayed on a stable compiler, and damage done to
//! each of them.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;

#[path = "../../../fuzz/src/log.rs"]
mod log;

/// Runs `body` on every file of the corpus of `target`, whole and with a byte changed at each of
/// `wounds` places.
fn replay(target: &str, wounds: usize, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for wound in 0..=wounds.min(bytes.len()) {
            let mut bytes = bytes.clone();
            if let Some(before) = wound.checked_sub(1) {
                let at = before * bytes.len() / wounds.min(bytes.len());
                bytes[at] ^= 0xff >> (before % 8);
            }
            let outcome = std::panic::catch_unwind(|| body(&bytes));
            assert!(outcome.is_ok(), "{}, wound {wound}", path.display());
        }
        count += 1;
    }
    assert!(count > 0, "{target} has no corpus");
}

#[test]
fn a_log_of_any_bytes_opens_and_takes_records_again() {
    replay("recovery", 60, log::recovery);
}

#[test]
fn a_produced_batch_of_any_bytes_is_refused_or_stored() {
    replay("validation", 400, log::validation);
}
