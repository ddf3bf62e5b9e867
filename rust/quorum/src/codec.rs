//! Between openraft's values and the records of `quorum_records.schema`.
//!
//! Bytes come from another voter or from an earlier life of this one. They are checked here for
//! what openraft takes for granted. A term fits Kafka's epoch and an index an offset, so
//! counting on never overflows.

use crate::error::QuorumError;
use crate::types::{
    CommittedLeaderId, Endpoint, Entry, LogId, Membership, Payload, Proposal, SnapshotMeta,
    StoredMembership, Vote, VoterId,
};
use bytes::Bytes;
use kafkalite_protocol::messages::quorum_records as wire;
use kafkalite_protocol::messages::{Versioned, Wire};
use kafkalite_protocol::{Reader, Writer};
use std::collections::{BTreeMap, BTreeSet};

type Result<T> = std::result::Result<T, QuorumError>;

/// The greatest term: Kafka's controller epoch is an `i32`.
const MAX_TERM: i64 = i32::MAX as i64;
/// Far above what a log reaches, and far below where an index overflows.
const MAX_INDEX: i64 = 1 << 62;

const BLANK: i8 = 0;
const RECORDS: i8 = 1;
const MEMBERSHIP: i8 = 2;

/// `| kind: u16 | version: i16 | fields |`, in the newest version.
pub fn encode<R: Versioned>(kind: u16, record: &R) -> Bytes {
    let mut writer = Writer::new();
    writer.u16(kind);
    writer.i16(R::VERSIONS.max);
    record.encode(&mut writer, R::VERSIONS.max);
    writer.into_bytes()
}

/// The kind of what [`encode`] wrote, and a reader of the rest.
pub fn kind_of(bytes: Bytes) -> Result<(u16, Reader)> {
    let mut reader = Reader::new(bytes);
    Ok((reader.u16()?, reader))
}

/// The record behind its kind. A version that this release does not know is an error.
pub fn decode<R: Versioned + Wire>(mut reader: Reader) -> Result<R> {
    let version = reader.i16()?;
    if !R::VERSIONS.contains(version) {
        let supported = R::VERSIONS.max;
        return malformed(format!("version {version}, this release reads up to {supported}"));
    }
    let record = R::decode(&mut reader, version)?;
    match reader.remaining() {
        0 => Ok(record),
        more => malformed(format!("{more} bytes follow a record")),
    }
}

pub fn malformed<T>(reason: impl Into<String>) -> Result<T> {
    Err(QuorumError::Malformed(reason.into()))
}

pub const fn voter_out(id: VoterId) -> wire::QuorumVoter {
    wire::QuorumVoter { node_id: id.node_id, directory_id: id.directory_id }
}

pub const fn voter_in(voter: &wire::QuorumVoter) -> VoterId {
    VoterId { node_id: voter.node_id, directory_id: voter.directory_id }
}

fn term_in(term: i64) -> Result<u64> {
    match u64::try_from(term) {
        Ok(term) if term <= MAX_TERM as u64 => Ok(term),
        _ => malformed(format!("term {term}")),
    }
}

pub fn vote_out(vote: &Vote) -> wire::QuorumVote {
    wire::QuorumVote {
        term: vote.leader_id().term as i64,
        candidate: voter_out(vote.leader_id().voted_for),
        is_committed: vote.is_committed(),
    }
}

pub fn vote_in(vote: &wire::QuorumVote) -> Result<Vote> {
    let (term, candidate) = (term_in(vote.term)?, voter_in(&vote.candidate));
    Ok(match vote.is_committed {
        true => Vote::new_committed(term, candidate),
        false => Vote::new(term, candidate),
    })
}

pub fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(term), index)
}

pub fn log_id_out(log_id: Option<&LogId>) -> wire::QuorumLogId {
    match log_id {
        None => wire::QuorumLogId { term: 0, index: -1 },
        Some(log_id) => {
            let term = log_id.committed_leader_id().term as i64;
            wire::QuorumLogId { term, index: log_id.index() as i64 }
        }
    }
}

pub fn log_id_in(log_id_: &wire::QuorumLogId) -> Result<Option<LogId>> {
    match log_id_.index {
        -1 => Ok(None),
        0..=MAX_INDEX => Ok(Some(log_id(term_in(log_id_.term)?, log_id_.index as u64))),
        index => malformed(format!("index {index}")),
    }
}

/// A log id that must be there.
pub fn some_log_id_in(log_id: &wire::QuorumLogId) -> Result<LogId> {
    log_id_in(log_id)?.map_or_else(|| malformed("a log id is missing"), Ok)
}

