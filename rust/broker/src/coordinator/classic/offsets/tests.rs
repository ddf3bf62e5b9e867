use std::sync::Arc;

use bytes::Bytes;
use kafkalite_protocol::messages::group_records::{GroupMetadataValue, MemberMetadata};

use super::*;
use crate::coordinator::classic::group_state::GroupLimits;
use crate::coordinator::runtime::Now;

const NOW: Now = Now { ms: 0, wall_ms: 1_000_000 };
const RETENTION_MS: i64 = 1_000;

/// A subscription to `orders`, as a consumer writes it.
const READS_ORDERS: &[u8] = b"\0\x01\0\0\0\x01\0\x06orders\0\0\0\0\0\0\0\0";

fn group(protocol_type: &str, subscription: Option<&'static [u8]>) -> GroupState {
    let member = |bytes| MemberMetadata {
        member_id: "m".into(),
        session_timeout: 1_000,
        subscription: Bytes::from_static(bytes),
        ..MemberMetadata::default()
    };
    let value = GroupMetadataValue {
        protocol_type: protocol_type.into(),
        protocol: Some("range".into()),
        leader: Some("m".into()),
        current_state_timestamp: 999_500,
        members: subscription.map(member).into_iter().collect(),
        ..GroupMetadataValue::default()
    };
    let limits = GroupLimits { initial_rebalance_delay_ms: 0, max_size: 10 };
    GroupState::load(Arc::from("g"), limits, NOW, &value)
}

fn offsets() -> GroupOffsets {
    let mut offsets = GroupOffsets::default();
    for (topic, commit_timestamp) in [("orders", 0), ("old", 0), ("new", 999_900)] {
        let value = OffsetCommitValue { commit_timestamp, ..OffsetCommitValue::default() };
        offsets.store(topic, 0, Offset(0), Some(value));
    }
    offsets
}

#[test]
fn what_expires_depends_on_the_group() {
    let table: [(GroupState, i64, &[&str]); 6] = [
        (group("", None), 1_000_000, &["old", "orders"]),
        (group("consumer", None), 1_000_000, &[]),
        (group("consumer", None), 1_000_500, &["new", "old", "orders"]),
        (group("consumer", Some(READS_ORDERS)), 1_000_000, &["old"]),
        (group("consumer", Some(b"?")), 1_000_000, &[]),
        (group("connect", Some(b"")), 9_000_000, &[]),
    ];
    for (group, now_ms, topics) in table {
        let (expired, _) = offsets().expired(&group, now_ms, RETENTION_MS);
        let names: Vec<&str> = expired.iter().map(|(topic, _)| topic.as_str()).collect();
        assert_eq!(names, topics, "{group:?} at {now_ms}");
    }
}

#[test]
fn an_offset_with_an_end_of_its_own_expires_then() {
    let mut offsets = GroupOffsets::default();
    let value = OffsetCommitValue { expire_timestamp: 1_000_500, ..OffsetCommitValue::default() };
    offsets.store("t", 0, Offset(0), Some(value));
    assert_eq!(offsets.expired(&group("", None), 1_000_499, 1), (Vec::new(), false));
    let expired = offsets.expired(&group("", None), 1_000_500, 1);
    assert_eq!(expired, (vec![("t".to_owned(), 0)], true));
}

fn value(offset: i64) -> OffsetCommitValue {
    OffsetCommitValue { offset, ..OffsetCommitValue::default() }
}

#[test]
fn a_commit_on_its_way_keeps_the_partition() {
    let mut offsets = offsets();
    offsets.add_uncommitted("old", 0, Offset(1), Some(value(9)));
    let (expired, all) = offsets.expired(&group("", None), 1_000_000, RETENTION_MS);
    assert_eq!((expired, all), (vec![("orders".to_owned(), 0)], false));
    assert_eq!(offsets.get("old", 0).map(|value| value.offset), Some(0));
    offsets.commit("old", 0, Offset(1));
    assert_eq!(offsets.get("old", 0).map(|value| value.offset), Some(9));
}

#[test]
fn reads_get_what_is_committed_and_decisions_the_newest() {
    let mut offsets = GroupOffsets::default();
    let read = |offsets: &GroupOffsets| offsets.get("t", 0).map(|value| value.offset);
    let newest = |offsets: &GroupOffsets| offsets.of(|_, _, value| value.offset == 2).len();
    offsets.add_uncommitted("t", 0, Offset(10), Some(value(1)));
    offsets.add_uncommitted("t", 0, Offset(11), Some(value(2)));
    assert_eq!((read(&offsets), newest(&offsets)), (None, 1));
    offsets.commit("t", 0, Offset(10));
    assert_eq!((read(&offsets), newest(&offsets)), (Some(1), 1));
    offsets.add_uncommitted("t", 0, Offset(12), None);
    assert_eq!((read(&offsets), newest(&offsets)), (Some(1), 0));
    offsets.commit("t", 0, Offset(11));
    assert_eq!(read(&offsets), Some(2));
    offsets.commit("t", 0, Offset(12));
    assert_eq!(read(&offsets), None);
    assert!(offsets.is_empty());
}

/// A record of a transaction is taken in at the marker, and counts by its own place.
#[test]
fn an_older_record_does_not_replace_a_newer_one() {
    let mut offsets = GroupOffsets::default();
    offsets.store("t", 0, Offset(11), Some(value(2)));
    offsets.store("t", 0, Offset(10), Some(value(1)));
    offsets.store("t", 0, Offset(9), None);
    assert_eq!(offsets.get("t", 0).map(|value| value.offset), Some(2));
}

#[test]
fn offsets_of_topics_are_looked_up_and_no_others_asked_about() {
    let mut offsets = offsets();
    let value = |offset| Some(OffsetCommitValue { offset, ..OffsetCommitValue::default() });
    offsets.add_uncommitted("old", 3, Offset(1), value(1));
    offsets.add_uncommitted("old", 0, Offset(2), None);
    let asked = std::cell::RefCell::new(Vec::new());
    let found = offsets.of_topics(["old", "missing"], |topic, value| {
        asked.borrow_mut().push((topic.to_owned(), value.offset));
        true
    });
    assert_eq!(found, [("old".to_owned(), 3)], "partition 0 has a tombstone on its way");
    assert_eq!(asked.into_inner(), [("old".to_owned(), 1)]);
}
