//! What an operation waits for, as it says itself when it is asked. Nothing of it is kept.

use std::sync::Arc;

/// The request that waits: no two of a connection are open under one correlation id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// The connection.
    pub connection_id: u64,
    /// The correlation id.
    pub correlation_id: i32,
}

/// A partition that a fetch reads, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caught {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its index.
    pub partition: i32,
    /// The offset that the reader wants next.
    pub fetch_offset: i64,
    /// Where what the reader may read ends.
    pub readable_end: i64,
}

/// What an operation waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitsFor {
    /// A fetch: for bytes.
    Bytes {
        /// As many as it waits for.
        min_bytes: u64,
        /// As many as there are; `None`: something else ends the wait at this moment.
        bytes: Option<u64>,
        /// The partitions that it looks at. Within a session these are the dirty ones.
        partitions: Vec<Caught>,
    },
    /// A produce: for a batch to be safe on its replicas.
    Replicas {
        /// The batches that are not safe yet.
        batches: Vec<Unsafe>,
    },
}

/// A batch that is appended and not acknowledged, at one moment of its partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsafe {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: i32,
    /// The offset behind its last record.
    pub end_offset: i64,
    /// The high watermark, which has to reach that offset.
    pub high_watermark: i64,
    /// Where the leader's log ends, as far as an acknowledgement may rely on it.
    pub leader_end: i64,
    /// Fewer replicas are in sync than `min.insync.replicas`.
    pub is_under_min: bool,
    /// The followers that lack it and are waited for: broker, and where its log ends (-1: it has
    /// not fetched since this leader began).
    pub followers: Vec<(i32, i64)>,
}

/// An operation that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Its request.
    pub asker: Asker,
    /// How long it waits at most, in ms from its beginning.
    pub timeout_ms: u64,
    /// For what.
    pub waits_for: WaitsFor,
}
