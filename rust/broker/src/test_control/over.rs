//! Which errors of a client are over, although no answer said so.
//!
//! An error ends when its partition succeeds on the same connection. But a client may ask there no
//! more: the partition moved to another broker, its topic was made again, or its records were given
//! up. `explain()` names such an error while it is fresh.

use kafkalite_protocol::{ApiKey, ErrorCode};

use super::seen::{Look, Streak};
use crate::clock::NS_PER_MS;
use crate::metadata::MetadataImage;

/// For so long an error of a partition counts that the client may have left. A client that asks
/// again does so within about a second.
const FRESH_MS: u64 = 5_000;

/// Requests that go to the leader of a partition, with errors that make the client look for it.
const TO_LEADERS: [ApiKey; 4] =
    [ApiKey::Produce, ApiKey::Fetch, ApiKey::ListOffsets, ApiKey::OffsetForLeaderEpoch];

/// What is known beside the notes of a connection.
#[derive(Clone, Copy)]
pub(super) struct Now<'a> {
    pub local_id: i32,
    pub image: &'a MetadataImage,
    pub now_ns: u64,
}

/// Whether an error is over for a connection that has not seen its end. `others` are connections of
/// clients with the same id on the same machine. That may be one client. But many clients have the
/// default id.
pub(super) fn is_over<'a>(
    streak: &Streak,
    look: &Look,
    mut others: impl Iterator<Item = &'a Look>,
    now: Now<'_>,
) -> bool {
    let is_fresh = now.now_ns.saturating_sub(streak.last_ns) < FRESH_MS * NS_PER_MS;
    !is_fresh
        && (goes_on(streak, look)
            || is_elsewhere(streak, now)
            || others.any(|other| asks_there(streak, other)))
}

/// Whether another connection asked for the same since, and got it.
fn asks_there(streak: &Streak, other: &Look) -> bool {
    let Some(last) = other.answered.get(&(streak.api as i16)) else { return false };
    let (seen, part) = (&last.seen, &streak.part);
    let asked = part.topic.is_none() || seen.parts.contains(part);
    let has_it = |one: &Streak| (one.api, &one.part) == (streak.api, part);
    last.at_ns > streak.last_ns
        && asked
        && seen.group == streak.group
        && !other.streaks.iter().any(has_it)
}

/// Whether the client got other answers of the API since, without this error.
fn goes_on(streak: &Streak, look: &Look) -> bool {
    look.answered.get(&(streak.api as i16)).is_some_and(|last| last.at_ns > streak.last_ns)
}

