//! One fault that is in force: what it is for, how often it struck, and what it holds back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kafkalite_protocol::ApiKey;
use parking_lot::{Condvar, Mutex};

use super::spec::{Checked, Kind, Stage};
use super::trigger::Trigger;

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
        strikes_requests
            && self.checked.api.is_none_or(|wanted| wanted == api)
            && spec.client_id.as_deref().is_none_or(|wanted| client_id == Some(wanted))
            && !self.is_over()
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

#[cfg(test)]
mod tests {
    use super::*;

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
