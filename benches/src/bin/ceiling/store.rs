//! A file for each partition, and the two requests that touch it.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use kafkalite_benches::frames::{
    self, BATCH_CRC_START, BATCH_HEADER_BYTES, Writer, i16_at, i32_at, i64_at,
};

/// What a response consists of.
pub enum Piece {
    Bytes(Vec<u8>),
    File { file: Arc<File>, position: u64, len: usize },
}

struct Partition {
    file: Arc<File>,
    len: u64,
    end_offset: i64,
    /// Of the last batch. The load sends one batch over and over, so that this is the whole index.
    batch_len: u64,
    batch_records: i64,
}

pub struct Store {
    dir: PathBuf,
    partitions: Vec<Option<Partition>>,
}

const CORRUPT_MESSAGE: i16 = 2;
const MAX_PARTITIONS: usize = 1024;

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a frame that the ceiling does not understand")
}

/// Reads the fields of a request in order.
struct Fields<'a> {
    frame: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn skip(&mut self, bytes: usize) -> &mut Self {
        self.at += bytes;
        self
    }

    fn i16(&mut self) -> io::Result<i16> {
        self.at += 2;
        i16_at(self.frame, self.at - 2).ok_or_else(malformed)
    }

    fn i32(&mut self) -> io::Result<i32> {
        self.at += 4;
        i32_at(self.frame, self.at - 4).ok_or_else(malformed)
    }

    fn i64(&mut self) -> io::Result<i64> {
        self.at += 8;
        i64_at(self.frame, self.at - 8).ok_or_else(malformed)
    }

    /// A string; null counts as empty.
    fn string(&mut self) -> io::Result<&'a [u8]> {
        let len = self.i16()?.max(0) as usize;
        self.at += len;
        self.frame.get(self.at - len..self.at).ok_or_else(malformed)
    }
}

impl Store {
    pub fn open(dir: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&dir)?;
        Ok(Self { dir, partitions: Vec::new() })
    }

    /// Does what `frame` asks (without its length) and appends the answer to `out`.
    pub fn handle(&mut self, frame: &mut [u8], out: &mut Vec<Piece>) -> io::Result<()> {
        let mut fields = Fields { frame, at: 0 };
        let (api_key, version) = (fields.i16()?, fields.i16()?);
        let correlation_id = fields.i32()?;
        fields.string()?; // client id
        match (api_key, version) {
            (frames::PRODUCE, 7) => {
                fields.string()?; // transactional id
                let acks = fields.i16()?;
                let topic = fields.skip(4 + 4).string()?.to_vec();
                let partition = fields.skip(4).i32()?;
                let len = fields.i32()? as usize;
                let batch = fields.at..fields.at + len;
                let (error, base_offset) = self.append(partition, frame, batch)?;
                if acks != 0 {
                    let mut answer = Writer::default();
                    answer.i32(correlation_id).i32(1).i16(topic.len() as i16).raw(&topic);
                    answer.i32(1).i32(partition).i16(error).i64(base_offset).i64(-1).i64(0).i32(0);
                    push_bytes(out, &answer.framed());
                }
                Ok(())
            }
            (frames::FETCH, 11) => {
                let topic = fields.skip(4 + 4 + 4 + 4 + 1 + 4 + 4 + 4).string()?.to_vec();
                let partition = fields.skip(4).i32()?;
                let offset = fields.skip(4).i64()?;
                let max_bytes = fields.skip(8).i32()?;
                self.fetch(correlation_id, &topic, partition, offset, max_bytes, out)
            }
            _ => Err(malformed()),
        }
    }

    fn partition(&mut self, partition: i32) -> io::Result<&mut Partition> {
        let index = usize::try_from(partition).map_err(|_| malformed())?;
        if index >= MAX_PARTITIONS {
            return Err(malformed());
        }
        if index >= self.partitions.len() {
            self.partitions.resize_with(index + 1, || None);
        }
        let slot = &mut self.partitions[index];
        if slot.is_none() {
            let path = self.dir.join(format!("partition-{index}.log"));
            let mut options = File::options();
            options.create(true).truncate(true).read(true).write(true);
            let file = Arc::new(options.open(path)?);
            let (batch_len, batch_records) = (1, 1);
            *slot = Some(Partition { file, len: 0, end_offset: 0, batch_len, batch_records });
        }
        slot.as_mut().ok_or_else(malformed)
    }

    fn append(
        &mut self,
        partition: i32,
        frame: &mut [u8],
        batch: Range<usize>,
    ) -> io::Result<(i16, i64)> {
        let batch = frame.get_mut(batch).ok_or_else(malformed)?;
        if batch.len() < BATCH_HEADER_BYTES {
            return Err(malformed());
        }
        let crc = i32_at(batch, BATCH_CRC_START - 4).map(i32::cast_unsigned);
        if crc != Some(frames::batch_crc(batch)) {
            return Ok((CORRUPT_MESSAGE, -1));
        }
        let records = i64::from(i32_at(batch, 23).ok_or_else(malformed)?) + 1;
        let partition = self.partition(partition)?;
        let base_offset = partition.end_offset;
        batch[..8].copy_from_slice(&base_offset.to_be_bytes());
        partition.file.write_all_at(batch, partition.len)?;
        partition.len += batch.len() as u64;
        partition.end_offset += records;
        (partition.batch_len, partition.batch_records) = (batch.len() as u64, records);
        Ok((0, base_offset))
    }

    fn fetch(
        &mut self,
        correlation_id: i32,
        topic: &[u8],
        index: i32,
        offset: i64,
        max_bytes: i32,
        out: &mut Vec<Piece>,
    ) -> io::Result<()> {
        let partition = self.partition(index)?;
        let position = (offset / partition.batch_records) as u64 * partition.batch_len;
        let len = partition.len.saturating_sub(position).min(max_bytes.max(0) as u64) as usize;
        let mut answer = Writer::default();
        answer.i32(correlation_id).i32(0).i16(0).i32(0).i32(1);
        answer.i16(topic.len() as i16).raw(topic).i32(1).i32(index).i16(0);
        // High watermark, last stable offset, log start offset; no aborted transactions, no
        // preferred replica.
        answer.i64(partition.end_offset).i64(partition.end_offset).i64(0).i32(-1).i32(-1);
        answer.i32(len as i32);
        let mut frame = answer.framed();
        let whole_len = (frame.len() - 4 + len) as i32;
        frame[..4].copy_from_slice(&whole_len.to_be_bytes());
        push_bytes(out, &frame);
        if len > 0 {
            out.push(Piece::File { file: Arc::clone(&partition.file), position, len });
        }
        Ok(())
    }
}

/// Joins what can leave with one write.
fn push_bytes(out: &mut Vec<Piece>, bytes: &[u8]) {
    match out.last_mut() {
        Some(Piece::Bytes(last)) => last.extend_from_slice(bytes),
        _ => out.push(Piece::Bytes(bytes.to_vec())),
    }
}
