//! What a fault is, as its maker writes it: a kind, what it is for, and when it strikes.

use std::ops::RangeInclusive;

use kafkalite_protocol::{ApiKey, ErrorCode, nearest};
use serde::{Deserialize, Serialize};

use super::api;
use super::faulted::{NAME_GROUPS, NAME_PARTITIONS, NAME_TOPICS};
use super::refusal::Refused;
use super::trigger::When;

/// What a fault does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The answer is an error.
    #[default]
    Error,
    /// The request or its answer is late.
    Delay,
    /// The connection is closed.
    Disconnect,
    /// The request is run, and its answer is never sent.
    DropResponse,
    /// The request is not run and not answered, until the fault is removed.
    Blackhole,
    /// The answer tells the client to wait.
    Throttle,
    /// A byte of a fetched batch is changed.
    Corrupt,
    /// A stage of the data plane stands still until the fault is removed.
    Stall,
    /// The disk of the logs fails, is full or is slow.
    Disk,
    /// The broker serves an API in fewer versions, or not at all.
    Versions,
    /// Fetch names another replica to read from.
    Follower,
    /// Metadata names another leader.
    Leader,
}

/// On which side of the broker's work a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Before the broker sees the request.
    Before,
    /// After the broker has done what was asked.
    After,
}

/// A stage that may stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Requests wait before their handlers.
    RequestQueue,
    /// Every I/O thread stands still.
    IoThreads,
    /// Writes of logs stand still.
    Log,
    /// Answers wait.
    ResponseQueue,
}

/// What is wrong with the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disk {
    /// No space is left.
    Full,
    /// Input and output errors.
    Error,
    /// It is slow.
    Slow,
}

/// What the disk is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Writes.
    Write,
    /// fsync.
    Sync,
    /// Reads by the broker. Records that clients fetch go past it with sendfile.
    Read,
}

/// A fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What it does.
    pub kind: Kind,
    /// Kafka's name of the API; without it, every API of clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// A topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// A partition of that topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// A group that requests must name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// `client.id` of the client; `*` stands for any characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Kafka's name of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Before or after the broker's work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// For how long, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ms: Option<u32>,
    /// The stage that stands still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// What is wrong with the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// What the disk is asked for; without it, writes and syncs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// The least version that is served; without it, the broker's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_version: Option<i16>,
    /// The newest version that is served; without it, the broker's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_version: Option<i16>,
    /// The broker that answers name. It need not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<i32>,
    /// The leader epoch that Metadata names; without it, the true one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_epoch: Option<i32>,
    /// The first call that may be struck, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_call: Option<u64>,
    /// How many calls are struck at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The chance of each call, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Where the chances begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// A fault whose parts were checked together.
#[derive(Debug, Clone)]
pub(super) struct Checked {
    pub spec: Spec,
    pub api: Option<ApiKey>,
    pub error: ErrorCode,
}

/// The members that a kind may have beside `client_id`, and those that it must have.
fn members(kind: Kind) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        Kind::Error => {
            (&["api", "topic", "partition", "group", "error", "side"], &["api", "error"])
        }
        Kind::Delay => (&["api", "topic", "partition", "group", "ms", "side"], &["ms"]),
        Kind::Disconnect => (&["api", "topic", "partition", "group", "side"], &[]),
        Kind::DropResponse | Kind::Blackhole => (&["api", "topic", "partition", "group"], &[]),
        Kind::Throttle => (&["api", "topic", "partition", "group", "ms"], &["ms"]),
        Kind::Corrupt => (&["api", "topic", "partition"], &[]),
        Kind::Stall => (&["api", "topic", "partition", "stage"], &["stage"]),
        Kind::Disk => (&["topic", "partition", "disk", "operation", "ms"], &["disk"]),
        Kind::Versions => (&["api", "min_version", "max_version"], &["api"]),
        Kind::Follower => (&["topic", "partition", "broker"], &["broker"]),
        Kind::Leader => (&["topic", "partition", "broker", "leader_epoch"], &["broker"]),
    }
}

