//! What a broker runs in: the system's own, or what a test puts in its place.

use crate::clock::{Clock, SystemClock};
use crate::config::BrokerConfig;
use crate::metadata::{Controller, SupportedFeatures};
use crate::test_control::TestControl;
use kafkalite_connection::CutLinks;
use kafkalite_log::storage::{RealStorage, Storage, UnsyncedStorage};
use std::sync::Arc;

/// What a broker runs in.
pub struct Environment {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The file system.
    pub storage: Arc<dyn Storage>,
    /// Takes the place of a metadata log of the broker's own, and stops with the broker.
    pub controller: Option<Arc<Controller>>,
    /// Brokers that this one cannot reach.
    pub links: Option<Arc<CutLinks>>,
    /// The levels of features that it supports: fewer than it does, for a broker that stands for an
    /// earlier release.
    pub supported: SupportedFeatures,
}

impl Environment {
    /// With faults on purpose, if `config` wants them.
    pub(super) fn under_test(mut self, config: &BrokerConfig) -> (Self, Option<Arc<TestControl>>) {
        let control = config.test_control.then(|| TestControl::new(self.clock.clone()));
        if let Some(control) = &control {
            self.clock = control.clock();
            self.storage = control.storage(self.storage);
        }
        (self, control)
    }

    /// A clock and a file system, and all else as it is.
    #[must_use]
    pub fn over(clock: Arc<dyn Clock>, storage: Arc<dyn Storage>) -> Self {
        let supported = SupportedFeatures::default();
        Self { clock, storage, controller: None, links: None, supported }
    }

    /// The same, for a broker that stands for a release with records up to this level.
    #[must_use]
    pub fn of_release(self, record_version: Option<i16>) -> Self {
        let supported = record_version.map_or(self.supported, SupportedFeatures::up_to);
        Self { supported, ..self }
    }

    /// The system's own, as `config` wants it.
    #[must_use]
    pub fn of(config: &BrokerConfig) -> Self {
        let storage: Arc<dyn Storage> =
            if config.disk_sync { Arc::new(RealStorage) } else { Arc::new(UnsyncedStorage) };
        Self::over(Arc::new(SystemClock::new()), storage)
    }
}
