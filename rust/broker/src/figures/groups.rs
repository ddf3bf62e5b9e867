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
];

const OFFSETS: &[Column] = &[
    Column::gauge("kafka_consumergroup_current_offset", "The offset that the group committed."),
    Column::gauge(
        "kafka_consumergroup_lag",
        "Records between the committed offset and the high watermark.",
    ),
];

impl Figures {
    /// Members and lag of each group, by name. Groups that are still loading are not shown;
    /// partitions that are not on this broker are not, either.
    pub(super) fn groups(&self) -> Vec<Table> {
        let (_, listed) = self.groups.list(&[], &[]);
        let (mut groups, mut offsets) = (Bounded::new(GROUPS), Bounded::new(OFFSETS));
        for listed in listed {
            let group = ("consumergroup", listed.group_id);
            let members = self.groups.describe(&group.1, DESCRIBE_VERSION).members.len();
            let mut total_lag = 0;
            for (topic, partitions) in self.groups.fetch(&group.1, None).unwrap_or_default() {
                for (index, committed) in partitions {
                    let Ok(partition) = self.partitions.find_by_name(&topic, index) else {
                        continue;
                    };
                    let lag = (partition.high_watermark().0 - committed.offset).max(0);
                    total_lag += lag;
                    offsets.push(|| {
                        let labels = Labels::from([
                            group.clone(),
                            ("topic", topic.clone()),
                            ("partition", index.to_string()),
                        ]);
                        (labels, vec![committed.offset as f64, lag as f64])
                    });
                }
            }
            groups.push(|| (vec![group], vec![members as f64, total_lag as f64]));
        }
        page([groups, offsets])
    }
}
