//! CPU time from `/proc`: how busy others kept the machine, and what a process has used.

use std::fs;
use std::io;

/// Ticks of `/proc/stat` and `/proc/PID/stat` a second. Linux shows 100 to user space everywhere.
pub const TICKS_PER_SECOND: f64 = 100.0;

/// What of the machine other processes use between two moments.
#[derive(Debug)]
pub struct ForeignShare {
    server_pid: Option<u32>,
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
    /// Starts to watch. This process is not foreign, nor is the server it loads.
    ///
    /// # Errors
    /// `/proc` is not there, or the server is not.
    pub fn begin(server_pid: Option<u32>) -> io::Result<Self> {
        let (all, idle) = machine_ticks()?;
        let server = server_pid.map_or(Ok(0), process_ticks)?;
        Ok(Self { server_pid, all, idle, own: server + process_ticks(std::process::id())? })
    }

    /// Per cent of all cores that others were busy since `begin`.
    ///
    /// # Errors
    /// `/proc` is not there.
    pub fn percent(&self) -> io::Result<f64> {
        let now = Self::begin(self.server_pid)?;
        let all = (now.all - self.all).max(1) as f64;
        let busy = all - (now.idle - self.idle) as f64;
        Ok((busy - (now.own - self.own) as f64).max(0.0) * 100.0 / all)
    }
}

/// What a process has used so far, or between two looks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ServerUse {
    /// User and system time of all threads that still live.
    pub cpu_seconds: f64,
    /// Calls of the `read` and `write` families, `sendfile` among them; not `recv` and `send`.
    pub file_syscalls: f64,
    /// Voluntary and involuntary, of all threads.
    pub context_switches: f64,
}

impl ServerUse {
    /// Reads `/proc/PID`; all zero without a pid.
    ///
    /// # Errors
    /// There is no such process.
    pub fn of(pid: Option<u32>) -> io::Result<Self> {
        let mut used = Self::default();
        let Some(pid) = pid else { return Ok(used) };
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let dir = thread?.path();
            // A thread may end while we look; then it is no longer counted.
            let Ok(schedstat) = fs::read_to_string(dir.join("schedstat")) else {
                continue;
            };
            used.cpu_seconds += number(schedstat.split_whitespace().next()) / 1e9;
            let status = fs::read_to_string(dir.join("status")).unwrap_or_default();
            used.context_switches += sum(&status, |name| name.ends_with("voluntary_ctxt_switches"));
        }
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        used.file_syscalls = sum(&io, |name| name == "syscr" || name == "syscw");
        Ok(used)
    }

    /// What was used since an earlier look.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds - before.cpu_seconds,
            file_syscalls: self.file_syscalls - before.file_syscalls,
            context_switches: self.context_switches - before.context_switches,
        }
    }
}

fn number(word: Option<&str>) -> f64 {
    word.and_then(|word| word.trim().parse().ok()).unwrap_or(0.0)
}

/// The sum of the `name: value` lines that are wanted.
fn sum(text: &str, wanted: impl Fn(&str) -> bool) -> f64 {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.filter(|(name, _)| wanted(name)).map(|(_, value)| number(Some(value))).sum()
}
