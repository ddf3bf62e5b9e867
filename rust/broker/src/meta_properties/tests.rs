use super::*;
use kafkalite_log::storage::RealStorage;

fn load(
    path: &Path,
    node_id: i32,
    cluster: Option<&str>,
) -> Result<MetaProperties, MetaPropertiesError> {
    load_or_create(&RealStorage, path, node_id, cluster, [7; 32])
}

#[test]
fn the_second_start_finds_what_the_first_one_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let made = load(directory.path(), 1, None).expect("a new directory");
    assert_eq!(made.cluster_id.len(), 22);
    assert_eq!(load(directory.path(), 1, None).expect("an old directory"), made);
}

#[test]
fn another_nodes_or_clusters_directory_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    load(directory.path(), 1, None).expect("a new directory");
    assert!(matches!(
        load(directory.path(), 2, None),
        Err(MetaPropertiesError::Node { found: 1, expected: 2, .. })
    ));
    assert!(matches!(
        load(directory.path(), 1, Some("AAAAAAAAAAAAAAAAAAAAAQ")),
        Err(MetaPropertiesError::Cluster { .. })
    ));
}

#[test]
fn a_damaged_file_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(FILE);
    std::fs::write(&path, "nonsense").expect("a file");
    assert!(load(directory.path(), 1, None).is_err());
    assert_eq!(std::fs::read(&path).expect("still there"), b"nonsense");
}

#[test]
fn a_file_that_kafka_wrote_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = "#\n#Fri Nov 20 11:00:00 UTC 2026\ncluster.id=ASNFZ4mrze8BI0VniavN7w\n\
                directory.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=1\nversion=1\n";
    std::fs::write(directory.path().join(FILE), text).expect("a file");
    let found = load(directory.path(), 1, None).expect("Kafka's file");
    assert_eq!(found.cluster_id, "ASNFZ4mrze8BI0VniavN7w");
}
