//! What every room stands on, and how the rooms are put together.

use super::directories::Directories;
use super::following::{
    fetchers, follow_images, note_directories, propose_in_sync, start_fetchers, tell_when_offline,
    topic_settings,
};
use super::{StartError, system};
use crate::client_metrics::ClientMetrics;
use crate::clock::Clock;
use crate::cold_reads::{self, ColdReads};
use crate::config::BrokerConfig;
use crate::coordinator::classic::GroupsConfig;
use crate::coordinator::{
    ExecuteLoad, GroupCoordinator, GroupCoordinatorConfig, GroupCoordinatorParts, Load,
    LoaderThread, OffsetsPartitions,
};
use crate::fetch_sessions::FetchSessions;
use crate::handlers::{Rooms, init_producer_id::ProducerIds};
use crate::metrics::Metrics;
use crate::partitions::{ReplicaManager, ReplicaManagerConfig};
use crate::purgatory::{Purgatory, Timer};
use crate::request_queue::RequestQueue;
use arc_swap::ArcSwap;
use kafkalite_connection::CutLinks;
use kafkalite_protocol::compression::Codec;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// What the configuration says about groups.
fn group_config(config: &BrokerConfig) -> GroupCoordinatorConfig {
    GroupCoordinatorConfig {
        min_session_timeout_ms: config.group_min_session_timeout_ms,
        max_session_timeout_ms: config.group_max_session_timeout_ms,
        offsets_retention_check_interval_ms: config.offsets_retention_check_interval_ms,
        // At least 1: with 0 every commit would be late at once.
        commit_timeout_ms: u64::try_from(config.offsets_commit_timeout_ms).unwrap_or(0).max(1),
        codec: Codec::from_id(config.offsets_topic_codec).unwrap_or(Codec::None),
        groups: GroupsConfig {
            initial_rebalance_delay_ms: config.group_initial_rebalance_delay_ms,
            max_size: i32::try_from(config.group_max_size).unwrap_or(i32::MAX),
            offset_metadata_max_bytes: config.offset_metadata_max_bytes,
            offsets_retention_ms: config.offsets_retention_ms,
            memory_bytes: config.group_memory_bytes,
        },
    }
}

/// Starts the group coordinator: its groups are loaded by `execute`, and until then it says so to
/// its clients.
fn start_groups(
    config: &BrokerConfig,
    timer: &Arc<Timer>,
    topic: OffsetsPartitions,
    execute: ExecuteLoad,
) -> Arc<GroupCoordinator> {
    let (controller, partitions) = (topic.controller.clone(), topic.partitions.clone());
    let parts = GroupCoordinatorParts {
        clock: topic.clock.clone(),
        timer: timer.clone(),
        topic: Arc::new(topic),
        execute,
    };
    let groups = Arc::new(GroupCoordinator::new(group_config(config), parts));
    groups.start_expiry();
    // Weak: the controller and the partitions keep these closures, and the groups keep both.
    let told = Arc::downgrade(&groups);
    controller.watch(Box::new(move |before, after| {
        if let Some(groups) = told.upgrade() {
            groups.follow_image(before, after);
        }
    }));
    let told = Arc::downgrade(&groups);
    partitions.on_opened(move || {
        if let Some(groups) = told.upgrade() {
            groups.follow();
        }
    });
    groups
}

/// Loads of coordinators that wait for a caller.
pub(super) type Loads = Arc<Mutex<VecDeque<Load>>>;

/// Who runs what no request runs.
pub(super) enum Threads {
    /// Threads of the rooms.
    Own,
    /// A caller, step by step. Loads wait here.
    Stepped(Loads),
}

impl Threads {
    /// How many may open logs at most.
    fn most_for_logs(&self) -> usize {
        if matches!(self, Self::Own) { usize::MAX } else { 1 }
    }

    fn loads(&self) -> ExecuteLoad {
        match self {
            Self::Own => {
                let loader = LoaderThread::default();
                Box::new(move |load| loader.execute(load))
            }
            Self::Stepped(loads) => {
                let loads = Arc::clone(loads);
                Box::new(move |load| {
                    loads.lock().push_back(load);
                    Ok(())
                })
            }
        }
    }
}

