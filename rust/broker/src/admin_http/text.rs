//! Metrics as text, in the format that a reader asks for.

use std::fmt::{Error, Write};

use axum::http::{HeaderMap, header};

use crate::metrics::{Column, Kind, Labels, Table};

/// The two formats that Prometheus reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// OpenMetrics 1.0: what a reader gets that asks for it.
    OpenMetrics,
    /// Prometheus's own format 0.0.4, which browsers show.
    Plain,
}

impl Format {
    /// The format for a reader of these headers.
    pub fn asked(headers: &HeaderMap) -> Self {
        let mut accepted = headers.get_all(header::ACCEPT).iter();
        let is_open = accepted.any(|value| {
            value.to_str().is_ok_and(|text| text.contains("application/openmetrics-text"))
        });
        if is_open { Self::OpenMetrics } else { Self::Plain }
    }

    /// The value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A page that is being written.
pub(super) struct Text {
    out: String,
    format: Format,
}

impl Text {
    /// An empty page.
    pub fn new(format: Format) -> Self {
        Self { out: String::with_capacity(16 << 10), format }
    }

    /// Begins a family; returns the name that the samples of a counter or gauge have.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) -> Result<String, Error> {
        let sample = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        // Prometheus's own format calls a family as its samples.
        let family = if self.format == Format::Plain { &sample } else { name };
        writeln!(self.out, "# TYPE {family} {kind}\n# HELP {family} {}", escaped(help))?;
        Ok(sample)
    }

    /// Writes `name labels value` as one line.
    pub fn sample(
        &mut self,
        name: &str,
        labels: &str,
        value: impl std::fmt::Display,
    ) -> Result<(), Error> {
        writeln!(self.out, "{name}{labels} {value}")
    }

    /// Writes each figure of `table` as a family.
    pub fn table(&mut self, table: &Table) -> Result<(), Error> {
        let labels: Vec<String> = table.rows.iter().map(|(labels, _)| label_set(labels)).collect();
        for (place, Column { name, kind, help }) in table.columns.iter().enumerate() {
            let kind = if *kind == Kind::Counter { "counter" } else { "gauge" };
            let name = self.family(name, kind, help)?;
            for ((_, values), labels) in table.rows.iter().zip(&labels) {
                let value = values.get(place).copied().unwrap_or(f64::NAN);
                self.sample(&name, labels, value)?;
            }
        }
        Ok(())
    }

    /// The whole page.
    pub fn end(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }
}

/// `{name="value",...}`, or nothing.
pub(super) fn label_set(labels: &Labels) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
