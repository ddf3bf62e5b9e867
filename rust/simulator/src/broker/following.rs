//! A replica that follows: a plain model of a replica fetcher. Production has none yet.
//!
//! It names the epoch of its last record in every fetch. If the logs part, the leader says where,
//! and the follower cuts its log back (KIP-595's fetch, KIP-279's rule).

use super::replica::{InFlight, Replica};
use crate::io::Io;
use crate::log::Checks;
use crate::message::{Fetch, Fetched};
use crate::planted::Planted;
use kafkalite_log::Role;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};

/// A fetch without an answer is given up after this, ms.
const FETCH_MS: u64 = 60;

impl Replica {
    /// The next fetch, with the broker to ask, if one is due. `id` names it.
    pub fn next_fetch(&mut self, id: u64, broker_epoch: i64, now_ms: u64) -> Option<(i32, Fetch)> {
        let image = self.image.as_ref()?;
        let (leader, claimed) = (image.leader, image.leader_epoch);
        if leader == self.me || leader == -1 {
            self.in_flight = None;
            return None;
        }
        let waits = |one: &InFlight| one.epoch == claimed && now_ms < one.sent_ms + FETCH_MS;
        if self.in_flight.as_ref().is_some_and(waits) {
            return None;
        }
        self.in_flight = Some(InFlight { id, leader, epoch: claimed, sent_ms: now_ms });
        let fetch = Fetch {
            partition: self.partition,
            offset: self.log.end(),
            claimed,
            last_fetched: self.log.latest_epoch(),
            broker_epoch: Some(broker_epoch),
        };
        Some((leader, fetch))
    }

    /// Takes the answer of broker `from` to fetch `id`. Whether there may be more at once.
    pub fn take_fetched(&mut self, from: i32, id: u64, fetched: &Fetched, io: &Io<'_>) -> bool {
        let has_fence = !io.has(Planted::EpochFenceDropped);
        let asked = self.in_flight.filter(|one| one.id == id && one.leader == from);
        let epoch = match asked {
            Some(asked) => asked.epoch,
            None if has_fence => return false,
            None => LeaderEpoch(i32::MAX),
        };
        self.in_flight = None;
        let is_current = self.log.role() == Role::Follower(epoch);
        if !is_current && has_fence || fetched.error != ErrorCode::None {
            return false;
        }
        if let Some((epoch, end)) = fetched.diverging {
            if !io.has(Planted::TruncationSkipped) {
                self.truncate_to_diverging(epoch, end);
            }
            return true;
        }
        let checks = Checks { crc: !io.has(Planted::CrcSkipped), epochs: has_fence };
        let appended = self.log.append_as_follower(&fetched.batches, epoch, checks);
        let Ok(mut end) = appended else { return false };
        if self.settings.flush_messages {
            // A follower says that it holds what is on its disk.
            self.log.flush();
            end = self.log.log_end();
        }
        self.state.followed(end, fetched.high_watermark);
        !fetched.batches.is_empty()
    }

    /// The leader's records of `epoch` end at `end`, and what follows here is not the leader's.
    fn truncate_to_diverging(&mut self, epoch: LeaderEpoch, end: Offset) {
        let own = self.log.end_of_epoch(epoch);
        let to = match own {
            Some(own) if own.epoch == epoch => own.end_offset.min(end),
            Some(own) => own.end_offset,
            None => end,
        };
        self.truncate_to(to.min(self.log.end()));
    }
}
