//! What is counted, as text: our own names, and Kafka's as jmx-exporter spells them.
//!
//! ```text
//! kafkalite_stage_duration_seconds{stage,api}                 a histogram of each stage
//! kafka_network_requestmetrics_totaltimems{request,quantile}  and the other *TimeMs of Kafka
//! kafka_network_requestmetrics_totaltimems_count{request}
//! kafka_network_requestchannel_requestqueuesize               queue depths, purgatory sizes
//! kafkalite_zero_copy_share                                   of the bytes sent, by sendfile
//! process_cpu_seconds_total                                   and Prometheus's other process_*
//! ```
//! Topics, partitions and groups have pages of their own, since there may be many.
//! Source: Kafka's `RequestMetrics`, `RequestChannel`, `DelayedOperationPurgatory`; the spelling is
//! that of the rules jmx-exporter publishes for Kafka, in lower case.

use std::collections::BTreeMap;
use std::fmt::Error;

use super::api_name;
use super::process_figures;
use super::text::{Format, Text, label_set};
use crate::metrics::{HistogramSnapshot, Labels, Metrics, Stage, Value};

/// Everything counted so far.
///
/// # Errors
/// None that can happen: writing to a string does not fail.
pub fn text(metrics: &Metrics, format: Format) -> Result<String, Error> {
    let mut text = Text::new(format);
    let mut stages = Vec::new();
    metrics.for_each_stage(|api_key, stage, snapshot| {
        stages.push((api_name(api_key), stage, snapshot.clone()));
    });
    stage_histograms(&mut text, &stages)?;
    request_times(&mut text, &stages)?;
    scalars(&mut text, metrics)?;
    for table in process_figures::tables() {
        text.table(&table)?;
    }
    Ok(text.end())
}

/// The tables of one page.
///
/// # Errors
/// As [`text`].
pub fn page(metrics: &Metrics, name: &str, format: Format) -> Result<String, Error> {
    let mut text = Text::new(format);
    for table in metrics.tables(name) {
        text.table(&table)?;
    }
    Ok(text.end())
}

type Stages = [(String, Stage, HistogramSnapshot)];

fn stage_histograms(text: &mut Text, stages: &Stages) -> Result<(), Error> {
    let name = "kafkalite_stage_duration_seconds";
    text.family(name, "histogram", "How long requests spend in each stage.")?;
    let (bucket, count, sum) =
        (format!("{name}_bucket"), format!("{name}_count"), format!("{name}_sum"));
    for (api, stage, snapshot) in stages {
        let labels = format!("stage=\"{}\",api=\"{api}\"", stage.name());
        let mut below = 0;
        for (i, count) in snapshot.buckets.iter().enumerate() {
            below += count;
            // Bounds below a microsecond and above a minute say little.
            let Some(bound_ns) = HistogramSnapshot::upper_bound_ns(i) else { continue };
            if (1 << 10..=1 << 36).contains(&bound_ns) && i % 2 == 0 {
                let bound = seconds(bound_ns);
                text.sample(&bucket, &format!("{{{labels},le=\"{bound}\"}}"), below)?;
            }
        }
        text.sample(&bucket, &format!("{{{labels},le=\"+Inf\"}}"), snapshot.count)?;
        text.sample(&count, &format!("{{{labels}}}"), snapshot.count)?;
        text.sample(&sum, &format!("{{{labels}}}"), seconds(snapshot.sum_ns))?;
    }
    Ok(())
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Kafka's name of a stage; those that only we have, have none.
fn kafka_name(stage: Stage) -> Option<&'static str> {
    match stage {
        Stage::RequestQueue => Some("requestqueuetimems"),
        Stage::Local => Some("localtimems"),
        Stage::Remote => Some("remotetimems"),
        Stage::ResponseQueue => Some("responsequeuetimems"),
        Stage::ResponseSend => Some("responsesendtimems"),
        Stage::Total => Some("totaltimems"),
        Stage::Network | Stage::Append | Stage::ColdRead => None,
    }
}

