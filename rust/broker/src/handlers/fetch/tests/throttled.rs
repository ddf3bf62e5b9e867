//! Followers whose fetches an operator limits.

use super::*;
use crate::config::BrokerConfig;
use crate::metadata::records::{ConfigResource, MetadataRecord};

/// A move that an operator limits (KIP-73). Acknowledgements wait for replicas in sync, so these
/// are never held up.
#[test]
fn a_follower_that_is_behind_gets_nothing_beyond_its_throttle() {
    let house = House::new();
    house.create("t", 1);
    let topic = ConfigResource::topic("t");
    let throttled = "leader.replication.throttled.replicas";
    house.commit(vec![MetadataRecord::set_config(&topic, throttled, Some("0:1"))]);
    let limit = |leader_throttle_bytes| {
        let config = BrokerConfig { leader_throttle_bytes, ..BrokerConfig::default() };
        house.partitions.limit_throttles(&config);
    };
    let mut client = Client::new(12);
    client.toggle(&house, "t", 0);
    let waits = Asks { min_bytes: 1, max_bytes: 1 << 20, max_wait_ms: 60_000 };
    let fetch = |replica_id| {
        let request = FetchRequest { replica_id, ..client.request(waits) };
        house.fetch(&request, 12).expect("a full fetch")
    };
    let bytes = |answers: &mpsc::Receiver<house::Answer>| {
        let (_, files) = answers.try_recv().ok()?;
        Some(files.iter().flatten().map(|slice| u64::from(slice.length)).sum::<u64>())
    };
    house.append("t", 0, 1);
    house.elect("t", 0, ME, &[ME]);
    limit(Some(0));
    let follower = fetch(OTHER);
    assert_eq!(bytes(&follower), None, "nothing may be copied");
    assert_eq!(bytes(&fetch(-1)), Some(house.batch_bytes), "consumers are not meant");
    house.elect("t", 0, ME, &[ME, OTHER]);
    assert_eq!(bytes(&follower), Some(house.batch_bytes), "it is in sync");
    house.elect("t", 0, ME, &[ME]);
    limit(Some(1));
    assert_eq!(bytes(&fetch(OTHER)), Some(house.batch_bytes), "the first bytes are free");
    assert_eq!(bytes(&fetch(OTHER)), None, "they are paid off first");
    limit(None);
    assert_eq!(bytes(&fetch(OTHER)), Some(house.batch_bytes));
}

/// No record is copied for that, and the follower cannot go on without it.
#[test]
fn a_follower_beyond_its_throttle_hears_at_once_where_its_log_parted() {
    let house = House::new();
    house.create("t", 1);
    let topic = ConfigResource::topic("t");
    let throttled = "leader.replication.throttled.replicas";
    house.commit(vec![MetadataRecord::set_config(&topic, throttled, Some("*"))]);
    house.append("t", 0, 1);
    house.elect("t", 0, ME, &[ME]);
    let config = BrokerConfig { leader_throttle_bytes: Some(0), ..BrokerConfig::default() };
    house.partitions.limit_throttles(&config);
    let mut client = Client::new(12);
    client.toggle(&house, "t", 0);
    let waits = Asks { min_bytes: 1, max_bytes: 1 << 20, max_wait_ms: 60_000 };
    let mut request = FetchRequest { replica_id: OTHER, ..client.request(waits) };
    let asked = &mut request.topics[0].partitions[0];
    (asked.fetch_offset, asked.last_fetched_epoch) = (5, 0);
    let answers = house.fetch(&request, 12).expect("a full fetch");
    let (response, _) = answers.try_recv().expect("it need not wait");
    assert_eq!(response.responses[0].partitions[0].diverging_epoch.end_offset, 1);
}
