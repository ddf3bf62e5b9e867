//! One fault that is in force: what it is for, how often it struck, and what it holds back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kafkalite_protocol::ApiKey;
use parking_lot::{Condvar, Mutex};

use super::spec::{Checked, Kind, Stage};
use super::trigger::Trigger;
use crate::handlers::BROKERS_CLIENT_ID;

/// A fault.
#[derive(Debug)]
pub(super) struct Fault {
    /// From 1, in the order in which faults were added.
    pub id: u64,
    pub checked: Checked,
    trigger: Mutex<Trigger>,
    removed: AtomicBool,
    gate: Mutex<()>,
    opened: Condvar,
}

impl Fault {
    pub fn new(id: u64, checked: Checked) -> Arc<Self> {
        let trigger = Mutex::new(Trigger::new(checked.spec.when()));
        Arc::new(Self {
            id,
            checked,
            trigger,
            removed: AtomicBool::new(false),
            gate: Mutex::default(),
            opened: Condvar::new(),
        })
    }

    /// Whether it is for this API and client, as far as the header of a request tells.
    pub fn is_for(&self, api: ApiKey, client_id: Option<&str>) -> bool {
        let spec = &self.checked.spec;
        let strikes_requests =
            spec.kind != Kind::Disk && !matches!(spec.stage, Some(Stage::IoThreads | Stage::Log));
        // Clients learn of a limit by ApiVersions. Brokers do not: a cluster agrees on versions.
        let is_its_api = match spec.kind {
            Kind::Versions if is_of_broker(client_id) => false,
            Kind::Versions if api == ApiKey::ApiVersions => true,
            _ => self.checked.api.is_none_or(|wanted| wanted == api),
        };
        let is_its_client = |wanted| client_id.is_some_and(|id| fits(wanted, id));
        strikes_requests
            && is_its_api
            && spec.client_id.as_deref().is_none_or(is_its_client)
            && !self.is_over()
    }

    /// Whether the broker does not serve this version, as clients are to see it.
    pub fn hides(&self, api: ApiKey, version: i16) -> bool {
        let spec = &self.checked.spec;
        spec.kind == Kind::Versions
            && self.checked.api == Some(api)
            && !spec.versions().contains(&version)
    }

    /// Notes a call; whether it is struck.
    pub fn fires(&self) -> bool {
        !self.is_over() && self.trigger.lock().fires()
    }

    /// Calls that matched, and those that were struck.
    pub fn counts(&self) -> (u64, u64) {
        self.trigger.lock().counts()
    }

    /// Whether no later call can be struck.
    pub fn is_spent(&self) -> bool {
        self.trigger.lock().is_spent()
    }

    /// Whether nothing but its removal ends it.
    pub fn is_endless(&self) -> bool {
        let when = self.checked.spec.when();
        when.times.is_none() && when.on_call.is_none()
    }

    /// Whether it was removed.
    pub fn is_over(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// Ends it: threads that stand still go on.
    pub fn end(&self) {
        self.removed.store(true, Ordering::Release);
        let _gate = self.gate.lock();
        self.opened.notify_all();
    }

    /// Stands still until the fault is removed, or `limit` has passed.
    pub fn stand_still(&self, limit: Option<Duration>) {
        let mut gate = self.gate.lock();
        let is_in_force = |_: &mut ()| !self.is_over();
        match limit {
            None => self.opened.wait_while(&mut gate, is_in_force),
            Some(limit) => {
                self.opened.wait_while_for(&mut gate, is_in_force, limit);
            }
        }
    }
}

/// Whether a text is of a pattern, in which `*` stands for any characters.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((first, pieces)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let (pieces, last) = pieces.rsplit_once('*').unwrap_or(("", pieces));
    for piece in pieces.split('*') {
        let Some((_, behind)) = rest.split_once(piece) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

/// Whether a broker of the cluster asks: by its connections of replication and of the quorum.
fn is_of_broker(client_id: Option<&str>) -> bool {
    client_id.is_some_and(|id| id == BROKERS_CLIENT_ID || fits("broker-*-fetcher", id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_of_a_client_id() {
        let all = ["billing", "billing-1", "old-billing-1", "b-billing", "", "billing*"];
        let fitting = |pattern| all.into_iter().filter(|id| fits(pattern, id)).collect::<Vec<_>>();
        assert_eq!(fitting("billing"), ["billing"]);
        assert_eq!(fitting("billing*"), ["billing", "billing-1", "billing*"]);
        assert_eq!(fitting("*billing"), ["billing", "b-billing"]);
        assert_eq!(fitting("*-billing*"), ["old-billing-1", "b-billing"]);
        assert_eq!(fitting("b*i*-*1"), ["billing-1"]);
        assert_eq!(fitting("b**g"), ["billing", "b-billing"]);
        assert_eq!(fitting("*"), all);
        assert_eq!(fitting("billing-1*1"), [""; 0], "a character counts once");
    }

    #[test]
    fn brokers_do_not_learn_of_a_limit_of_versions() {
        let json = r#"{"kind": "versions", "api": "Fetch", "max_version": 12}"#;
        let spec: super::super::spec::Spec = serde_json::from_str(json).expect("it is JSON");
        let fault = Fault::new(1, spec.check().expect("it is right"));
        for api in [ApiKey::ApiVersions, ApiKey::Fetch] {
            assert!(fault.is_for(api, Some("c")) && fault.is_for(api, None));
            assert!(!fault.is_for(api, Some(BROKERS_CLIENT_ID)));
            assert!(!fault.is_for(api, Some("broker-3-fetcher")));
        }
        assert!(!fault.is_for(ApiKey::Produce, Some("c")));
        assert!(fault.hides(ApiKey::Fetch, 13) && !fault.hides(ApiKey::Fetch, 12));
        assert!(!fault.hides(ApiKey::ApiVersions, 4));
    }

    /// A slow disk counted requests, and a log that stood still held them before their handlers.
    #[test]
    fn faults_of_the_disk_and_of_threads_strike_no_request() {
        for (json, strikes) in [
            (r#"{"kind": "disk", "disk": "full"}"#, false),
            (r#"{"kind": "stall", "stage": "log"}"#, false),
            (r#"{"kind": "stall", "stage": "io_threads"}"#, false),
            (r#"{"kind": "stall", "stage": "request_queue"}"#, true),
            (r#"{"kind": "blackhole"}"#, true),
        ] {
            let spec: super::super::spec::Spec = serde_json::from_str(json).expect("it is JSON");
            let fault = Fault::new(1, spec.check().expect("it is right"));
            assert_eq!(fault.is_for(ApiKey::Produce, None), strikes, "{json}");
        }
    }
}
