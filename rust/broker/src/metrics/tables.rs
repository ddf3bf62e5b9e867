//! Figures of many things of one kind: a row for each, gathered when someone asks for them.

use super::Labels;
use std::sync::{Arc, Weak};

/// Whether a figure only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A total that only grows, until the broker starts again.
    Counter,
    /// A value that goes up and down.
    Gauge,
}

/// One figure that each row of a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name, for a counter without the suffix `_total`.
    pub name: &'static str,
    /// What kind of figure it is.
    pub kind: Kind,
    /// What it says, with its unit.
    pub help: &'static str,
}

impl Column {
    /// A figure that goes up and down.
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, help }
    }

    /// A figure that only grows.
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, help }
    }
}

/// Figures of things of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The figures.
    pub columns: &'static [Column],
    /// The labels of each thing, and its figures in the order of `columns`.
    pub rows: Vec<(Labels, Vec<f64>)>,
}

/// What gathers the tables of one page.
pub(super) trait Gather: Send + Sync {
    /// The tables now; none once their keeper is gone.
    fn gather(&self) -> Vec<Table>;
}

/// Weak, and without captures, for the same reason as `Look`.
pub(super) struct Page<T> {
    pub at: Weak<T>,
    pub gather: fn(&T) -> Vec<Table>,
}

impl<T: Send + Sync> Gather for Page<T> {
    fn gather(&self) -> Vec<Table> {
        self.at.upgrade().map_or_else(Vec::new, |kept: Arc<T>| (self.gather)(&kept))
    }
}