/// Whether a request for this partition comes here no more: another broker leads it, or its topic
/// has another id now.
fn is_elsewhere(streak: &Streak, now: Now<'_>) -> bool {
    let Some(topic) = streak.part.topic.as_deref().filter(|_| TO_LEADERS.contains(&streak.api))
    else {
        return false;
    };
    let Some(topic) = now.image.topic(topic) else {
        // By its name it may still be asked for.
        return streak.code == ErrorCode::UnknownTopicId.code();
    };
    let partition = streak.part.partition.and_then(|index| topic.partition(index));
    partition.is_some_and(|one| one.leader >= 0 && one.leader != now.local_id)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kafkalite_protocol::Uuid;

    use super::super::seen::{Answered, Began, Part, Seen};
    use super::*;
    use crate::metadata::records::{
        CreateTopicRecord, MetadataRecord, PartitionRecord, RecordsBatch,
    };
    use crate::request_queue::{Audience, RequestContext};

    const ME: i32 = 1;
    const LATER_NS: u64 = (FRESH_MS + 1) * NS_PER_MS;

    /// Topic `t` of one partition with this leader.
    fn image(leader: i32) -> MetadataImage {
        let partitions = vec![PartitionRecord {
            leader,
            replicas: vec![ME],
            isr: vec![ME],
            ..PartitionRecord::default()
        }];
        let (name, topic_id) = ("t".to_owned(), Uuid([1; 16]));
        let topic = CreateTopicRecord { name, topic_id, partitions, configs: vec![] };
        let records = vec![MetadataRecord::CreateTopic(topic)];
        let batch = RecordsBatch { base_offset: 0, epoch: 1, timestamp_ms: 0, records };
        MetadataImage::default().with_batch(&batch).expect("it fits")
    }

    fn streak(api: ApiKey, topic: &str, error: ErrorCode) -> Streak {
        Streak {
            api,
            part: Part { topic: Some(Arc::from(topic)), partition: Some(0) },
            code: error.code(),
            times: 2,
            first_ns: 1,
            last_ns: 1,
            fault: None,
            group: None,
            member: None,
        }
    }

    /// A connection that got an answer about these partitions of the group.
    fn look(api: ApiKey, at_ns: u64, parts: &[Part], group: Option<&str>) -> Look {
        let peer = ([127, 0, 0, 1], 9).into();
        let context = RequestContext::anonymous((peer, peer), Arc::from("L"), Audience::Clients, 1);
        let began = Began {
            number: 1,
            api,
            version: 9,
            correlation_id: 1,
            client_id: None,
            received_ns: 0,
            started_ns: 0,
            wall_ms: 0,
            parts: parts.to_vec(),
            group: group.map(str::to_owned),
            member: None,
        };
        let seen = Arc::new(Seen::new(&context, began));
        Look { answered: [(api as i16, Answered { at_ns, seen })].into(), ..Look::default() }
    }

    /// Whether it is over right after it, and some seconds later. `other` is another connection.
    fn over_with(streak: &Streak, own: &Look, other: Option<&Look>, leader: i32) -> [bool; 2] {
        let image = image(leader);
        [2, LATER_NS].map(|now_ns| {
            let now = Now { local_id: ME, image: &image, now_ns };
            is_over(streak, own, other.into_iter(), now)
        })
    }

    /// The same without another connection.
    fn over(streak: &Streak, answered: Option<(ApiKey, u64)>, leader: i32) -> [bool; 2] {
        let own = answered.map(|(api, at_ns)| look(api, at_ns, &[], None));
        over_with(streak, &own.unwrap_or_default(), None, leader)
    }

    /// A producer with the usual name hid the error of another one that wrote another topic.
    #[test]
    fn an_error_is_not_over_when_another_connection_asks_for_something_else() {
        let one = streak(ApiKey::Produce, "t", ErrorCode::NotEnoughReplicas);
        let over = |api, at_ns, parts: &[Part], group| {
            let other = look(api, at_ns, parts, group);
            over_with(&one, &Look::default(), Some(&other), ME)
        };
        let of = |topic: &str| Part { topic: Some(Arc::from(topic)), partition: Some(0) };
        assert_eq!(over(ApiKey::Produce, 2, &[of("u")], None), [false, false]);
        assert_eq!(over(ApiKey::Produce, 2, &[of("u"), of("t")], None), [false, true]);
        assert_eq!(over(ApiKey::Produce, 1, &[of("t")], None), [false, false], "before it");
        assert_eq!(over(ApiKey::Fetch, 2, &[of("t")], None), [false, false], "another API");
        assert_eq!(over(ApiKey::Produce, 2, &[of("t")], Some("g")), [false, false], "a group");
        let mut other = look(ApiKey::Produce, 2, &[of("t")], None);
        other.streaks = vec![one.clone()];
        let both = over_with(&one, &Look::default(), Some(&other), ME);
        assert_eq!(both, [false, false], "it has the error too");
    }

    #[test]
    fn an_error_is_over_when_the_client_goes_on_without_it() {
        let one = streak(ApiKey::Produce, "t", ErrorCode::UnknownTopicOrPartition);
        assert_eq!(over(&one, Some((ApiKey::Produce, 2)), ME), [false, true]);
        assert_eq!(over(&one, Some((ApiKey::Produce, 1)), ME), [false, false], "its own answer");
        assert_eq!(over(&one, Some((ApiKey::Fetch, 2)), ME), [false, false], "another API");
    }

    #[test]
    fn an_error_is_over_when_another_broker_leads_the_partition() {
        let one = streak(ApiKey::Fetch, "t", ErrorCode::NotLeaderOrFollower);
        assert_eq!(over(&one, None, ME + 1), [false, true]);
        assert_eq!(over(&one, None, ME), [false, false], "it is led here");
        assert_eq!(over(&one, None, -1), [false, false], "it has no leader");
        let commit = streak(ApiKey::OffsetCommit, "t", ErrorCode::IllegalGeneration);
        assert_eq!(over(&commit, None, ME + 1), [false, false], "it goes to the coordinator");
    }

    #[test]
    fn an_error_of_the_id_of_a_deleted_topic_is_over_soon() {
        let id = Uuid([9; 16]).to_string();
        let one = streak(ApiKey::Fetch, &id, ErrorCode::UnknownTopicId);
        assert_eq!(over(&one, None, ME), [false, true]);
        let by_name = streak(ApiKey::Produce, "u", ErrorCode::UnknownTopicOrPartition);
        assert_eq!(over(&by_name, None, ME), [false, false]);
    }
}
