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

/// Renames of the directory above, of the file itself, and a file that gets the name of another.
#[test]
fn a_power_cut_knows_files_by_what_they_are_and_not_by_their_names() {
    use crate::faulty_storage::FaultyStorage;
    let temp = tempfile::tempdir().unwrap();
    let [future, taken] = ["t-0-future", "t-0"].map(|name| temp.path().join(name));
    let storage = FaultyStorage::default();
    storage.create_dir(&future).unwrap();
    storage.sync_dir(temp.path()).unwrap();
    let write = |name: &str| {
        let file = storage.open(&future.join(name), OpenMode::Create).unwrap();
        file.write_all_at(&mut [IoSlice::new(b"bytes")], 0).unwrap();
        file
    };
    let [synced, unsynced, cut] = ["synced", "unsynced", "cut"].map(write);
    cut.sync_data().unwrap();
    cut.set_len(2).unwrap();
    storage.sync_dir(&future).unwrap();
    storage.rename(&future, &taken).unwrap();
    storage.sync_dir(temp.path()).unwrap();
    synced.sync_data().unwrap();
    // Another one of the name, which is synced.
    storage.rename(&taken.join("unsynced"), &taken.join("renamed")).unwrap();
    let other = storage.open(&taken.join("unsynced"), OpenMode::Create).unwrap();
    other.write_all_at(&mut [IoSlice::new(b"others")], 0).unwrap();
    other.sync_data().unwrap();
    storage.sync_dir(&taken).unwrap();
    storage.cut_power_and_undo(|| true).unwrap();
    let read = |name: &str| read_file(&RealStorage, &taken.join(name)).unwrap();
    assert_eq!(read("synced"), b"bytes");
    assert_eq!(read("cut"), b"bytes");
    assert_eq!(read("renamed"), b"");
    assert_eq!(read("unsynced"), b"others");
    drop(unsynced);
}

#[test]
fn a_power_cut_undoes_the_rename_of_a_directory_that_is_not_synced() {
    use crate::faulty_storage::{FaultyStorage, Tail};
    for synced in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let [before, after] = ["before", "after"].map(|name| temp.path().join(name));
        let storage = FaultyStorage::default();
        storage.create_dir(&before).unwrap();
        storage.sync_dir(temp.path()).unwrap();
        replace_file(&storage, &before.join("file"), b"bytes", Durability::Disk).unwrap();
        storage.rename(&before, &after).unwrap();
        // Synced under the new name, and kept under the old one.
        replace_file(&storage, &after.join("other"), b"bytes", Durability::Disk).unwrap();
        if synced {
            storage.sync_dir(temp.path()).unwrap();
        }
        storage.cut_power_leaving(Tail::Gone, || true).unwrap();
        let left = if synced { &after } else { &before };
        assert_eq!(read_file(&RealStorage, &left.join("file")).unwrap(), b"bytes");
        assert_eq!(read_file(&RealStorage, &left.join("other")).unwrap(), b"bytes");
        assert_eq!(before.exists(), !synced);
    }
}

#[test]
fn a_power_cut_tears_what_is_not_synced() {
    use crate::faulty_storage::{FaultyStorage, Tail};
    let torn: [(Tail, &[u8]); 3] =
        [(Tail::Gone, b"safe"), (Tail::Half, b"safety"), (Tail::Zeroes, b"safe\0\0\0\0")];
    for (tail, left) in torn {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        let storage = FaultyStorage::default();
        let file = storage.open(&path, OpenMode::Create).unwrap();
        file.write_all_at(&mut [IoSlice::new(b"safe")], 0).unwrap();
        file.sync_data().unwrap();
        storage.sync_dir(temp.path()).unwrap();
        file.write_all_at(&mut [IoSlice::new(b"ty!!")], 4).unwrap();
        storage.cut_power_leaving(tail, || false).unwrap();
        assert_eq!(read_file(&RealStorage, &path).unwrap(), left, "{tail:?}");
    }
}