pub fn membership_out(membership: &Membership) -> wire::QuorumMembership {
    let voters = |config: &BTreeSet<VoterId>| wire::QuorumVoters {
        voters: config.iter().copied().map(voter_out).collect(),
    };
    let node = |(id, at): (&VoterId, &Endpoint)| wire::QuorumNode {
        voter: voter_out(*id),
        host: at.host.clone(),
        port: at.port,
    };
    wire::QuorumMembership {
        configs: membership.get_joint_config().iter().map(voters).collect(),
        nodes: membership.nodes().map(node).collect(),
    }
}

pub fn membership_in(membership: &wire::QuorumMembership) -> Result<Membership> {
    let configs = membership.configs.iter();
    let configs: Vec<BTreeSet<_>> =
        configs.map(|config| config.voters.iter().map(voter_in).collect()).collect();
    let nodes: BTreeMap<_, _> = membership
        .nodes
        .iter()
        .map(|node| (voter_in(&node.voter), Endpoint { host: node.host.clone(), port: node.port }))
        .collect();
    if configs.is_empty() && nodes.is_empty() {
        return Ok(Membership::default());
    }
    Membership::new(configs, nodes).or_else(|error| malformed(error.to_string()))
}

pub fn stored_membership_out(
    membership: &StoredMembership,
) -> (wire::QuorumLogId, wire::QuorumMembership) {
    (log_id_out(membership.log_id().as_ref()), membership_out(membership.membership()))
}

pub fn entry_out(entry: &Entry) -> wire::QuorumEntry {
    let mut out = wire::QuorumEntry {
        term: entry.log_id.committed_leader_id().term as i64,
        index: entry.log_id.index() as i64,
        ..Default::default()
    };
    match &entry.payload {
        Payload::Blank => out.kind = BLANK,
        Payload::Normal(proposal) => {
            out.kind = RECORDS;
            out.expected = proposal.expected;
            out.records = proposal.records as i32;
            out.payload = proposal.payload.clone();
        }
        Payload::Membership(membership) => {
            out.kind = MEMBERSHIP;
            out.membership = Some(membership_out(membership));
        }
    }
    out
}

pub fn entry_in(entry: wire::QuorumEntry) -> Result<Entry> {
    let log_id = some_log_id_in(&wire::QuorumLogId { term: entry.term, index: entry.index })?;
    let payload = match (entry.kind, entry.membership) {
        (BLANK, None) => Payload::Blank,
        (RECORDS, None) if entry.records >= 0 && (-1..=MAX_INDEX).contains(&entry.expected) => {
            Payload::Normal(Proposal {
                expected: entry.expected,
                records: entry.records as u32,
                payload: entry.payload,
            })
        }
        (MEMBERSHIP, Some(membership)) if !membership.configs.is_empty() => {
            Payload::Membership(membership_in(&membership)?)
        }
        (kind, _) => return malformed(format!("an entry of kind {kind}")),
    };
    Ok(Entry { log_id, payload })
}

/// Entries that follow each other.
pub fn entries_in(entries: Vec<wire::QuorumEntry>) -> Result<Vec<Entry>> {
    let mut last: Option<LogId> = None;
    let checked = entries.into_iter().map(|entry| {
        let entry = entry_in(entry)?;
        let follows = |last: LogId| last.index() + 1 == entry.log_id.index() && last < entry.log_id;
        if !last.is_none_or(follows) {
            return malformed(format!("entry {} does not follow", entry.log_id));
        }
        last = Some(entry.log_id);
        Ok(entry)
    });
    checked.collect()
}

pub fn snapshot_out(meta: &SnapshotMeta, end: i64) -> wire::QuorumSnapshotRecord {
    let (membership_log_id, membership) = stored_membership_out(&meta.last_membership);
    let last_log_id = log_id_out(meta.last_log_id.as_ref());
    wire::QuorumSnapshotRecord { last_log_id, membership_log_id, membership, end }
}

pub fn snapshot_in(record: &wire::QuorumSnapshotRecord) -> Result<(SnapshotMeta, i64)> {
    let last_log_id = some_log_id_in(&record.last_log_id)?;
    let membership_log_id = log_id_in(&record.membership_log_id)?;
    if membership_log_id.is_some_and(|log_id| log_id > last_log_id) {
        return malformed("a membership from behind the snapshot");
    }
    if !(0..=MAX_INDEX).contains(&record.end) {
        return malformed(format!("a snapshot up to offset {}", record.end));
    }
    let membership = membership_in(&record.membership)?;
    let last_membership = StoredMembership::new(membership_log_id, membership);
    Ok((SnapshotMeta { last_log_id: Some(last_log_id), last_membership }, record.end))
}
