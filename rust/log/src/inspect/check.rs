//! Checks one segment: every batch whole, in order, with its checksum; every index entry true.

use std::path::Path;

use kafkalite_protocol::record_batch::{BatchHeader, RecordBatch};
use kafkalite_protocol::types::{Offset, Position};

use super::entries::Entries;
use super::walk::{Met, Walk};
use super::{SegmentEntry, is_zero_from, open};
use crate::batch_scan::ScanError;
use crate::checkpoint::{LEADER_EPOCH_FILE, read_epochs};
use crate::error::LogError;
use crate::index::offset_index::OffsetIndex;
use crate::index::time_index::TimeIndex;
use crate::segment::{INDEX_SUFFIX, TIME_INDEX_SUFFIX};
use crate::storage::RealStorage;
use crate::validation::DECOMPRESSED_CAP_BYTES;

/// Most problems that are listed for one segment.
const MOST_PROBLEMS: usize = 20;

/// Bytes between two reports of progress.
const STEP_BYTES: u64 = 4 << 20;

/// What was found in a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentCheck {
    /// Whole batches, up to the first that is not.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Zeros after them.
    pub unused_bytes: u64,
    /// The offset after the last record.
    pub next_offset: Offset,
    /// Entries of both indexes that were looked at.
    pub index_entries: u64,
    /// What is wrong, in words.
    pub problems: Vec<String>,
}