impl Spec {
    fn has(&self, member: &str) -> bool {
        match member {
            "api" => self.api.is_some(),
            "topic" => self.topic.is_some(),
            "partition" => self.partition.is_some(),
            "group" => self.group.is_some(),
            "client_id" => self.client_id.is_some(),
            "error" => self.error.is_some(),
            "side" => self.side.is_some(),
            "ms" => self.ms.is_some(),
            "stage" => self.stage.is_some(),
            "disk" => self.disk.is_some(),
            "min_version" => self.min_version.is_some(),
            "max_version" => self.max_version.is_some(),
            "broker" => self.broker.is_some(),
            "leader_epoch" => self.leader_epoch.is_some(),
            _ => self.operation.is_some(),
        }
    }

    /// When it strikes.
    pub(super) fn when(&self) -> When {
        let &Self { on_call, times, probability, seed, .. } = self;
        When { on_call, times, probability, seed }
    }

    /// Which side it strikes on: errors and cut connections before, delays after.
    pub(super) fn side(&self) -> Side {
        let usual = match self.kind {
            Kind::Delay => Side::After,
            _ => Side::Before,
        };
        self.side.unwrap_or(usual)
    }

    /// The fault with its names understood.
    ///
    /// # Errors
    /// A name that does not exist, or members that do not go together.
    pub(super) fn check(self) -> Result<Checked, Refused> {
        self.check_members()?;
        if let Some(mistake) = self.when().mistake() {
            return Err(wrong(mistake));
        }
        let api = self.api.as_deref().map(api_of).transpose()?;
        let error = self.error.as_deref().map(error_of).transpose()?;
        if self.partition.is_some() && self.topic.is_none() {
            return Err(wrong("partition needs the topic that it belongs to"));
        }
        if self.partition.is_some_and(|partition| partition < 0) {
            return Err(wrong("partition begins at 0"));
        }
        self.check_parts(api)?;
        if self.kind == Kind::Corrupt && api.is_some_and(|api| api != ApiKey::Fetch) {
            return Err(wrong("only answers to Fetch have records to corrupt"));
        }
        if let (Kind::Throttle, Some(api)) = (self.kind, api)
            && !api::of(api).is_some_and(api::Api::throttles)
        {
            let name = api.name();
            return Err(wrong(format!("answers to {name} have no throttle_time_ms")));
        }
        self.check_numbers()?;
        let api = match self.kind {
            Kind::Corrupt | Kind::Follower => Some(ApiKey::Fetch),
            Kind::Leader => Some(ApiKey::Metadata),
            _ => api,
        };
        Ok(Checked { spec: self, api, error: error.unwrap_or(ErrorCode::None) })
    }

    fn check_members(&self) -> Result<(), Refused> {
        let (may, must) = members(self.kind);
        let kind = kind_name(self.kind);
        const ALL: [&str; 15] = [
            "api",
            "topic",
            "partition",
            "group",
            "client_id",
            "error",
            "side",
            "ms",
            "stage",
            "disk",
            "operation",
            "min_version",
            "max_version",
            "broker",
            "leader_epoch",
        ];
        let is_of_client = self.kind != Kind::Disk && !self.stands_still_for_all();
        for member in ALL.into_iter().filter(|member| self.has(member)) {
            let has_client = member == "client_id" && is_of_client;
            let is_idle = match self.stage {
                Some(Stage::IoThreads) => matches!(member, "api" | "topic" | "partition"),
                Some(Stage::Log) => member == "api",
                _ => false,
            };
            if !has_client && (!may.contains(&member) || is_idle) {
                return Err(wrong(format!("a fault of the kind {kind} takes no {member}")));
            }
        }
        if let Some(member) = must.iter().find(|member| !self.has(member)) {
            return Err(wrong(format!("a fault of the kind {kind} needs {member}")));
        }
        match self.disk {
            Some(Disk::Slow) if self.ms.is_none() => Err(wrong("a slow disk needs ms")),
            Some(Disk::Full | Disk::Error) if self.ms.is_some() => {
                Err(wrong("ms has a meaning with a slow disk only"))
            }
            Some(Disk::Full) if self.operation.is_some_and(|it| it != Operation::Write) => {
                Err(wrong("only writes find a disk full"))
            }
            _ if self.stands_still_for_all() && self.when() != When::default() => {
                Err(wrong("a stage stands still for all calls until the fault is removed"))
            }
            _ if self.kind == Kind::Versions && self.when() != When::default() => {
                Err(wrong("versions are for all calls until the fault is removed"))
            }
            _ => Ok(()),
        }
    }

