//! What the process takes of its machine: CPU, memory, descriptors, threads.
//!
//! Source: the names and meanings that Prometheus's client libraries give a process; Linux's
//! `proc(5)`. On other systems there are none.

use crate::metrics::{Column, Labels, Table};

const PROCESS: &[Column] = &[
    Column::counter("process_cpu_seconds", "CPU time of the process, in seconds."),
    Column::gauge("process_resident_memory_bytes", "Memory of the process that is resident."),
    Column::gauge("process_virtual_memory_bytes", "Addresses that the process has mapped."),
    Column::gauge("process_threads", "Threads of the process."),
    Column::gauge("process_open_fds", "Open file descriptors."),
    Column::gauge("process_max_fds", "File descriptors that the process may open."),
    Column::gauge("process_start_time_seconds", "When the process began, since 1970."),
];

/// One table with one row, or none where the system does not say.
pub(super) fn tables() -> Vec<Table> {
    let rows = row().map(|values| (Labels::new(), values)).into_iter().collect::<Vec<_>>();
    if rows.is_empty() { vec![] } else { vec![Table { columns: PROCESS, rows }] }
}

fn row() -> Option<Vec<f64>> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program stands in brackets, and may hold any of what follows.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // Numbered from 3 in proc(5): the two before are the process's id and name.
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let page_bytes = rustix::param::page_size() as f64;
    let open_fds = std::fs::read_dir("/proc/self/fd").ok()?.count();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    Some(vec![
        (field(14)? + field(15)?) / ticks,
        field(24)? * page_bytes,
        field(23)?,
        field(20)?,
        // Without the one that reads them.
        open_fds.saturating_sub(1) as f64,
        limit.map_or(f64::INFINITY, |limit| limit as f64),
        booted_s()? + field(22)? / ticks,
    ])
}

/// When the machine began, in seconds since 1970.
fn booted_s() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}
