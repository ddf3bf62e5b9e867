//! The page `groups`.

use super::{Bounded, Figures, page};
use crate::metrics::{Column, Labels, Table};

/// The version of DescribeGroups whose answer is read here.
const DESCRIBE_VERSION: i16 = 5;

const GROUPS: &[Column] = &[
    Column::gauge("kafka_consumergroup_members", "Members of the group."),
    Column::gauge(
        "kafka_consumergroup_lag_sum",
        "Records that the group has not committed yet, in all partitions on this broker.",
    ),
    Column::gauge(
        "kafka_consumergroup_max_lag_seconds",
        "The largest lag in seconds of the partitions on this broker.",
    ),
];

const OFFSETS: &[Column] = &[
    Column::gauge("kafka_consumergroup_current_offset", "The offset that the group committed."),
    Column::gauge(
        "kafka_consumergroup_lag",
        "Records between the committed offset and the high watermark.",
    ),
    Column::gauge(
        "kafka_consumergroup_lag_seconds",
        "Age of the oldest batch that the group has not committed to its end; NaN: unknown.",
    ),
];

impl Figures {
    /// Members and lag of each group, by name. Groups that are still loading are not shown;
    /// partitions that are not on this broker are not, either. Reads the header of a batch for each
    /// partition with a lag.
    pub(super) fn groups(&self) -> Vec<Table> {
        let now_ms = self.clock.wall_ms();
        let (_, listed) = self.groups.list(&[], &[]);
        let (mut groups, mut offsets) = (Bounded::new(GROUPS), Bounded::new(OFFSETS));
        for listed in listed {
            let group = ("consumergroup", listed.group_id);
            let members = self.groups.describe(&group.1, DESCRIBE_VERSION).members.len();
            let (mut total_lag, mut max_seconds) = (0, 0.0_f64);
            for (topic, partitions) in self.groups.fetch(&group.1, None).unwrap_or_default() {
                for (index, committed) in partitions {
                    let Ok(partition) = self.partitions.find_by_name(&topic, index) else {
                        continue;
                    };
                    let lag = partition.lag_records(committed.offset);
                    // A batch is read only for a row that is shown.
                    let seconds = match offsets.has_room() {
                        true => partition.lag_seconds(committed.offset, now_ms),
                        false => None,
                    };
                    total_lag += lag;
                    max_seconds = max_seconds.max(seconds.unwrap_or(0.0));
                    offsets.push(|| {
                        let labels = Labels::from([
                            group.clone(),
                            ("topic", topic.clone()),
                            ("partition", index.to_string()),
                        ]);
                        let seconds = seconds.unwrap_or(f64::NAN);
                        (labels, vec![committed.offset as f64, lag as f64, seconds])
                    });
                }
            }
            groups.push(|| (vec![group], vec![members as f64, total_lag as f64, max_seconds]));
        }
        page([groups, offsets])
    }
}