fn request_times(text: &mut Text, stages: &Stages) -> Result<(), Error> {
    for stage in Stage::ALL {
        let Some(kafka) = kafka_name(stage) else { continue };
        let name = format!("kafka_network_requestmetrics_{kafka}");
        text.family(&name, "gauge", "Milliseconds, as Kafka's request metrics tell them.")?;
        for (api, _, snapshot) in stages.iter().filter(|(_, of, _)| *of == stage) {
            for quantile in [0.5, 0.75, 0.95, 0.98, 0.99, 0.999] {
                let ms = snapshot.quantile_ns(quantile) as f64 / 1e6;
                let labels = format!("{{request=\"{api}\",quantile=\"{quantile}\"}}");
                text.sample(&name, &labels, ms)?;
            }
        }
        let name = format!("{name}_count");
        text.family(&name, "gauge", "Requests that Kafka's metric of this name counts.")?;
        for (api, _, snapshot) in stages.iter().filter(|(_, of, _)| *of == stage) {
            text.sample(&name, &format!("{{request=\"{api}\"}}"), snapshot.count)?;
        }
    }
    Ok(())
}

/// A name's kind, meaning and values. Values of one name stand together.
struct Family {
    kind: &'static str,
    help: String,
    values: Vec<(Labels, f64)>,
}

fn scalars(text: &mut Text, metrics: &Metrics) -> Result<(), Error> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    metrics.for_each_scalar(|name, help, labels, value| {
        let (kind, value) = match value {
            Value::Counter(total) => ("counter", total as f64),
            Value::Seconds(total) => ("counter", total),
            Value::Gauge(now) => ("gauge", now as f64),
        };
        let family = families.entry(name.to_owned()).or_insert_with(|| Family {
            kind,
            help: help.to_owned(),
            values: Vec::new(),
        });
        family.values.push((labels.clone(), value));
    });
    for (name, family) in &families {
        let sample = text.family(name, family.kind, &family.help)?;
        for (labels, value) in &family.values {
            text.sample(&sample, &label_set(labels), value)?;
        }
    }
    kafka_gauges(text, &families)?;
    zero_copy_share(text, &families)
}

/// Gauges that Kafka has under a name of its own: ours, Kafka's, its label if it keeps one.
const KAFKA_GAUGES: &[(&str, &str, Option<&str>)] = &[
    ("kafkalite_request_queue_size", "kafka_network_requestchannel_requestqueuesize", None),
    ("kafkalite_response_queue_size", "kafka_network_requestchannel_responsequeuesize", None),
    (
        "kafkalite_purgatory_size",
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        Some("delayedOperation"),
    ),
    (
        "kafkalite_fetch_sessions",
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        None,
    ),
    (
        "kafkalite_fetch_session_partitions",
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        None,
    ),
];

fn kafka_gauges(text: &mut Text, families: &BTreeMap<String, Family>) -> Result<(), Error> {
    for (ours, kafka, label) in KAFKA_GAUGES {
        let Some(family) = families.get(*ours) else { continue };
        text.family(kafka, "gauge", &family.help)?;
        let Some(label) = label else {
            let sum: f64 = family.values.iter().map(|(_, value)| value).sum();
            text.sample(kafka, "", sum)?;
            continue;
        };
        for (labels, value) in &family.values {
            let first = labels.first().map(|(_, text)| (*label, text.clone()));
            text.sample(kafka, &label_set(&Vec::from_iter(first)), value)?;
        }
    }
    Ok(())
}

fn zero_copy_share(text: &mut Text, families: &BTreeMap<String, Family>) -> Result<(), Error> {
    let sum = |name: &str| {
        let values = families.get(name).map(|family| family.values.iter());
        values.map_or(0.0, |values| values.map(|(_, value)| value).sum())
    };
    let zero_copy = sum("kafkalite_network_bytes_out_zero_copy");
    let all = zero_copy + sum("kafkalite_network_bytes_out_copied");
    let name = "kafkalite_zero_copy_share";
    text.family(name, "gauge", "The part of the bytes sent that never left the kernel.")?;
    text.sample(name, "", if all > 0.0 { zero_copy / all } else { 0.0 })
}
