//! The page `clients`.

use std::collections::BTreeMap;

use super::{Bounded, Figures, page};
use crate::metrics::{Column, Table};

const CLIENTS: &[Column] = &[
    Column::gauge(
        "kafkalite_client_metric_sum",
        "The sum of a metric that clients push, over all clients and labels. Of counters: what \
         was counted while this broker received them.",
    ),
    Column::gauge("kafkalite_client_metric_max", "The greatest value of the metric."),
    Column::gauge("kafkalite_client_metric_series", "Clients and labels that report the metric."),
];

/// The series of one metric together.
#[derive(Default)]
struct Together {
    sum: f64,
    max: Option<f64>,
    series: u64,
}

impl Figures {
    /// What clients report, by metric. Clients and labels are added up, so the page stays small
    /// with many clients: each client pushes the same metrics. Values that are not finite count
    /// for nothing.
    pub(super) fn clients(&self) -> Vec<Table> {
        let reports = self.client_metrics.reports();
        let mut metrics: BTreeMap<&str, Together> = BTreeMap::new();
        for series in reports.iter().flat_map(|report| &report.series) {
            let value = series.current().as_f64();
            if value.is_finite() {
                let all = metrics.entry(&series.point.metric).or_default();
                all.sum += value;
                all.max = Some(all.max.map_or(value, |max| max.max(value)));
                all.series += 1;
            }
        }
        let mut table = Bounded::new(CLIENTS);
        for (metric, all) in metrics {
            table.push(|| {
                let values = vec![all.sum, all.max.unwrap_or(f64::NAN), all.series as f64];
                (vec![("metric", metric.to_owned())], values)
            });
        }
        page([table])
    }
}
