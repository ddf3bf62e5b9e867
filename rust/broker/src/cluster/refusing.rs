//! Brokers whose ports refuse connections, until the metadata say that they are gone.
//!
//! The process of such a broker is gone. A client whose connection ended asks for metadata at once,
//! and the controller needs a moment to elect. If that client got the old leader, some clients
//! would wait a second before they ask again. So for a moment no partition has this broker as its
//! leader in answers. A link that swallows packets refuses nothing, and changes no answer.
//! Times are monotonic, and handed in.

use crate::metadata::MetadataImage;
use std::collections::BTreeMap;

/// How long a broker that the metadata have alive is left out of answers: longer than an election
/// takes with a new controller. Once in each of its lives, as only its address may be wrong.
pub const WINDOW_NS: u64 = 1_000_000_000;

/// What is known of one broker.
#[derive(Clone, Copy)]
struct Refusing {
    /// Its life.
    epoch: i64,
    /// When its port refused for the first time in this life.
    since_ns: u64,
    /// Whether it refused the last time, too.
    is_closed: bool,
}

/// Those that refused a connection in the life that the image knows.
#[derive(Default)]
pub struct RefusingBrokers(BTreeMap<i32, Refusing>);

impl RefusingBrokers {
    /// The port of a broker refused a connection, or took one.
    pub fn reached(&mut self, (id, epoch): (i32, i64), is_closed: bool, now_ns: u64) {
        match self.0.get_mut(&id).filter(|known| known.epoch == epoch) {
            Some(known) => known.is_closed = is_closed,
            None if is_closed => {
                self.0.insert(id, Refusing { epoch, since_ns: now_ns, is_closed });
            }
            None => {}
        }
    }

    /// The brokers that `image` has alive although they refuse, in their window.
    pub fn gone(&mut self, image: &MetadataImage, now_ns: u64) -> Vec<i32> {
        let lives = |id: i32, epoch: i64| image.brokers.get(&id).is_some_and(|b| b.epoch == epoch);
        self.0.retain(|id, known| lives(*id, known.epoch));
        let is_gone =
            |known: &Refusing| known.is_closed && now_ns.saturating_sub(known.since_ns) < WINDOW_NS;
        self.0.iter().filter(|(_, known)| is_gone(known)).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::records::{
        ListenerRecord, MetadataRecord, RecordsBatch, RegisterBrokerRecord,
    };

    const MS: u64 = 1_000_000;

    fn image(brokers: &[(i32, i64)]) -> MetadataImage {
        let listener = ListenerRecord { name: "A".to_owned(), host: "h".to_owned(), port: 1 };
        let register = |&(broker_id, epoch): &(i32, i64)| {
            let listeners = vec![listener.clone()];
            let record = RegisterBrokerRecord { broker_id, epoch, listeners, ..Default::default() };
            MetadataRecord::RegisterBroker(record)
        };
        let records = brokers.iter().map(register).collect();
        let batch = RecordsBatch { base_offset: 0, epoch: 1, timestamp_ms: 0, records };
        MetadataImage::default().with_batch(&batch).expect("the records fit")
    }

    #[test]
    fn a_broker_that_refuses_is_gone_for_a_moment_once_in_each_life() {
        let (first, second) = (image(&[(1, 5), (2, 6)]), image(&[(1, 9), (2, 6)]));
        let mut brokers = RefusingBrokers::default();
        brokers.reached((1, 5), true, 100 * MS);
        assert_eq!(brokers.gone(&first, 100 * MS), [1]);
        brokers.reached((1, 5), true, 900 * MS);
        assert_eq!(brokers.gone(&first, 1_099 * MS), [1]);
        assert_eq!(brokers.gone(&first, 1_100 * MS), [0; 0], "only its address may be wrong");
        brokers.reached((1, 5), true, 2_000 * MS);
        assert_eq!(brokers.gone(&first, 2_000 * MS), [0; 0], "once in a life");
        brokers.reached((1, 9), true, 3_000 * MS);
        assert_eq!(brokers.gone(&second, 3_000 * MS), [1], "another life");
    }

    #[test]
    fn a_broker_that_takes_a_connection_or_began_another_life_is_there() {
        let mut brokers = RefusingBrokers::default();
        brokers.reached((1, 5), false, 0);
        assert_eq!(brokers.gone(&image(&[(1, 5)]), 0), [0; 0], "it never refused");
        brokers.reached((1, 5), true, 0);
        brokers.reached((1, 5), false, 50 * MS);
        assert_eq!(brokers.gone(&image(&[(1, 5)]), 60 * MS), [0; 0], "it takes connections again");
        brokers.reached((1, 5), true, 70 * MS);
        assert_eq!(brokers.gone(&image(&[(1, 5)]), 80 * MS), [1]);
        assert_eq!(brokers.gone(&image(&[(1, 7)]), 90 * MS), [0; 0], "it is a later life");
        assert_eq!(
            brokers.gone(&image(&[(1, 5)]), 90 * MS),
            [0; 0],
            "nothing is kept of the former"
        );
    }
}
