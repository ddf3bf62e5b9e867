//! The broker's configuration as plain fields, read once from what was said about the keys.

use std::path::PathBuf;

use super::broker_key;
use super::error::ConfigError;
use super::listeners::{AdvertisedListener, ListenerConfig, parse_listener};
use super::value::Value;
use super::values::BrokerValues;

/// `kafkalite.request.inline`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestInline {
    /// Cheap requests, when nothing waits before them.
    Auto,
    /// Every request is queued.
    Never,
    /// Every request that may run inline does, whatever it costs.
    Always,
}

/// `kafkalite.batch.validation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchValidation {
    /// Every record of every batch is looked at before the append.
    Strict,
    /// The header of a compressed batch is believed.
    Relaxed,
}

/// Declares the fields with the keys they are read from, so that neither can miss the other.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $how:ident($($key:literal)?);)*) => {
        /// The broker's configuration. A field has the name of its key, with underscores for dots.
        /// If the key's name lacks a unit that it needs, the field's name ends with the unit.
        #[derive(Debug, Clone, PartialEq)]
        pub struct BrokerConfig {
            /// `listeners` without those of `controller.listener.names`; never empty.
            pub listeners: Vec<ListenerConfig>,
            /// `advertised.listeners` without those of `controller.listener.names`. A listener that
            /// is not named here advertises the local address of the socket a client came in on.
            pub advertised_listeners: Vec<AdvertisedListener>,
            $($(#[$doc])* pub $name: $type,)*
            /// What was said about every key, for DescribeConfigs and for the topics' defaults.
            pub values: BrokerValues,
        }

        impl BrokerConfig {
            /// The configuration that `values` amount to.
            ///
            /// # Errors
            /// A listener that cannot be read or is not served, or values that do not hold
            /// together.
            pub fn new(values: BrokerValues) -> Result<Self, ConfigError> {
                super::combined::check(&values)?;
                let read = Reader { values: &values };
                let (listeners, advertised_listeners) = read.listeners()?;
                Ok(Self {
                    listeners,
                    advertised_listeners,
                    $($name: read.$how($($key)?),)*
                    values,
                })
            }

            /// Whether a file, a variable or a flag says which node this is.
            #[must_use]
            pub fn names_node(&self) -> bool {
                ["node.id", "broker.id"].iter().any(|key| !self.values.settings(key).is_empty())
            }

            /// The same for the node `node_id`, which `origin` says.
            ///
            /// # Errors
            /// A broker cannot have this id.
            pub fn of_node(&self, node_id: i32, origin: &str) -> Result<Self, ConfigError> {
                let mut values = self.values.clone();
                let source = super::values::ConfigSource::StaticBroker;
                values.set("node.id", &node_id.to_string(), source, origin)?;
                Self::new(values)
            }

            /// The listener that brokers alone use: `inter.broker.listener.name`, if clients have
            /// another.
            #[must_use]
            pub fn inter_broker_listener(&self) -> Option<&str> {
                let name = self.inter_broker_listener_name.as_deref()?;
                let own = self.listeners.iter().find(|own| own.name.eq_ignore_ascii_case(name))?;
                (self.listeners.len() > 1).then_some(own.name.as_str())
            }
        }
    };
}