/// What every room stands on.
pub(super) struct Foundation<'a> {
    pub(super) config: &'a BrokerConfig,
    pub(super) clock: &'a Arc<dyn Clock>,
    pub(super) metrics: &'a Arc<Metrics>,
    pub(super) timer: &'a Arc<Timer>,
    pub(super) queue: &'a Arc<RequestQueue>,
    pub(super) links: Option<Arc<CutLinks>>,
    pub(super) threads: Threads,
}

impl Foundation<'_> {
    /// Opens the logs, begins to load the groups, and puts the rooms together.
    pub(super) fn rooms(&self, directories: Directories) -> Result<Rooms, StartError> {
        let &Self { config, clock, metrics, timer, queue, ref links, ref threads } = self;
        let Directories { cluster, log_dirs, .. } = directories;
        let controller = cluster.controller().clone();
        let fetches = Arc::new(Purgatory::new("Fetch", timer.clone(), metrics));
        let produces = Arc::new(Purgatory::new("Produce", timer.clone(), metrics));
        let swapped = Arc::new(ArcSwap::from_pointee(config.clone()));
        let partitions_config = ReplicaManagerConfig {
            local_id: config.node_id,
            clock: clock.clone(),
            settings: topic_settings(swapped.clone()),
            fetches: fetches.clone(),
            produces: produces.clone(),
            recovery_threads: config.recovery_threads,
            max_threads: threads.most_for_logs(),
            max_lag_ms: config.replica_lag_time_max_ms,
            removed_topics: controller.take_removed_topics(),
        };
        let partitions = Arc::new(ReplicaManager::new(partitions_config, log_dirs));
        tell_when_offline(&controller, &partitions, timer, config.node_id);
        note_directories(&controller, &partitions, config.node_id);
        propose_in_sync(&controller, &partitions, config.node_id);
        follow_images(&controller, &partitions, &swapped);
        let fetchers = fetchers(config, &partitions, clock, links.clone());
        if matches!(threads, Threads::Own) {
            start_fetchers(&controller, &fetchers);
        }
        let topic = OffsetsPartitions {
            local_id: config.node_id,
            partitions: partitions.clone(),
            controller: controller.clone(),
            produces: produces.clone(),
            clock: clock.clone(),
            load_buffer_bytes: u32::try_from(config.offsets_load_buffer_bytes).unwrap_or(u32::MAX),
        };
        let groups = start_groups(config, timer, topic, threads.loads());
        let cold_reads = self.cold_reads()?;
        // The last that can fail: from here on the rooms end this thread.
        if matches!(threads, Threads::Own) {
            let flushed = partitions.clone();
            let flush = move |key| flushed.flush(key);
            partitions.committer().start(flush).map_err(system("group commit"))?;
        }
        Ok(Rooms {
            config: swapped,
            groups,
            clock: clock.clone(),
            metrics: metrics.clone(),
            controller,
            cluster,
            partitions,
            fetchers,
            client_metrics: ClientMetrics::new(clock.clone(), metrics),
            requests: Arc::clone(queue),
            parked: queue.parked().clone(),
            changes: Arc::new(Purgatory::new("Metadata", timer.clone(), metrics)),
            fetches,
            produces,
            cold_reads: Arc::new(cold_reads),
            sessions: FetchSessions::new(config.fetch_session_cache_slots, metrics),
            looked_at: metrics.counter(
                "kafkalite_fetch_partitions",
                "Partitions that fetches looked at.",
                vec![],
            ),
            producer_ids: ProducerIds::new(config.node_id),
        })
    }

    fn cold_reads(&self) -> Result<ColdReads, StartError> {
        let &Self { config, clock, metrics, ref threads, .. } = self;
        let limits = cold_reads::Limits {
            threads: config.cold_read_threads,
            turn_bytes: config.cold_read_max_bytes,
            bytes_per_second: config.cold_read_max_bytes_per_second,
        };
        let (clock, metrics) = (clock.clone(), metrics.clone());
        match threads {
            Threads::Own => {
                let is_resident = Arc::new(kafkalite_log::residency::is_resident);
                ColdReads::start(limits, is_resident, clock, metrics)
                    .map_err(system("the cold-read threads"))
            }
            // What is resident needs no thread.
            Threads::Stepped(_) => {
                Ok(ColdReads::without_threads(limits, Arc::new(|_| true), clock, metrics))
            }
        }
    }
}
