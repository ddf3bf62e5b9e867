#![allow(clippy::unwrap_used)]

use std::sync::mpsc;

use super::*;
use crate::commit_log::tests::{Fixture, append};
use crate::config::LogConfig;

#[test]
fn with_flush_messages_1_every_append_becomes_durable() {
    let fixture = Fixture::new(LogConfig { flush_messages: 1, ..LogConfig::default() });
    let log = Arc::new(fixture.fresh());
    let (sender, durable) = mpsc::channel();
    let roller =
        Roller::start(2, move |_, outcome| sender.send(outcome.unwrap()).unwrap()).unwrap();
    for _ in 0..20 {
        let end = append(&log, 3).end_offset();
        assert!(log.needs_flush());
        roller.flush_if_needed(&log);
        while durable.recv().unwrap() < end {}
        assert!(log.durable_offset() >= end);
    }
}

#[test]
fn appends_that_wait_together_share_a_flush() {
    let fixture = Fixture::new(LogConfig { flush_messages: 1, ..LogConfig::default() });
    let log = Arc::new(fixture.fresh());
    for _ in 0..20 {
        append(&log, 1);
    }
    let (sender, durable) = mpsc::channel();
    let roller =
        Roller::start(1, move |_, outcome| sender.send(outcome.unwrap()).unwrap()).unwrap();
    roller.flush_if_needed(&log);
    assert_eq!(durable.recv().unwrap(), Offset(20));
    roller.flush_if_needed(&log);
    roller.stop();
    assert!(durable.try_recv().is_err());
}

#[test]
fn a_flush_is_needed_after_flush_messages_records_or_a_roll() {
    let fixture = Fixture::new(LogConfig { flush_messages: 3, ..LogConfig::default() });
    let log = fixture.fresh();
    for (records, needed) in [(2, false), (1, true)] {
        append(&log, records);
        assert_eq!(log.needs_flush(), needed);
    }
    log.flush().unwrap();
    assert!(!log.needs_flush());
    append(&log, 1);
    log.roll(0).unwrap();
    assert!(log.needs_flush());
    log.flush().unwrap();
    assert_eq!((log.needs_flush(), log.durable_offset()), (false, log.log_end_offset()));
}
