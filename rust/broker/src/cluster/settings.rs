//! What the files of a broker say of its duties among others.

use super::TURN;
use super::sessions::Limits;
use super::upkeep::Upkeep;
use crate::config::BrokerConfig;
use std::time::Duration;

/// What the files of a broker say of its duties among others.
#[derive(Clone, Copy, Debug)]
pub struct ClusterSettings {
    /// `unclean.leader.election.enable`, where it was not altered at run time.
    pub unclean_by_default: bool,
    /// `broker.heartbeat.interval.ms`
    pub heartbeat_interval: Duration,
    /// `broker.session.timeout.ms`
    pub session_timeout: Duration,
    /// What the leader does for partitions without being asked.
    pub upkeep: Upkeep,
}

impl ClusterSettings {
    /// What `config` says.
    #[must_use]
    pub fn of(config: &BrokerConfig) -> Self {
        Self {
            unclean_by_default: config.unclean_leader_election_enable,
            heartbeat_interval: Duration::from_millis(config.broker_heartbeat_interval_ms),
            session_timeout: Duration::from_millis(config.broker_session_timeout_ms),
            upkeep: Upkeep::of(config),
        }
    }

    /// How long a turn is, and after how many of them a heartbeat is due.
    pub(super) fn turns(&self) -> (Duration, u32) {
        let turns = self.heartbeat_interval.as_millis().div_ceil(TURN.as_millis());
        let turns = u32::try_from(turns).unwrap_or(u32::MAX).max(1);
        (self.heartbeat_interval / turns, turns)
    }

    /// How long the leader waits for heartbeats.
    pub(super) fn limits(&self) -> Limits {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Limits::new(ns(self.session_timeout), ns(self.heartbeat_interval))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_are_sent_in_turns_that_are_short_enough_to_lead() {
        let ms = Duration::from_millis;
        for (interval, period, turns) in [
            (500, ms(250), 2),
            (2_000, ms(250), 8),
            (300, ms(150), 2),
            (250, ms(250), 1),
            (50, ms(50), 1),
        ] {
            let config = ClusterSettings {
                heartbeat_interval: ms(interval),
                ..ClusterSettings::of(&BrokerConfig::default())
            };
            assert_eq!(config.turns(), (period, turns), "{interval}");
        }
    }
}
