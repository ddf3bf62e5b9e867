//! What the configuration says about the chores of the log manager.

use crate::config::BrokerConfig;
use crate::partitions::Maintenance;

/// What one key takes in the cleaner's map.
const KEY_BYTES: u64 = 40;

pub(super) fn maintenance(config: &BrokerConfig) -> Maintenance {
    let interval = |ms: i64| u64::try_from(ms).unwrap_or(u64::MAX).max(1);
    Maintenance {
        retention_ms: interval(config.log_retention_check_interval_ms),
        cleaner_ms: interval(config.log_cleaner_backoff_ms),
        cleaner_enabled: config.log_cleaner_enable,
        cleaner_threads: config.log_cleaner_threads,
        cleaner_max_keys: usize::try_from(config.log_cleaner_dedupe_buffer_bytes / KEY_BYTES)
            .unwrap_or(usize::MAX),
        flush_ms: interval(config.log_flush_scheduler_interval_ms),
        recovery_points_ms: interval(config.recovery_point_checkpoint_interval_ms),
        log_starts_ms: interval(config.log_start_offset_checkpoint_interval_ms),
        high_watermarks_ms: interval(config.high_watermark_checkpoint_interval_ms),
    }
}
