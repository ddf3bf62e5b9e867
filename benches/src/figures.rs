//! Figures: latency percentiles and medians over rounds.

/// A latency histogram over nanoseconds, exact to 1/64 of a value, fixed in size.
///
/// 58 powers of two with 64 steps each, as HdrHistogram lays them out: recording is two shifts and
/// an add, so it does not disturb what it measures.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max_ns: u64,
}

const STEP_BITS: u32 = 6;

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; (65 - STEP_BITS as usize) << STEP_BITS], total: 0, max_ns: 0 }
    }
}

fn slot(value: u64) -> usize {
    let shift = (64 - value.leading_zeros()).saturating_sub(STEP_BITS + 1);
    ((u64::from(shift) << STEP_BITS) + (value >> shift)) as usize
}

fn lowest_of(slot: usize) -> u64 {
    let shift = (slot >> STEP_BITS).saturating_sub(1);
    ((slot - (shift << STEP_BITS)) as u64) << shift
}

impl Histogram {
    /// Counts one value, in nanoseconds.
    pub fn record(&mut self, value_ns: u64) {
        self.counts[slot(value_ns)] += 1;
        self.total += 1;
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// How many values were recorded.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The largest value, in nanoseconds, exact.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The value below which `quantile` (0 to 1) of all values lie, in nanoseconds; 0 when empty.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        let rank = ((self.total as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        for (slot, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return lowest_of(slot).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

/// Median, smallest and largest of some rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The middle value; the mean of the two middle ones for an even count.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Spread {
    /// The spread of `values`; all zero when there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return Self { median: 0.0, min: 0.0, max: 0.0 };
        };
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Self { median, min, max }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = if self.max < 10.0 { 2 } else { usize::from(self.max < 1000.0) };
        write!(f, "{:.digits$} [{:.digits$}-{:.digits$}]", self.median, self.min, self.max)
    }
}

#[cfg(test)]
mod tests;
