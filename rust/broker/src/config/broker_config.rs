//! The broker's configuration as plain fields, read once from what was said about the keys.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::broker_key;
use super::error::ConfigError;
use super::listeners::{AdvertisedListener, ListenerConfig, parse_listener};
use super::value::Value;
use super::values::{BrokerValues, ConfigSource};

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

/// The broker's configuration. Fields are named as their keys, dots turned to underscores; a field
/// whose key has no unit in its name and needs one carries it at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct BrokerConfig {
    /// `node.id`, or `broker.id` where that is set.
    pub node_id: i32,
    /// `broker.rack`
    pub broker_rack: Option<String>,
    /// `listeners` without those of `controller.listener.names`; never empty.
    pub listeners: Vec<ListenerConfig>,
    /// `advertised.listeners` without those of `controller.listener.names`. A listener that is not
    /// named here advertises the local address of the socket a client came in on.
    pub advertised_listeners: Vec<AdvertisedListener>,
    /// The first of `log.dirs`, or `log.dir`.
    pub data_dir: PathBuf,
    /// `kafkalite.cluster.id`, for a data directory that is new.
    pub cluster_id: Option<String>,

    /// `num.network.threads`
    pub num_network_threads: usize,
    /// `num.io.threads`
    pub num_io_threads: usize,
    /// `queued.max.requests`
    pub queued_max_requests: usize,
    /// `queued.max.request.bytes`; `None` for no bound.
    pub queued_max_request_bytes: Option<usize>,
    /// `socket.send.buffer.bytes`; `None` leaves it to the kernel.
    pub socket_send_buffer_bytes: Option<usize>,
    /// `socket.receive.buffer.bytes`; `None` leaves it to the kernel.
    pub socket_receive_buffer_bytes: Option<usize>,
    /// `socket.request.max.bytes`
    pub socket_request_max_bytes: usize,
    /// `socket.listen.backlog.size`
    pub socket_listen_backlog_size: i32,
    /// `max.connections`
    pub max_connections: usize,
    /// `max.connections.per.ip`
    pub max_connections_per_ip: usize,
    /// `connections.max.idle.ms`; `None` for never.
    pub connections_max_idle_ms: Option<u64>,
    /// `kafkalite.request.inline`
    pub request_inline: RequestInline,
    /// `kafkalite.request.inline.max.bytes`
    pub request_inline_max_bytes: usize,
    /// `kafkalite.memory.budget.bytes`
    pub memory_budget_bytes: usize,
    /// `kafkalite.frame.deadline.ms`
    pub frame_deadline_ms: u64,
    /// `kafkalite.frame.min.bytes.per.second`
    pub frame_min_bytes_per_second: u64,
    /// `kafkalite.stop.timeout.ms`
    pub stop_timeout_ms: u64,

    /// `fetch.max.bytes`
    pub fetch_max_bytes: i32,
    /// `max.incremental.fetch.session.cache.slots`
    pub fetch_session_cache_slots: usize,
    /// `kafkalite.fetch.sendfile.min.bytes`
    pub fetch_sendfile_min_bytes: usize,
    /// `kafkalite.cold.read.threads`
    pub cold_read_threads: usize,
    /// `kafkalite.cold.read.max.bytes`
    pub cold_read_max_bytes: u64,
    /// `max.request.partition.size.limit`
    pub max_request_partition_size_limit: i32,

    /// `auto.create.topics.enable`
    pub auto_create_topics_enable: bool,
    /// `delete.topic.enable`
    pub delete_topic_enable: bool,
    /// `num.partitions`
    pub num_partitions: i32,
    /// `default.replication.factor`
    pub default_replication_factor: i16,
    /// `min.insync.replicas`, where a topic does not say otherwise.
    pub min_insync_replicas: i32,
    /// `replica.lag.time.max.ms`
    pub replica_lag_time_max_ms: i64,
    /// `replica.high.watermark.checkpoint.interval.ms`
    pub high_watermark_checkpoint_interval_ms: i64,
    /// `producer.id.expiration.ms`
    pub producer_id_expiration_ms: i64,
    /// `transaction.max.timeout.ms`
    pub transaction_max_timeout_ms: i32,
    /// `kafkalite.batch.validation`, where a topic does not say otherwise.
    pub batch_validation: BatchValidation,

    /// `num.recovery.threads.per.data.dir`
    pub recovery_threads: usize,
    /// `log.retention.check.interval.ms`
    pub log_retention_check_interval_ms: i64,
    /// `log.flush.scheduler.interval.ms`
    pub log_flush_scheduler_interval_ms: i64,
    /// `log.flush.offset.checkpoint.interval.ms`
    pub recovery_point_checkpoint_interval_ms: i64,
    /// `log.flush.start.offset.checkpoint.interval.ms`
    pub log_start_offset_checkpoint_interval_ms: i64,
    /// `log.cleaner.enable`
    pub log_cleaner_enable: bool,
    /// `log.cleaner.threads`
    pub log_cleaner_threads: usize,
    /// `log.cleaner.backoff.ms`
    pub log_cleaner_backoff_ms: i64,
    /// `log.cleaner.dedupe.buffer.size`, in bytes.
    pub log_cleaner_dedupe_buffer_bytes: u64,
    /// `kafkalite.open.segments.max`
    pub open_segments_max: usize,

    /// `group.min.session.timeout.ms`
    pub group_min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`
    pub group_max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`
    pub group_initial_rebalance_delay_ms: i32,
    /// `group.max.size`
    pub group_max_size: usize,
    /// `offset.metadata.max.bytes`
    pub offset_metadata_max_bytes: usize,
    /// `offsets.commit.timeout.ms`
    pub offsets_commit_timeout_ms: i32,
    /// `offsets.load.buffer.size`, in bytes.
    pub offsets_load_buffer_bytes: usize,
    /// `offsets.retention.minutes`, in milliseconds.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`
    pub offsets_retention_check_interval_ms: i64,
    /// `offsets.topic.num.partitions`
    pub offsets_topic_num_partitions: i32,
    /// `offsets.topic.replication.factor`
    pub offsets_topic_replication_factor: i16,
    /// `offsets.topic.segment.bytes`
    pub offsets_topic_segment_bytes: i32,

    /// `kafkalite.admin.host`
    pub admin_host: String,
    /// `kafkalite.admin.port`; `None` is off.
    pub admin_port: Option<u16>,

    /// What was said about every key, for DescribeConfigs and for the topics' defaults.
    pub values: BrokerValues,
}