fields! {
    /// `node.id`, or `broker.id` where that is set.
    node_id: i32 = node_id();
    /// `broker.rack`
    broker_rack: Option<String> = text("broker.rack");
    /// `inter.broker.listener.name`
    inter_broker_listener_name: Option<String> = text("inter.broker.listener.name");
    /// `log.dirs`, or `log.dir`; never empty. The first holds the metadata log.
    data_dirs: Vec<PathBuf> = data_dirs();
    /// `kafkalite.cluster.id`, for a data directory that is new.
    cluster_id: Option<String> = text("kafkalite.cluster.id");
    /// `kafkalite.join`, for a data directory that is new.
    join: Option<String> = text("kafkalite.join");
    /// `initial.broker.registration.timeout.ms`
    registration_timeout_ms: u64 = number("initial.broker.registration.timeout.ms");

    /// `num.network.threads`
    num_network_threads: usize = number("num.network.threads");
    /// `num.io.threads`
    num_io_threads: usize = number("num.io.threads");
    /// `queued.max.requests`
    queued_max_requests: usize = number("queued.max.requests");
    /// `queued.max.request.bytes`; `None` for no bound.
    queued_max_request_bytes: Option<usize> = bounded("queued.max.request.bytes");
    /// `socket.send.buffer.bytes`; `None` leaves it to the kernel.
    socket_send_buffer_bytes: Option<usize> = bounded("socket.send.buffer.bytes");
    /// `socket.receive.buffer.bytes`; `None` leaves it to the kernel.
    socket_receive_buffer_bytes: Option<usize> = bounded("socket.receive.buffer.bytes");
    /// `socket.request.max.bytes`
    socket_request_max_bytes: usize = number("socket.request.max.bytes");
    /// `socket.listen.backlog.size`
    socket_listen_backlog_size: i32 = number("socket.listen.backlog.size");
    /// `max.connections`
    max_connections: usize = number("max.connections");
    /// `max.connections.per.ip`
    max_connections_per_ip: usize = number("max.connections.per.ip");
    /// `connections.max.idle.ms`; `None` for never.
    connections_max_idle_ms: Option<u64> = bounded("connections.max.idle.ms");
    /// `kafkalite.request.inline`
    request_inline: RequestInline = request_inline();
    /// `kafkalite.request.inline.max.bytes`
    request_inline_max_bytes: usize = number("kafkalite.request.inline.max.bytes");
    /// `kafkalite.memory.budget.bytes`
    memory_budget_bytes: usize = number("kafkalite.memory.budget.bytes");
    /// `kafkalite.frame.deadline.ms`
    frame_deadline_ms: u64 = number("kafkalite.frame.deadline.ms");
    /// `kafkalite.frame.min.bytes.per.second`
    frame_min_bytes_per_second: u64 = number("kafkalite.frame.min.bytes.per.second");
    /// `kafkalite.stop.timeout.ms`
    stop_timeout_ms: u64 = number("kafkalite.stop.timeout.ms");

    /// `fetch.max.bytes`
    fetch_max_bytes: i32 = number("fetch.max.bytes");
    /// `max.incremental.fetch.session.cache.slots`
    fetch_session_cache_slots: usize = number("max.incremental.fetch.session.cache.slots");
    /// `kafkalite.fetch.sendfile.min.bytes`
    fetch_sendfile_min_bytes: usize = number("kafkalite.fetch.sendfile.min.bytes");
    /// `kafkalite.cold.read.threads`
    cold_read_threads: usize = number("kafkalite.cold.read.threads");
    /// `kafkalite.cold.read.max.bytes`
    cold_read_max_bytes: u64 = number("kafkalite.cold.read.max.bytes");
    /// `kafkalite.cold.read.max.bytes.per.second`
    cold_read_max_bytes_per_second: u64 = number("kafkalite.cold.read.max.bytes.per.second");
    /// `max.request.partition.size.limit`
    max_request_partition_size_limit: i32 = number("max.request.partition.size.limit");

    /// `auto.create.topics.enable`
    auto_create_topics_enable: bool = boolean("auto.create.topics.enable");
    /// `auto.leader.rebalance.enable`
    auto_leader_rebalance_enable: bool = boolean("auto.leader.rebalance.enable");
    /// `leader.imbalance.check.interval.seconds`
    leader_imbalance_check_interval_s: u64 = number("leader.imbalance.check.interval.seconds");
    /// `delete.topic.enable`
    delete_topic_enable: bool = boolean("delete.topic.enable");
    /// `num.partitions`
    num_partitions: i32 = number("num.partitions");
    /// `default.replication.factor`
    default_replication_factor: i16 = number("default.replication.factor");
    /// `min.insync.replicas`, where a topic does not say otherwise.
    min_insync_replicas: i32 = number("min.insync.replicas");
    /// `replica.selector.class`
    replica_selector_class: Option<String> = text("replica.selector.class");
    /// `unclean.leader.election.enable`, where a topic does not say otherwise.
    unclean_leader_election_enable: bool = boolean("unclean.leader.election.enable");
    /// `replica.lag.time.max.ms`
    replica_lag_time_max_ms: u64 = number("replica.lag.time.max.ms");
    /// `replica.fetch.wait.max.ms`
    replica_fetch_wait_max_ms: i32 = number("replica.fetch.wait.max.ms");
    /// `replica.fetch.min.bytes`
    replica_fetch_min_bytes: i32 = number("replica.fetch.min.bytes");
    /// `replica.fetch.max.bytes`
    replica_fetch_max_bytes: i32 = number("replica.fetch.max.bytes");
    /// `replica.fetch.response.max.bytes`
    replica_fetch_response_max_bytes: i32 = number("replica.fetch.response.max.bytes");
    /// `replica.fetch.backoff.ms`
    replica_fetch_backoff_ms: u64 = number("replica.fetch.backoff.ms");
    /// `replica.socket.timeout.ms`
    replica_socket_timeout_ms: u64 = number("replica.socket.timeout.ms");
    /// `broker.heartbeat.interval.ms`
    broker_heartbeat_interval_ms: u64 = number("broker.heartbeat.interval.ms");
    /// `broker.session.timeout.ms`
    broker_session_timeout_ms: u64 = number("broker.session.timeout.ms");
    /// `replica.high.watermark.checkpoint.interval.ms`
    high_watermark_checkpoint_interval_ms: i64
        = number("replica.high.watermark.checkpoint.interval.ms");
    /// `producer.id.expiration.ms`
    producer_id_expiration_ms: i64 = number("producer.id.expiration.ms");
    /// `kafkalite.batch.validation`, where a topic does not say otherwise.
    batch_validation: BatchValidation = batch_validation();

    /// `num.recovery.threads.per.data.dir`
    recovery_threads: usize = number("num.recovery.threads.per.data.dir");
    /// `log.retention.check.interval.ms`
    log_retention_check_interval_ms: i64 = number("log.retention.check.interval.ms");
    /// `log.flush.scheduler.interval.ms`
    log_flush_scheduler_interval_ms: i64 = number("log.flush.scheduler.interval.ms");
    /// `log.flush.offset.checkpoint.interval.ms`
    recovery_point_checkpoint_interval_ms: i64 = number("log.flush.offset.checkpoint.interval.ms");
    /// `log.flush.start.offset.checkpoint.interval.ms`
    log_start_offset_checkpoint_interval_ms: i64
        = number("log.flush.start.offset.checkpoint.interval.ms");
    /// `log.cleaner.enable`
    log_cleaner_enable: bool = boolean("log.cleaner.enable");
    /// `log.cleaner.threads`
    log_cleaner_threads: usize = number("log.cleaner.threads");
    /// `log.cleaner.backoff.ms`
    log_cleaner_backoff_ms: i64 = number("log.cleaner.backoff.ms");
    /// `log.cleaner.dedupe.buffer.size`, in bytes.
    log_cleaner_dedupe_buffer_bytes: u64 = number("log.cleaner.dedupe.buffer.size");
    /// `kafkalite.replica.check.bytes.per.second`
    replica_check_bytes_per_second: u64 = number("kafkalite.replica.check.bytes.per.second");
    /// `kafkalite.open.segments.max`
    open_segments_max: usize = number("kafkalite.open.segments.max");

    /// `group.min.session.timeout.ms`
    group_min_session_timeout_ms: i32 = number("group.min.session.timeout.ms");
    /// `group.max.session.timeout.ms`
    group_max_session_timeout_ms: i32 = number("group.max.session.timeout.ms");
    /// `group.initial.rebalance.delay.ms`
    group_initial_rebalance_delay_ms: i32 = number("group.initial.rebalance.delay.ms");
    /// `group.max.size`
    group_max_size: usize = number("group.max.size");
    /// `kafkalite.group.memory.bytes`
    group_memory_bytes: usize = number("kafkalite.group.memory.bytes");
    /// `telemetry.max.bytes`
    telemetry_max_bytes: usize = number("telemetry.max.bytes");
    /// `offset.metadata.max.bytes`
    offset_metadata_max_bytes: usize = number("offset.metadata.max.bytes");
    /// `offsets.commit.timeout.ms`
    offsets_commit_timeout_ms: i32 = number("offsets.commit.timeout.ms");
    /// `offsets.load.buffer.size`, in bytes.
    offsets_load_buffer_bytes: usize = number("offsets.load.buffer.size");
    /// `offsets.retention.minutes`, in milliseconds.
    offsets_retention_ms: i64 = minutes("offsets.retention.minutes");
    /// `offsets.retention.check.interval.ms`
    offsets_retention_check_interval_ms: i64 = number("offsets.retention.check.interval.ms");
    /// `offsets.topic.num.partitions`
    offsets_topic_num_partitions: i32 = number("offsets.topic.num.partitions");
    /// `offsets.topic.replication.factor`
    offsets_topic_replication_factor: i16 = number("offsets.topic.replication.factor");
    /// `offsets.topic.compression.codec`, a codec's number.
    offsets_topic_codec: u8 = number("offsets.topic.compression.codec");
    /// `offsets.topic.segment.bytes`
    offsets_topic_segment_bytes: i32 = number("offsets.topic.segment.bytes");

    /// `leader.replication.throttled.rate`; `None` for no limit.
    leader_throttle_bytes: Option<u64> = altered("leader.replication.throttled.rate");
    /// `follower.replication.throttled.rate`; `None` for no limit.
    follower_throttle_bytes: Option<u64> = altered("follower.replication.throttled.rate");
    /// `replica.alter.log.dirs.io.max.bytes.per.second`; `None` for no limit.
    log_dirs_throttle_bytes: Option<u64> =
        altered("replica.alter.log.dirs.io.max.bytes.per.second");

    /// `kafkalite.disk.sync`
    disk_sync: bool = boolean("kafkalite.disk.sync");
    /// `kafkalite.recent.requests`
    recent_requests: usize = number("kafkalite.recent.requests");
    /// `kafkalite.test.control`
    test_control: bool = boolean("kafkalite.test.control");
    /// `kafkalite.console.write`
    console_write: bool = boolean("kafkalite.console.write");
    /// `kafkalite.admin.host`
    admin_host: String = required("kafkalite.admin.host");
    /// `kafkalite.admin.port`; `None` is off.
    admin_port: Option<u16> = bounded("kafkalite.admin.port");
    /// `kafkalite.admin.token`
    admin_token: Option<String> = text("kafkalite.admin.token");

}