    fn check_numbers(&self) -> Result<(), Refused> {
        let versions = [self.min_version, self.max_version];
        let numbers = versions.map(|version| version.map(i32::from));
        if numbers.into_iter().chain([self.broker, self.leader_epoch]).flatten().any(|it| it < 0) {
            return Err(wrong("min_version, max_version, broker and leader_epoch begin at 0"));
        }
        match versions {
            [Some(min), Some(max)] if min > max => {
                Err(wrong("min_version is above max_version: without both, no version is served"))
            }
            _ => Ok(()),
        }
    }

    /// The versions that a fault of the kind `versions` leaves: none without a limit.
    pub(super) fn versions(&self) -> RangeInclusive<i16> {
        match (self.min_version, self.max_version) {
            (None, None) => RangeInclusive::new(0, -1),
            (min, max) => min.unwrap_or(0)..=max.unwrap_or(i16::MAX),
        }
    }

    fn stands_still_for_all(&self) -> bool {
        matches!(self.stage, Some(Stage::IoThreads | Stage::Log))
    }

    fn check_parts(&self, api: Option<ApiKey>) -> Result<(), Refused> {
        if let Some(api) = api.filter(|_| self.group.is_some())
            && !NAME_GROUPS.contains(&api)
        {
            return Err(wrong(format!("requests of {} name no group", api.name())));
        }
        let Some(api) = api.filter(|_| self.topic.is_some()) else { return Ok(()) };
        let names_partitions = NAME_PARTITIONS.contains(&api);
        if !names_partitions && !NAME_TOPICS.contains(&api) {
            return Err(wrong(format!("requests of {} name no topic", api.name())));
        }
        if !names_partitions && self.partition.is_some() {
            return Err(wrong(format!("requests of {} name no partition", api.name())));
        }
        Ok(())
    }
}

/// The name of a kind on the wire.
pub(super) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Error => "error",
        Kind::Delay => "delay",
        Kind::Disconnect => "disconnect",
        Kind::DropResponse => "drop_response",
        Kind::Blackhole => "blackhole",
        Kind::Throttle => "throttle",
        Kind::Corrupt => "corrupt",
        Kind::Stall => "stall",
        Kind::Disk => "disk",
        Kind::Versions => "versions",
        Kind::Follower => "follower",
        Kind::Leader => "leader",
    }
}

fn wrong(why: impl Into<String>) -> Refused {
    let hint = "the guide on test control lists the members of each kind.";
    Refused::bad("the fault is refused", why, hint)
}

fn meant(given: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let names: Vec<(String, &str)> = names.map(|name| (name.to_ascii_lowercase(), name)).collect();
    let found = nearest(given, names.iter().map(|(lower, _)| lower.as_str()))?;
    names.iter().find(|(lower, _)| lower == found).map(|(_, name)| *name)
}

pub(super) fn api_of(name: &str) -> Result<ApiKey, Refused> {
    let names = || api::FAULTED.iter().map(|api| api.name());
    let found = api::FAULTED.iter().find(|api| api.name().eq_ignore_ascii_case(name));
    found.copied().ok_or_else(|| {
        let hint = match meant(name, names()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "give Kafka's name of an API that this broker serves: Produce.".to_owned(),
        };
        Refused::bad("the fault is refused", format!("there is no API {name:?}"), hint)
    })
}

