#![allow(clippy::unwrap_used)]

use super::*;
use crate::faulty_storage::FaultyStorage;
use crate::storage::RealStorage;

fn written(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn offsets_read_back_in_kafkas_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(RECOVERY_POINT_FILE);
    let offsets = PartitionOffsets::from([
        (("a-b".to_string(), 0), Offset(7)),
        (("a-b".to_string(), 10), Offset(0)),
    ]);
    write_offsets(&RealStorage, &path, &offsets).unwrap();
    assert_eq!(written(&path), "0\n2\na-b 0 7\na-b 10 0\n");
    assert_eq!(read_offsets(&RealStorage, &path).unwrap(), offsets);
}

#[test]
fn a_missing_checkpoint_is_empty() {
    let path = Path::new("/nonexistent/recovery-point-offset-checkpoint");
    assert!(read_offsets(&RealStorage, path).unwrap().is_empty());
}

#[test]
fn a_damaged_checkpoint_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(LOG_START_FILE);
    for text in
        ["", "1\n0\n", "0\n2\na 0 7\n", "0\n1\na 0\n", "0\n1\na 0 7 8\n", "0\n1\na x 7\n", "0\nx\n"]
    {
        std::fs::write(&path, text).unwrap();
        let outcome = read_offsets(&RealStorage, &path);
        assert!(matches!(outcome, Err(LogError::BadFile { .. })), "{text:?}");
    }
}

#[test]
fn epochs_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(LEADER_EPOCH_FILE);
    let epochs = [EpochStart { epoch: LeaderEpoch(3), start_offset: Offset(40) }];
    write_epochs(&RealStorage, &path, &epochs, Durability::PageCache).unwrap();
    assert_eq!(written(&path), "0\n1\n3 40\n");
    assert_eq!(read_epochs(&RealStorage, &path).unwrap(), epochs);
}

#[test]
fn topic_ids_of_checkpoints_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(TOPIC_IDS_FILE);
    assert_eq!(read_topic_ids(&RealStorage, &path).unwrap(), None);
    let topics = [((LOG_START_FILE.to_string(), "t".to_string()), Uuid([7; 16]))].into();
    write_topic_ids(&RealStorage, &path, &topics).unwrap();
    let text = format!("0\n1\n{LOG_START_FILE} t {}\n", Uuid([7; 16]));
    assert_eq!(written(&path), text);
    assert_eq!(read_topic_ids(&RealStorage, &path).unwrap(), Some(topics));
    for bad in ["", "1\n0\n", "0\n2\na t AAAA\n", "0\n1\na t\n", "0\n1\na t AAAA\n"] {
        std::fs::write(&path, bad).unwrap();
        let outcome = read_topic_ids(&RealStorage, &path);
        assert!(matches!(outcome, Err(LogError::BadFile { .. })), "{bad:?}: {outcome:?}");
    }
}

#[test]
fn the_topic_id_reads_back() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(read_topic_id(&RealStorage, dir.path()).unwrap(), None);
    let id = Uuid([7; 16]);
    write_topic_id(&RealStorage, dir.path(), id).unwrap();
    assert_eq!(read_topic_id(&RealStorage, dir.path()).unwrap(), Some(id));
}

/// `partition.metadata` was never synced: a power cut left it empty, and the log did not open.
#[test]
fn the_topic_id_survives_a_power_cut() {
    let dir = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::default();
    let id = Uuid([7; 16]);
    write_topic_id(&storage, dir.path(), id).unwrap();
    storage.cut_power().unwrap();
    assert_eq!(read_topic_id(&RealStorage, dir.path()).unwrap(), Some(id));
}

#[test]
fn a_clean_stop_is_believed_until_it_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    write_clean_shutdown(&RealStorage, dir.path(), 5).unwrap();
    assert_eq!(written(&dir.path().join(CLEAN_SHUTDOWN_FILE)), "{\"version\":0,\"brokerEpoch\":5}");
    for _ in 0..2 {
        assert_eq!(read_clean_shutdown(&RealStorage, dir.path()).unwrap(), Some(5));
    }
    for _ in 0..2 {
        forget_clean_shutdown(&RealStorage, dir.path()).unwrap();
        assert_eq!(read_clean_shutdown(&RealStorage, dir.path()).unwrap(), None);
    }
    for other in ["", "{\"version\":0}", "{\"version\":0,\"brokerEpoch\":x}", "\u{ff}"] {
        std::fs::write(dir.path().join(CLEAN_SHUTDOWN_FILE), other).unwrap();
        assert_eq!(read_clean_shutdown(&RealStorage, dir.path()).unwrap(), Some(-1), "{other}");
    }
}