impl Default for BrokerConfig {
    /// Nothing but the table's defaults.
    fn default() -> Self {
        Self::new(BrokerValues::default()).expect("the table's defaults are valid; a test says so")
    }
}

struct Reader<'a> {
    values: &'a BrokerValues,
}

impl Reader<'_> {
    fn value(&self, name: &str) -> Option<Value> {
        let key = broker_key(name).expect("names here stand in the table; a test reads them all");
        self.values.value(key)
    }

    /// A number that its key's validator keeps within `T`, or the nearest one `T` has.
    fn number<T: Clamped>(&self, name: &str) -> T {
        match self.value(name) {
            Some(Value::Number(number)) => T::clamped(number),
            other => panic!("{name} is a number in the table, not {other:?}"),
        }
    }

    /// A number that -1 (or less) switches off.
    fn bounded<T: Clamped>(&self, name: &str) -> Option<T> {
        let number: i64 = self.number(name);
        (number >= 0).then(|| T::clamped(number))
    }

    /// A number that can only be altered at run time, if it was.
    fn altered(&self, name: &str) -> Option<u64> {
        let (_, settings) = self.values.kept().find(|(key, _)| *key == name)?;
        settings.last()?.value.trim().parse().ok()
    }

    fn boolean(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Boolean(true)))
    }

    fn minutes(&self, name: &str) -> i64 {
        self.number::<i64>(name).saturating_mul(60_000)
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.value(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn required(&self, name: &str) -> String {
        self.text(name).unwrap_or_default()
    }

    fn list(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            Some(Value::List(list)) => list,
            _ => Vec::new(),
        }
    }

    fn node_id(&self) -> i32 {
        self.bounded("broker.id").unwrap_or_else(|| self.number("node.id"))
    }

    fn data_dirs(&self) -> Vec<PathBuf> {
        let mut dirs = self.list("log.dirs");
        if dirs.is_empty() {
            dirs = self.list("log.dir");
        }
        dirs.into_iter().map(PathBuf::from).collect()
    }

    fn request_inline(&self) -> RequestInline {
        match self.text("kafkalite.request.inline").as_deref() {
            Some("never") => RequestInline::Never,
            Some("always") => RequestInline::Always,
            _ => RequestInline::Auto,
        }
    }

    fn batch_validation(&self) -> BatchValidation {
        match self.text("kafkalite.batch.validation").as_deref() {
            Some("relaxed") => BatchValidation::Relaxed,
            _ => BatchValidation::Strict,
        }
    }

    fn listeners(&self) -> Result<(Vec<ListenerConfig>, Vec<AdvertisedListener>), ConfigError> {
        let controllers = self.list("controller.listener.names");
        let ours = |listener: &ListenerConfig| {
            !controllers.iter().any(|name| name.eq_ignore_ascii_case(&listener.name))
        };
        let mut listeners = self.parse_listeners("listeners")?;
        listeners.retain(ours);
        let mut advertised = self.parse_listeners("advertised.listeners")?;
        advertised.retain(ours);
        if listeners.is_empty() {
            return Err(self.invalid("listeners", "No listener is left for clients"));
        }
        let named = |name: &str| listeners.iter().any(|listener| listener.name == name);
        if let Some(stray) = advertised.iter().find(|listener| !named(&listener.name)) {
            let why = format!("{} is not the name of a listener", stray.name);
            return Err(self.invalid("advertised.listeners", &why));
        }
        if let Some(nowhere) = advertised.iter().find(|listener| listener.is_unspecified()) {
            let why = match nowhere.host.as_str() {
                "" => "A host is needed that clients can connect to".to_owned(),
                host => format!(
                    "advertised.listeners cannot use the nonroutable meta-address {host}. Use a \
                     routable IP address."
                ),
            };
            return Err(self.invalid("advertised.listeners", &why));
        }
        if let Some(name) = self.text("inter.broker.listener.name")
            && !named(&name.to_ascii_uppercase())
        {
            let why = format!("{name} is not the name of a listener");
            return Err(self.invalid("inter.broker.listener.name", &why));
        }
        self.check_protocols(&listeners)?;
        Ok((listeners, advertised))
    }

    fn parse_listeners(&self, name: &str) -> Result<Vec<ListenerConfig>, ConfigError> {
        let texts = self.list(name);
        let mut listeners: Vec<ListenerConfig> = Vec::with_capacity(texts.len());
        for text in texts {
            let listener = parse_listener(&text).map_err(|why| self.invalid(name, &why))?;
            if listeners.iter().any(|other| other.name == listener.name) {
                return Err(self.invalid(name, "Each listener must have a different name"));
            }
            listeners.push(listener);
        }
        Ok(listeners)
    }

    /// Every listener must speak plain text: the others would silently be served without login.
    fn check_protocols(&self, listeners: &[ListenerConfig]) -> Result<(), ConfigError> {
        let map = self.text("listener.security.protocol.map").unwrap_or_default();
        for listener in listeners {
            let mapped = super::list(&map).into_iter().find_map(|pair| {
                let (name, protocol) = pair.split_once(':')?;
                name.eq_ignore_ascii_case(&listener.name).then(|| protocol.to_ascii_uppercase())
            });
            let protocol = mapped.unwrap_or_else(|| listener.name.clone());
            if protocol != "PLAINTEXT" {
                let name = &listener.name;
                let why = format!("listener {name} has {protocol}, only PLAINTEXT is served");
                return Err(self.invalid("listeners", &why));
            }
        }
        Ok(())
    }

    fn invalid(&self, name: &str, why: &str) -> ConfigError {
        let setting = self.values.settings(name).last();
        let value = setting.map(|setting| setting.value.as_str()).unwrap_or_default();
        ConfigError::InvalidValue {
            message: format!("Invalid value {value} for configuration {name}: {why}"),
            origin: setting.map_or_else(|| "default".to_owned(), |setting| setting.origin.clone()),
        }
    }
}

/// Integers that take the nearest of their values to an `i64`.
trait Clamped: Sized {
    fn clamped(number: i64) -> Self;
}

macro_rules! clamped {
    ($($integer:ty),*) => {$(
        impl Clamped for $integer {
            fn clamped(number: i64) -> Self {
                let nearest = if number < 0 { Self::MIN } else { Self::MAX };
                Self::try_from(number).unwrap_or(nearest)
            }
        }
    )*};
}
clamped!(i16, i32, i64, u8, u16, u64, usize);
