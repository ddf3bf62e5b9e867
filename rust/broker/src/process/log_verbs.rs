//! `log adopt`: takes over a partition that another broker wrote, Apache Kafka for instance.
//!
//! The broker of the data directory is stopped while that happens; the directory's lock sees to it.
//! The topic is created there first, and its partition is still empty.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kafkalite_log::checkpoint::{LOG_START_FILE, RECOVERY_POINT_FILE, read_offsets, write_offsets};
use kafkalite_log::storage::RealStorage;
use kafkalite_log::{Adopted, LogConfig, LogDir, LogError, adopt};
use kafkalite_protocol::Offset;

use super::failure::Failure;
use crate::clock::{Clock, SystemClock};

const HELP: &str = "usage: kafkalite log adopt DIR --topic TOPIC --partition N [--data-dir kafkalite-data]\n\n\
    Copies the segments in DIR over the empty partition TOPIC-N, with the broker stopped. Every\n\
    batch is checked; offsets and records stay, leader epochs and producer ids do not.\n";

/// Files that stay open at once; a copy needs a handful.
const OPEN_FILES: usize = 64;

/// The answer to `words`.
///
/// # Errors
/// Words that ask for nothing, a locked directory, segments that cannot be taken over.
pub fn run(words: &[&str]) -> Result<String, Failure> {
    match words {
        ["-h" | "--help"] | ["adopt", "-h" | "--help"] => Ok(HELP.to_owned()),
        ["adopt", rest @ ..] => {
            let order = Order::parse(rest)?;
            let adopted = order.carry_out().map_err(|error| failed(&error))?;
            Ok(format!(
                "{}: {} records in {} batches, offsets {} to {}\n",
                order.name(),
                adopted.records,
                adopted.batches,
                adopted.log_start_offset.0,
                adopted.log_end_offset.0,
            ))
        }
        _ => Err(usage("log wants to know what to do".to_owned())),
    }
}

/// What is to be taken over, and where to.
struct Order {
    source: PathBuf,
    topic: String,
    partition: i32,
    data_dir: PathBuf,
}

impl Order {
    fn parse(words: &[&str]) -> Result<Self, Failure> {
        let (mut source, mut topic, mut partition) = (None, None, None);
        let mut data_dir = PathBuf::from("kafkalite-data");
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| usage(format!("{word} wants a value")));
            match word {
                "--topic" => topic = Some(value()?.to_owned()),
                "--partition" => partition = value()?.parse().ok().filter(|number| *number >= 0),
                "--data-dir" => data_dir = PathBuf::from(value()?),
                flag if flag.starts_with("--") => {
                    return Err(usage(format!("unknown flag {flag}")));
                }
                directory => source = Some(PathBuf::from(directory)),
            }
        }
        let missing = |what: &str| usage(format!("log adopt wants {what}"));
        Ok(Self {
            source: source.ok_or_else(|| missing("a directory"))?,
            topic: topic
                .filter(|topic| !topic.is_empty() && !topic.contains('/'))
                .ok_or_else(|| missing("--topic"))?,
            partition: partition.ok_or_else(|| missing("--partition, a number"))?,
            data_dir,
        })
    }

    fn name(&self) -> String {
        format!("{}-{}", self.topic, self.partition)
    }

    fn carry_out(&self) -> Result<Adopted, LogError> {
        let directory = LogDir::open(&self.data_dir, Arc::new(RealStorage), OPEN_FILES)?;
        let now_ms = SystemClock::new().wall_ms();
        let config = LogConfig::default();
        let adopted = adopt(&directory, &self.source, &self.name(), &config, now_ms)?;
        // Without these the next start would believe the empty partition's.
        self.note(&directory, LOG_START_FILE, adopted.log_start_offset)?;
        self.note(&directory, RECOVERY_POINT_FILE, adopted.log_end_offset)?;
        Ok(adopted)
    }

    fn note(&self, directory: &LogDir, file: &str, offset: Offset) -> Result<(), LogError> {
        let path: PathBuf = Path::new(directory.path().as_ref()).join(file);
        let storage = directory.storage().as_ref();
        let mut offsets = read_offsets(storage, &path)?;
        offsets.insert((self.topic.clone(), self.partition), offset);
        write_offsets(storage, &path, &offsets)
    }
}

fn usage(what: String) -> Failure {
    Failure::usage(what, "`kafkalite log --help` tells how.".to_owned())
}

fn failed(error: &LogError) -> Failure {
    match error {
        LogError::Locked { .. } => super::failure::log(error),
        other => Failure::refused(
            "nothing was taken over".to_owned(),
            other.to_string(),
            "give the directory of one partition, as TOPIC-N, and an empty partition for it.",
        ),
    }
}