/// Reads all of `segment` and both its indexes. `newest` means that no segment follows; only such a
/// segment may end in zeros. `progress` gets the bytes read since its last call, and returns
/// whether to go on.
///
/// # Errors
/// A file cannot be read.
pub fn check_segment(
    segment: &SegmentEntry,
    newest: bool,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<SegmentCheck, LogError> {
    let (file, length) = open(&segment.path)?;
    let mut check = Checking::new(segment)?;
    let mut walk = Walk::new(file.as_ref(), Position(0), length);
    let mut told = 0;
    loop {
        match walk.next() {
            Ok(Some(Met::Batch(at, batch))) => check.batch(at, batch.header(), whole(&batch)),
            Ok(Some(Met::Large(at, header, sound))) => {
                check.batch(at, &header, sound);
            }
            Ok(None) => break,
            Err(ScanError::Invalid(error)) => {
                let zeros = newest && is_zero_from(file.as_ref(), check.found.bytes, length);
                if !zeros {
                    check.no_batch(&error.to_string());
                }
                check.found.unused_bytes = u64::from(length) - check.found.bytes;
                break;
            }
            Err(ScanError::Io(error)) => return Err(LogError::io(&segment.path, error)),
        }
        let read = check.found.bytes - told;
        if read >= STEP_BYTES {
            told = check.found.bytes;
            if !progress(read) {
                return Ok(check.found);
            }
        }
    }
    check.end()?;
    progress(u64::from(length) - told);
    Ok(check.found)
}

/// What is wrong with the leader epochs noted beside the segments in `partition`, if anything is.
#[must_use]
pub fn check_epochs(partition: &Path) -> Option<String> {
    match read_epochs(&RealStorage, &partition.join(LEADER_EPOCH_FILE)) {
        Ok(epochs) => {
            let rise =
                epochs.is_sorted_by(|a, b| a.epoch < b.epoch && a.start_offset <= b.start_offset);
            (!rise).then(|| format!("{LEADER_EPOCH_FILE}: the epochs do not rise"))
        }
        Err(error) => Some(error.to_string()),
    }
}

/// An index, read beside the batches, an entry ahead.
struct Ahead<const LENGTH: usize, T> {
    entries: Entries<LENGTH, T>,
    next: Option<T>,
    /// Whether an entry may follow another.
    rises: fn(&T, &T) -> bool,
    all_rise: bool,
    count: u64,
}

impl<const LENGTH: usize, T: Copy> Ahead<LENGTH, T> {
    fn new(entries: Entries<LENGTH, T>, rises: fn(&T, &T) -> bool) -> Self {
        let mut ahead = Self { entries, next: None, rises, all_rise: true, count: 0 };
        ahead.step();
        ahead
    }

    fn step(&mut self) {
        let before = self.next;
        self.next = self.entries.next();
        if let Some(next) = &self.next {
            self.count += 1;
            self.all_rise &= before.is_none_or(|before| (self.rises)(&before, next));
        }
    }

    /// Reads to the end: how many entries there are, and whether they rise.
    fn finish(&mut self) -> Result<(u64, bool), LogError> {
        while self.next.is_some() {
            self.step();
        }
        self.entries.finish()?;
        Ok((self.count, self.all_rise))
    }
}

/// The walk over the batches, with both indexes walked beside it.
struct Checking {
    base: Offset,
    found: SegmentCheck,
    /// Last offset and position of each entry, in the order of the file.
    offsets: Ahead<8, (u32, Position)>,
    times: Ahead<12, (i64, u32)>,
    max_timestamp_ms: i64,
}

impl Checking {
    fn new(segment: &SegmentEntry) -> Result<Self, LogError> {
        let found = SegmentCheck { next_offset: segment.base_offset, ..Default::default() };
        let offsets = index_of(segment, INDEX_SUFFIX, OffsetIndex::decode)?;
        let times = index_of(segment, TIME_INDEX_SUFFIX, TimeIndex::decode)?;
        Ok(Self {
            base: segment.base_offset,
            found,
            offsets: Ahead::new(offsets, |a, b| a.0 < b.0 && a.1.0 < b.1.0),
            times: Ahead::new(times, |a, b| a.0 < b.0 && a.1 <= b.1),
            max_timestamp_ms: i64::MIN,
        })
    }

    fn batch(&mut self, at: Position, header: &BatchHeader, sound: Result<(), String>) {
        if header.base_offset < self.found.next_offset || header.last_offset_delta < 0 {
            let (first, last) = (header.base_offset.0, header.last_offset().0);
            let expected = self.found.next_offset.0;
            self.problem(at, &format!("offsets {first} to {last} do not follow {expected}"));
        }
        if let Err(flaw) = sound {
            self.problem(at, &flaw);
        }
        self.look_up_offsets(at, header);
        self.look_up_times(header);
        self.found.batches += 1;
        self.found.records += u64::from(header.record_count.unsigned_abs());
        self.found.bytes = u64::from(at.0) + header.size() as u64;
        self.found.next_offset = self.found.next_offset.max(header.next_offset());
        self.max_timestamp_ms = self.max_timestamp_ms.max(header.max_timestamp);
    }

    /// An entry leads a search for its offset, or a later one, to a batch that is not too far.
    fn look_up_offsets(&mut self, at: Position, header: &BatchHeader) {
        while let Some((relative, position)) = self.offsets.next.filter(|next| next.1 <= at) {
            let offset = self.base.0 + i64::from(relative);
            if position < at {
                self.problem(position, "the offset index points here, and no batch starts here");
            } else if header.base_offset.0 > offset {
                let first = header.base_offset.0;
                self.problem(at, &format!("the offset index promises {offset} here, not {first}"));
            }
            self.offsets.step();
        }
    }

    /// An entry promises that nothing up to its offset is later than its time.
    fn look_up_times(&mut self, header: &BatchHeader) {
        let last = header.last_offset().0;
        while let Some((time_ms, relative)) = self.times.next {
            let offset = self.base.0 + i64::from(relative);
            if last <= offset {
                return;
            }
            self.check_time(time_ms, offset);
            self.times.step();
        }
    }

    fn check_time(&mut self, time_ms: i64, offset: i64) {
        if self.max_timestamp_ms > time_ms {
            let max = self.max_timestamp_ms;
            let text = format!(
                "the time index promises that nothing up to offset {offset} is later than \
                 {time_ms} ms, and there is {max} ms"
            );
            self.note(text);
        }
    }

    /// Something stands where a batch should start.
    fn no_batch(&mut self, why: &str) {
        let at = Position(u32::try_from(self.found.bytes).unwrap_or(u32::MAX));
        self.problem(at, &format!("after offset {}: {why}", self.found.next_offset.0 - 1));
    }

    /// What is left of the indexes points beyond the last batch.
    fn end(&mut self) -> Result<(), LogError> {
        if let Some((_, position)) = self.offsets.next {
            self.problem(position, "the offset index points here, behind the last batch");
        }
        while let Some((time_ms, relative)) = self.times.next {
            let offset = self.base.0 + i64::from(relative);
            if offset >= self.found.next_offset.0 {
                self.note(format!("the time index names offset {offset}, behind the last record"));
                break;
            }
            self.check_time(time_ms, offset);
            self.times.step();
        }
        for (name, (count, all_rise)) in
            [("offset", self.offsets.finish()?), ("time", self.times.finish()?)]
        {
            self.found.index_entries += count;
            if !all_rise {
                self.note(format!("the {name} index does not rise"));
            }
        }
        Ok(())
    }

    fn problem(&mut self, at: Position, text: &str) {
        self.note(format!("position {}: {text}", at.0));
    }

    fn note(&mut self, text: String) {
        if self.found.problems.len() < MOST_PROBLEMS {
            self.found.problems.push(text);
        }
    }
}

/// Whether its checksum is right and all its records can be read.
fn whole(batch: &RecordBatch<'_>) -> Result<(), String> {
    batch.verify_crc().map_err(|error| error.to_string())?;
    let records = batch.records(DECOMPRESSED_CAP_BYTES).map_err(|error| error.to_string())?;
    records.iter().try_for_each(|record| record.map(drop).map_err(|error| error.to_string()))
}

/// The entries of a segment's index. A missing index has none; the next start rebuilds it.
fn index_of<const LENGTH: usize, T>(
    segment: &SegmentEntry,
    suffix: &str,
    decode: fn(&[u8; LENGTH]) -> T,
) -> Result<Entries<LENGTH, T>, LogError> {
    let path = segment.path.with_extension(suffix.trim_start_matches('.'));
    if path.exists() { Entries::open(&path, 0, decode) } else { Ok(Entries::none(&path, decode)) }
}
