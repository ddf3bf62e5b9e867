//! The checker: what was promised, and whether it is kept.

use crate::codec::{decode, kind_of, vote_in, voter_in};
use crate::error::QuorumError;
use crate::network::{APPEND, ENVELOPE, VOTE};
use crate::types::{Committed, VoterId};
use bytes::Bytes;
use kafkalite_protocol::messages::quorum_records as wire;
use std::collections::{BTreeMap, BTreeSet};

/// What was seen of all voters together.
#[derive(Default)]
pub struct Checker {
    /// The leader of each term.
    leaders: BTreeMap<u64, VoterId>,
    /// Whom each voter voted for in each term.
    votes: BTreeMap<(u64, VoterId), VoterId>,
    /// The committed records: term and payload by offset.
    committed: BTreeMap<i64, (u64, Bytes)>,
    /// The state up to each offset, exclusive, as a hash.
    chains: BTreeMap<i64, u64>,
    /// What clients heard to count, and what never to.
    acknowledged: BTreeMap<i64, Bytes>,
    rejected: BTreeSet<Bytes>,
    pub violations: Vec<String>,
    /// A hash of everything seen, in order.
    pub trace: u64,
}

impl Checker {
    pub fn violated(&mut self, what: String) {
        self.violations.push(what);
    }

    pub fn note(&mut self, what: &str) {
        self.trace = hash(self.trace, what.as_bytes());
    }

    /// A request on its way.
    pub fn saw_request(&mut self, request: &Bytes) {
        if let Err(error) = self.request(request.clone()) {
            self.violated(format!("a voter sent {error}"));
        }
    }

    fn request(&mut self, request: Bytes) -> Result<(), QuorumError> {
        let (_, reader) = kind_of(request)?;
        let request: wire::QuorumRequestRecord = decode(reader)?;
        let sender = voter_in(&request.sender);
        match kind_of(request.body)? {
            (APPEND, reader) => {
                let append: wire::QuorumAppendRequestRecord = decode(reader)?;
                let vote = vote_in(&append.vote)?;
                self.leads(vote.leader_id().term, vote.leader_id().voted_for);
            }
            (VOTE, reader) => {
                let asked: wire::QuorumVoteRequestRecord = decode(reader)?;
                let vote = vote_in(&asked.vote)?;
                self.votes_for(vote.leader_id().term, sender, vote.leader_id().voted_for);
            }
            _ => {}
        }
        Ok(())
    }

    /// An answer, and the request that it answers.
    pub fn saw_answer(&mut self, request: &Bytes, answer: &Bytes) {
        if let Err(error) = self.answer(request.clone(), answer.clone()) {
            self.violated(format!("a voter answered {error}"));
        }
    }

    fn answer(&mut self, request: Bytes, answer: Bytes) -> Result<(), QuorumError> {
        let (_, reader) = kind_of(request)?;
        let request: wire::QuorumRequestRecord = decode(reader)?;
        let (ENVELOPE, reader) = kind_of(answer)? else { return Ok(()) };
        let answer: wire::QuorumAnswerRecord = decode(reader)?;
        if answer.error != 0 {
            return Ok(());
        }
        if let (VOTE, reader) = kind_of(answer.body)? {
            let vote: wire::QuorumVoteAnswerRecord = decode(reader)?;
            let (_, reader) = kind_of(request.body)?;
            let asked: wire::QuorumVoteRequestRecord = decode(reader)?;
            let asked = vote_in(&asked.vote)?;
            if vote.is_granted {
                let leader = asked.leader_id();
                self.votes_for(leader.term, voter_in(&request.receiver), leader.voted_for);
            }
        }
        Ok(())
    }

    fn leads(&mut self, term: u64, leader: VoterId) {
        let known = *self.leaders.entry(term).or_insert(leader);
        if known != leader {
            self.violated(format!("term {term} has two leaders: {known} and {leader}"));
        }
    }

    fn votes_for(&mut self, term: u64, voter: VoterId, candidate: VoterId) {
        let known = *self.votes.entry((term, voter)).or_insert(candidate);
        if known != candidate {
            self.violated(format!("{voter} votes in term {term} for {known} and {candidate}"));
        }
    }

    /// Records that a voter applies behind a state; returns the state after them.
    pub fn applied(&mut self, chain: u64, records: &Committed) -> u64 {
        let at = records.base_offset;
        let new = (records.term, records.payload.clone());
        let known = self.committed.entry(at).or_insert_with(|| new.clone()).clone();
        if known != new {
            self.violated(format!("offset {at} is {known:?} and {new:?}"));
        }
        if self.rejected.contains(&new.1) {
            self.violated(format!("offset {at} was rejected"));
        }
        let chain = hash(hash(chain, &at.to_be_bytes()), &records.payload);
        self.reached(at + i64::from(records.records), chain);
        chain
    }

    /// A voter has this state up to `end`.
    pub fn reached(&mut self, end: i64, chain: u64) {
        if *self.chains.entry(end).or_insert(chain) != chain {
            self.violated(format!("two states up to offset {end}"));
        }
    }

    pub fn acknowledged(&mut self, offset: i64, payload: Bytes) {
        self.acknowledged.insert(offset, payload);
    }

    pub fn rejected(&mut self, payload: Bytes) {
        if self.committed.values().any(|(_, counted)| *counted == payload) {
            self.violated("what counts is rejected".to_owned());
        }
        self.rejected.insert(payload);
    }

    /// The end of what was acknowledged.
    pub fn acknowledged_end(&self) -> i64 {
        self.acknowledged.keys().next_back().map_or(0, |last| last + 1)
    }

    pub fn acknowledged_len(&self) -> usize {
        self.acknowledged.len()
    }

    pub fn terms(&self) -> u64 {
        self.leaders.keys().next_back().copied().unwrap_or_default()
    }

    /// What must hold when all is quiet.
    pub fn finish(&mut self) {
        for (offset, payload) in self.acknowledged.clone() {
            let found = self.committed.get(&offset).map(|(_, payload)| payload.clone());
            if found.as_ref() != Some(&payload) {
                self.violated(format!("offset {offset} was acknowledged, and is {found:?}"));
            }
        }
    }
}

/// FNV-1a.
pub fn hash(mut hash: u64, bytes: &[u8]) -> u64 {
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}
