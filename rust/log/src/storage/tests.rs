#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn what_is_never_synced_reads_back_all_the_same() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("file");
    replace_file(&UnsyncedStorage, &path, b"bytes", Durability::Disk).unwrap();
    assert_eq!(read_file(&UnsyncedStorage, &path).unwrap(), b"bytes");
    let names: Vec<_> = UnsyncedStorage.list(temp.path()).unwrap();
    assert_eq!(names.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["file"]);
}