fn error_of(name: &str) -> Result<ErrorCode, Refused> {
    let all = || ErrorCode::all().filter(|error| !error.is_none());
    let found = all().find(|error| error.name().eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let hint = match meant(name, all().map(ErrorCode::name)) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "give Kafka's name of an error: NOT_LEADER_OR_FOLLOWER.".to_owned(),
        };
        Refused::bad("the fault is refused", format!("there is no error {name:?}"), hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> String {
        let spec: Spec = serde_json::from_str(json).expect("it is JSON");
        let refused = spec.check().expect_err(json);
        format!("{} {}", refused.why, refused.hint)
    }

    #[test]
    fn names_are_found_in_any_case_and_the_nearest_is_suggested() {
        let json = r#"{"kind": "error", "api": "produce", "error": "not_leader_or_follower"}"#;
        let spec: Spec = serde_json::from_str(json).expect("it is JSON");
        let checked = spec.check().expect("it is right");
        assert_eq!(checked.api, Some(ApiKey::Produce));
        assert_eq!(checked.error, ErrorCode::NotLeaderOrFollower);
        let typo = r#"{"kind": "error", "api": "Prodcue", "error": "NOT_COORDINATOR"}"#;
        assert!(refused(typo).ends_with("did you mean Produce?"), "{}", refused(typo));
        let typo = r#"{"kind": "error", "api": "Produce", "error": "NOT_COORDINATR"}"#;
        assert!(refused(typo).ends_with("did you mean NOT_COORDINATOR?"), "{}", refused(typo));
    }

    #[test]
    fn members_that_have_no_meaning_together_are_refused() {
        for (json, why) in [
            (r#"{"kind": "delay"}"#, "needs ms"),
            (r#"{"kind": "error", "api": "Fetch"}"#, "needs error"),
            (r#"{"kind": "error", "error": "NOT_COORDINATOR"}"#, "needs api"),
            (r#"{"kind": "throttle", "ms": 5, "error": "NONE"}"#, "takes no error"),
            (r#"{"kind": "throttle", "ms": 5, "api": "SaslHandshake"}"#, "no throttle_time_ms"),
            (r#"{"kind": "disconnect", "partition": 0}"#, "needs the topic"),
            (r#"{"kind": "delay", "ms": 1, "api": "Fetch", "group": "g"}"#, "name no group"),
            (r#"{"kind": "corrupt", "group": "g"}"#, "takes no group"),
            (r#"{"kind": "disconnect", "api": "Heartbeat", "topic": "t"}"#, "name no topic"),
            (
                r#"{"kind": "disconnect", "api": "CreateTopics", "topic": "t", "partition": 0}"#,
                "name no partition",
            ),
            (r#"{"kind": "corrupt", "api": "Produce"}"#, "only answers to Fetch"),
            (r#"{"kind": "disk", "disk": "slow"}"#, "needs ms"),
            (r#"{"kind": "disk", "disk": "full", "ms": 5}"#, "slow disk only"),
            (r#"{"kind": "disk", "disk": "full", "operation": "read"}"#, "only writes"),
            (r#"{"kind": "disk", "disk": "full", "client_id": "c"}"#, "takes no client_id"),
            (r#"{"kind": "stall", "stage": "io_threads", "topic": "t"}"#, "takes no topic"),
            (r#"{"kind": "stall", "stage": "log", "times": 1}"#, "until the fault is removed"),
            (r#"{"kind": "blackhole", "times": 0}"#, "begin at 1"),
            (r#"{"kind": "versions", "max_version": 3}"#, "needs api"),
            (r#"{"kind": "versions", "api": "Fetch", "times": 1}"#, "until the fault is removed"),
            (r#"{"kind": "versions", "api": "Fetch", "max_version": -1}"#, "begin at 0"),
            (
                r#"{"kind": "versions", "api": "Fetch", "min_version": 5, "max_version": 4}"#,
                "min_version is above max_version",
            ),
            (r#"{"kind": "follower", "topic": "t"}"#, "needs broker"),
            (r#"{"kind": "follower", "broker": 1, "leader_epoch": 2}"#, "takes no leader_epoch"),
            (r#"{"kind": "leader", "broker": -1}"#, "begin at 0"),
        ] {
            let refused = refused(json);
            assert!(refused.contains(why), "{json}: {refused}");
        }
    }

    #[test]
    fn a_member_that_does_not_exist_is_refused() {
        let json = r#"{"kind": "error", "api": "Fetch", "error": "NOT_COORDINATOR", "tpoic": "t"}"#;
        assert!(serde_json::from_str::<Spec>(json).is_err());
    }
}