impl BrokerConfig {
    /// The configuration that `values` amount to.
    ///
    /// # Errors
    /// A listener that cannot be read, or keys that contradict each other.
    pub fn new(values: BrokerValues) -> Result<Self, ConfigError> {
        let read = Reader { values: &values };
        let (listeners, advertised_listeners) = read.listeners()?;
        Ok(Self {
            node_id: read.node_id(),
            broker_rack: read.text("broker.rack"),
            listeners,
            advertised_listeners,
            data_dir: read.data_dir(),
            cluster_id: read.text("kafkalite.cluster.id"),

            num_network_threads: read.number("num.network.threads"),
            num_io_threads: read.number("num.io.threads"),
            queued_max_requests: read.number("queued.max.requests"),
            queued_max_request_bytes: read.bounded("queued.max.request.bytes"),
            socket_send_buffer_bytes: read.bounded("socket.send.buffer.bytes"),
            socket_receive_buffer_bytes: read.bounded("socket.receive.buffer.bytes"),
            socket_request_max_bytes: read.number("socket.request.max.bytes"),
            socket_listen_backlog_size: read.number("socket.listen.backlog.size"),
            max_connections: read.number("max.connections"),
            max_connections_per_ip: read.number("max.connections.per.ip"),
            connections_max_idle_ms: read.bounded("connections.max.idle.ms"),
            request_inline: read.request_inline(),
            request_inline_max_bytes: read.number("kafkalite.request.inline.max.bytes"),
            memory_budget_bytes: read.number("kafkalite.memory.budget.bytes"),
            frame_deadline_ms: read.number("kafkalite.frame.deadline.ms"),
            frame_min_bytes_per_second: read.number("kafkalite.frame.min.bytes.per.second"),
            stop_timeout_ms: read.number("kafkalite.stop.timeout.ms"),

            fetch_max_bytes: read.number("fetch.max.bytes"),
            fetch_session_cache_slots: read.number("max.incremental.fetch.session.cache.slots"),
            fetch_sendfile_min_bytes: read.number("kafkalite.fetch.sendfile.min.bytes"),
            cold_read_threads: read.number("kafkalite.cold.read.threads"),
            cold_read_max_bytes: read.number("kafkalite.cold.read.max.bytes"),
            max_request_partition_size_limit: read.number("max.request.partition.size.limit"),

            auto_create_topics_enable: read.boolean("auto.create.topics.enable"),
            delete_topic_enable: read.boolean("delete.topic.enable"),
            num_partitions: read.number("num.partitions"),
            default_replication_factor: read.number("default.replication.factor"),
            min_insync_replicas: read.number("min.insync.replicas"),
            replica_lag_time_max_ms: read.number("replica.lag.time.max.ms"),
            high_watermark_checkpoint_interval_ms: read
                .number("replica.high.watermark.checkpoint.interval.ms"),
            producer_id_expiration_ms: read.number("producer.id.expiration.ms"),
            transaction_max_timeout_ms: read.number("transaction.max.timeout.ms"),
            batch_validation: read.batch_validation(),

            recovery_threads: read.number("num.recovery.threads.per.data.dir"),
            log_retention_check_interval_ms: read.number("log.retention.check.interval.ms"),
            log_flush_scheduler_interval_ms: read.number("log.flush.scheduler.interval.ms"),
            recovery_point_checkpoint_interval_ms: read
                .number("log.flush.offset.checkpoint.interval.ms"),
            log_start_offset_checkpoint_interval_ms: read
                .number("log.flush.start.offset.checkpoint.interval.ms"),
            log_cleaner_enable: read.boolean("log.cleaner.enable"),
            log_cleaner_threads: read.number("log.cleaner.threads"),
            log_cleaner_backoff_ms: read.number("log.cleaner.backoff.ms"),
            log_cleaner_dedupe_buffer_bytes: read.number("log.cleaner.dedupe.buffer.size"),
            open_segments_max: read.number("kafkalite.open.segments.max"),

            group_min_session_timeout_ms: read.number("group.min.session.timeout.ms"),
            group_max_session_timeout_ms: read.number("group.max.session.timeout.ms"),
            group_initial_rebalance_delay_ms: read.number("group.initial.rebalance.delay.ms"),
            group_max_size: read.number("group.max.size"),
            offset_metadata_max_bytes: read.number("offset.metadata.max.bytes"),
            offsets_commit_timeout_ms: read.number("offsets.commit.timeout.ms"),
            offsets_load_buffer_bytes: read.number("offsets.load.buffer.size"),
            offsets_retention_ms: read.number::<i64>("offsets.retention.minutes") * 60_000,
            offsets_retention_check_interval_ms: read.number("offsets.retention.check.interval.ms"),
            offsets_topic_num_partitions: read.number("offsets.topic.num.partitions"),
            offsets_topic_replication_factor: read.number("offsets.topic.replication.factor"),
            offsets_topic_segment_bytes: read.number("offsets.topic.segment.bytes"),

            admin_host: read.text("kafkalite.admin.host").unwrap_or_default(),
            admin_port: read.bounded("kafkalite.admin.port"),

            values,
        })
    }

    /// The same configuration with what was altered at run time, which takes the place of every
    /// earlier alteration. `for_all` holds for all brokers, `for_this` is stronger.
    ///
    /// # Errors
    /// A key that may not be altered is unknown here only if the table lost it since it was altered.
    pub fn with_dynamic(
        &self,
        for_all: &BTreeMap<String, String>,
        for_this: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigError> {
        let mut values = self.values.clone().without_dynamic();
        for (key, value) in for_all {
            values.set(
                key,
                value,
                ConfigSource::DynamicDefaultBroker,
                "altered for all brokers",
            )?;
        }
        for (key, value) in for_this {
            values.set(key, value, ConfigSource::DynamicBroker, "altered for this broker")?;
        }
        Self::new(values)
    }
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

    fn boolean(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Boolean(true)))
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.value(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
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

    fn data_dir(&self) -> PathBuf {
        let dirs = self.list("log.dirs").into_iter().chain(self.list("log.dir"));
        dirs.map(PathBuf::from).next().unwrap_or_default()
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
                let why = format!("The protocol {protocol} of {} is not served", listener.name);
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
clamped!(i16, i32, i64, u16, u64, usize);
