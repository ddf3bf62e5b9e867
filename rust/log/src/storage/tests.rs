#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn what_is_never_synced_still_reads_back() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("file");
    replace_file(&UnsyncedStorage, &path, b"bytes", Durability::Disk).unwrap();
    assert_eq!(read_file(&UnsyncedStorage, &path).unwrap(), b"bytes");
    let names: Vec<_> = UnsyncedStorage.list(temp.path()).unwrap();
    assert_eq!(names.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["file"]);
}

#[test]
fn a_power_cut_takes_nothing_from_a_directory_that_got_the_name_of_one_that_was_renamed() {
    use crate::faulty_storage::FaultyStorage;
    let temp = tempfile::tempdir().unwrap();
    let [first, later] = ["t-0", "t-0.deleted"].map(|name| temp.path().join(name));
    let storage = FaultyStorage::default();
    let file = |durability| {
        storage.create_dir(&first).unwrap();
        replace_file(&storage, &first.join("file"), b"bytes", durability).unwrap();
    };
    file(Durability::PageCache);
    storage.rename(&first, &later).unwrap();
    file(Durability::Disk);
    storage.sync_dir(temp.path()).unwrap();
    storage.cut_power().unwrap();
    assert_eq!(read_file(&RealStorage, &first.join("file")).unwrap(), b"bytes");
    assert_eq!(read_file(&RealStorage, &later.join("file")).unwrap(), b"");
}
