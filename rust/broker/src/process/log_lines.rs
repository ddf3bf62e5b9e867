//! The log's lines, handed to a program that embeds the broker and has a log of its own.
//!
//! One channel for the process, as there is one `tracing` dispatcher. It is bounded: a line that
//! finds no room is dropped and counted. The next line that is taken carries the count. So a thread
//! of the broker never waits for a reader, and a program that does not ask for lines pays nothing.

use std::fmt::{Debug, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crossbeam::channel::{Receiver, Sender, bounded};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use super::failure::Failure;
use super::logging::most_for;

/// Lines on their way, at most.
const ROOM: usize = 4_096;

/// One event of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub level: &'static str,
    /// The module it comes from, `kafkalite_broker::network` for instance.
    pub target: String,
    /// The text, and its fields as `name=value` behind it.
    pub message: String,
}

/// `None` wakes a reader that has nothing to read, so that it sees that it is over.
type Item = Option<LogLine>;

struct Lines {
    /// Place of the level in [`LEVELS`].
    level: AtomicU8,
    dropped: AtomicU64,
    ended: AtomicBool,
    sender: Sender<Item>,
    receiver: Receiver<Item>,
}

const LEVELS: [LevelFilter; 6] = [
    LevelFilter::OFF,
    LevelFilter::ERROR,
    LevelFilter::WARN,
    LevelFilter::INFO,
    LevelFilter::DEBUG,
    LevelFilter::TRACE,
];

static LINES: OnceLock<Lines> = OnceLock::new();
static INSTALLED: OnceLock<bool> = OnceLock::new();

fn lines() -> &'static Lines {
    LINES.get_or_init(|| {
        let (sender, receiver) = bounded(ROOM);
        let (level, dropped, ended) = Default::default();
        Lines { level, dropped, ended, sender, receiver }
    })
}

impl Lines {
    fn level(&self) -> LevelFilter {
        let place = usize::from(self.level.load(Ordering::Relaxed));
        LEVELS.get(place).copied().unwrap_or(LevelFilter::OFF)
    }

    fn offer(&self, line: LogLine) {
        if self.sender.try_send(Some(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// From now on lines of `level` and graver ones wait for [`next_log_lines`]; `off` ends that.
///
/// # Errors
/// A level that there is not, or a process that logs in another way already.
pub fn forward_log(level: &str) -> Result<(), Failure> {
    let place = level.parse().ok().and_then(|level: LevelFilter| {
        LEVELS.iter().position(|known| *known == level).and_then(|at| u8::try_from(at).ok())
    });
    let place = place.ok_or_else(|| {
        let hint = "one of error, warn, info, debug, trace, off.".to_owned();
        Failure::usage(format!("there is no log level {level}"), hint)
    })?;
    let lines = lines();
    if lines.ended.swap(false, Ordering::AcqRel) {
        // Lines that an earlier reader left are dropped.
        while lines.receiver.try_recv().is_ok() {}
    }
    lines.level.store(place, Ordering::Relaxed);
    let install = || tracing_subscriber::registry().with(Forward(lines)).try_init().is_ok();
    if !INSTALLED.get_or_init(install) {
        return Err(Failure::refused(
            "log lines cannot be forwarded".to_owned(),
            "this process has a log of its own already".to_owned(),
            "leave the level out.",
        ));
    }
    tracing::callsite::rebuild_interest_cache();
    Ok(())
}

/// Waits for lines and takes those that are there, at most `most`. `None`: [`stop_log`] was called.
#[must_use]
pub fn next_log_lines(most: usize) -> Option<Vec<LogLine>> {
    let lines = lines();
    if lines.ended.load(Ordering::Acquire) {
        return None;
    }
    let first = lines.receiver.recv().ok().flatten()?;
    let mut taken = vec![first];
    while taken.len() < most.max(1) {
        match lines.receiver.try_recv() {
            Ok(Some(line)) => taken.push(line),
            Ok(None) | Err(_) => break,
        }
    }
    let dropped = lines.dropped.swap(0, Ordering::Relaxed);
    if dropped > 0 {
        let message = format!("{dropped} lines were dropped: they came faster than they were read");
        taken.push(LogLine { level: "WARN", target: module_path!().to_owned(), message });
    }
    Some(taken)
}

/// Nothing more is forwarded, and one waiting [`next_log_lines`] returns.
pub fn stop_log() {
    let lines = lines();
    lines.level.store(0, Ordering::Relaxed);
    tracing::callsite::rebuild_interest_cache();
    lines.ended.store(true, Ordering::Release);
    // A full channel wakes the reader as well.
    let _ = lines.sender.try_send(None);
}

struct Forward(&'static Lines);

impl<S: Subscriber> Layer<S> for Forward {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= self.0.level().min(most_for(metadata.target()))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0.level())
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        self.0.offer(LogLine {
            level: name(*metadata.level()),
            target: metadata.target().to_owned(),
            message: Text::of(event),
        });
    }
}

pub(super) fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARN",
        Level::INFO => "INFO",
        Level::DEBUG => "DEBUG",
        Level::TRACE => "TRACE",
    }
}

/// The text of an event, and its fields behind it.
#[derive(Default)]
pub(super) struct Text {
    message: String,
    fields: String,
}

impl Text {
    pub(super) fn of(event: &Event<'_>) -> String {
        let mut text = Self::default();
        event.record(&mut text);
        text.message + &text.fields
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value}"),
            name => write!(self.fields, " {name}={value}"),
        };
    }
}
