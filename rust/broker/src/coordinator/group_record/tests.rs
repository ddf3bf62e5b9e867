use super::*;

fn value() -> OffsetCommitValue {
    OffsetCommitValue {
        offset: 7,
        leader_epoch: 2,
        metadata: "m".to_owned(),
        commit_timestamp: 1_000,
        ..OffsetCommitValue::default()
    }
}

fn offset(value: Option<OffsetCommitValue>) -> GroupRecord {
    let key = OffsetKey { group: "g".into(), topic: "t".into(), partition: 3 };
    GroupRecord::Offset(key, value)
}

#[test]
fn an_offset_is_stored_in_kafkas_bytes() {
    let record = stored(&offset(Some(value())));
    assert_eq!(record.key.as_ref(), b"\0\x01\0\x01g\0\x01t\0\0\0\x03");
    let expected: &[u8] = b"\0\x04\0\0\0\0\0\0\0\x07\0\0\0\x02\x02m\0\0\0\0\0\0\x03\xe8\0";
    assert_eq!(record.value.as_deref(), Some(expected));
}

#[test]
fn an_offset_with_an_end_of_its_own_is_stored_in_version_1() {
    let expiring = OffsetCommitValue { expire_timestamp: 5, leader_epoch: -1, ..value() };
    let record = stored(&offset(Some(expiring.clone())));
    assert_eq!(record.value.as_deref().map(|bytes| bytes[1]), Some(1));
    let parsed = parse(&record.key, record.value.as_deref());
    assert_eq!(parsed, Ok(Some(offset(Some(expiring)))));
}

#[test]
fn what_is_stored_is_read_back() {
    let group = GroupMetadataValue {
        protocol_type: "consumer".into(),
        generation: 4,
        ..GroupMetadataValue::default()
    };
    let records = [
        GroupRecord::Group("g".into(), Some(group)),
        GroupRecord::Group("h".into(), None),
        offset(None),
    ];
    for record in records {
        let StoredRecord { key, value } = stored(&record);
        assert_eq!(parse(&key, value.as_deref()), Ok(Some(record)));
    }
}

#[test]
fn other_kinds_and_later_versions_are_left_alone() {
    let table: [(&[u8], Option<&[u8]>); 3] =
        [(b"\0\x03\0\x01g", Some(b"\0\0")), (b"\0\x63", None), (b"\0\x02\0\x01g", Some(b"\0\x09"))];
    for (key, value) in table {
        assert_eq!(parse(key, value), Ok(None), "{key:?}");
    }
}

#[test]
fn a_record_that_ends_early_is_an_error_and_no_panic() {
    for key in [&b""[..], b"\0", b"\0\x01\0\x05g", b"\0\x02"] {
        assert!(parse(key, None).is_err(), "{key:?}");
    }
}
