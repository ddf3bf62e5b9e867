#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;

use super::*;

fn written(length: usize) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![7; length]).unwrap();
    file
}

#[test]
fn what_was_just_written_is_resident() {
    let file = written(300_000);
    for (position, length) in [(0, 0), (0, 1), (4_095, 2), (0, 300_000), (299_999, 1)] {
        assert!(is_range_resident(file.as_fd(), position, length), "{length} bytes at {position}");
        assert!(length == 0 || probe(file.as_fd(), position, length, PROBE_BYTES));
    }
}

#[test]
fn an_unread_hole_is_not_resident() {
    let file = written(1);
    file.set_len(10 << 20).unwrap();
    if WITHOUT_CACHESTAT.load(Ordering::Relaxed) || is_range_resident(file.as_fd(), 5 << 20, 1) {
        // No cachestat, or a file system that holds all it has in memory (tmpfs).
        return;
    }
    assert!(!is_range_resident(file.as_fd(), 0, 10 << 20));
}
