//! CPU time from `/proc`: how busy others kept the machine, and what a process has used.

use std::fs;
use std::io;

/// Ticks of `/proc/stat` and `/proc/PID/stat` a second. Linux shows 100 to user space everywhere.
pub const TICKS_PER_SECOND: f64 = 100.0;

/// What of the machine other processes use between two moments.
#[derive(Debug)]
pub struct ForeignShare {
    all: u64,
    idle: u64,
    own: u64,
}

fn machine_ticks() -> io::Result<(u64, u64)> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    // user nice system idle iowait irq softirq steal; guest time is part of user already.
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
    Ok((ticks.iter().sum(), ticks.iter().skip(3).take(2).sum()))
}

/// User and system time of a process in ticks, its threads included.
///
/// # Errors
/// There is no such process.
pub fn process_ticks(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name stands in parentheses and may hold anything, so count from the last one.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    Ok(fields.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum())
}

impl ForeignShare {
    /// Starts to watch.
    ///
    /// # Errors
    /// `/proc` is not there.
    pub fn begin() -> io::Result<Self> {
        let (all, idle) = machine_ticks()?;
        Ok(Self { all, idle, own: process_ticks(std::process::id())? })
    }

    /// Per cent of all cores that others were busy since `begin`.
    ///
    /// # Errors
    /// `/proc` is not there.
    pub fn percent(&self) -> io::Result<f64> {
        let now = Self::begin()?;
        let all = (now.all - self.all).max(1) as f64;
        let busy = all - (now.idle - self.idle) as f64;
        Ok((busy - (now.own - self.own) as f64).max(0.0) * 100.0 / all)
    }
}
