//! The answer to a fetch, written one partition at a time.
//!
//! A request may name a million partitions, most of which do not exist. Until a partition is
//! encoded only a few bytes are kept of it. Its struct lives only while it is written.

use super::delayed_fetch::FetchRead;
use crate::fetch_sessions::{FetchContext, Look, TopicRef};
use crate::partitions::{FetchReader, Fetched};
use kafkalite_log::FileSlice;
use kafkalite_protocol::messages::fetch::{
    AbortedTransaction, EpochEndOffset, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch,
    PartitionData,
};
use kafkalite_protocol::messages::{Listing, Wire};
use kafkalite_protocol::{ErrorCode, Records, Uuid, Writer};

/// What was read, and the part of it that goes to the client.
pub(super) struct Answers {
    session_id: i32,
    read: FetchRead,
    /// Length of each range of files, by the number of what was read.
    lengths: Vec<u32>,
    reader: FetchReader,
    /// The places of the looks that go into the answer, in the order of service.
    sent: Vec<u32>,
}

impl Answers {
    /// The answer to `read`, and the ranges of files that it refers to. The session notes the
    /// contents of the answer.
    pub(super) fn new(
        context: &FetchContext,
        mut read: FetchRead,
        reader: FetchReader,
    ) -> (Self, Vec<Vec<FileSlice>>) {
        let files = read.take_slices();
        let lengths = (0..files.len()).map(|number| read.fetched(number as u32).bytes).collect();
        let mut answers = Self { session_id: 0, read, lengths, reader, sent: Vec::new() };
        // The session is locked once for the whole answer: its partitions are noted in order.
        let mut session = context.session().map(|session| session.lock());
        let only_news = matches!(context, FetchContext::Incremental(_));
        for place in 0..answers.read.len() {
            let news = session.as_mut().is_none_or(|session| {
                let (look, data, readable_end) = answers.partition(place);
                session.note(look, &data, readable_end)
            });
            if news || !only_news {
                answers.sent.push(place as u32);
            }
        }
        answers.session_id = session.as_ref().map_or(0, |session| session.id());
        (answers, files)
    }

    /// Writes the response.
    pub(super) fn encode(&self, writer: &mut Writer, version: i16) {
        let topics: Vec<&[u32]> = self.topics().collect();
        let mut next = topics.iter();
        self.head().encode_listing(writer, version, topics.len(), |writer| {
            let Some(places) = next.next() else { return };
            let mut places = places.iter();
            self.topic(places.as_slice()).encode_listing(writer, version, places.len(), |writer| {
                if let Some(place) = places.next() {
                    self.partition(*place as usize).1.encode(writer, version);
                }
            });
        });
    }

    /// The response as a struct.
    #[cfg(test)]
    pub(super) fn whole(&self) -> FetchResponse {
        let topics = self.topics().map(|places| FetchableTopicResponse {
            partitions: places.iter().map(|place| self.partition(*place as usize).1).collect(),
            ..self.topic(places)
        });
        FetchResponse { responses: topics.collect(), ..self.head() }
    }

    fn head(&self) -> FetchResponse {
        FetchResponse { session_id: self.session_id, ..FetchResponse::default() }
    }

    /// The answered places, cut where the topic changes: neighbours of one topic share an entry.
    fn topics(&self) -> impl Iterator<Item = &[u32]> {
        let topic = |place: &u32| &self.read.look(*place as usize).0.target.topic;
        self.sent.chunk_by(move |one, next| topic(one) == topic(next))
    }

    /// The entry of the topic that these looks share, without its partitions.
    fn topic(&self, places: &[u32]) -> FetchableTopicResponse {
        let first = places.first().map(|place| self.read.look(*place as usize).0);
        let (topic, topic_id) = match first.map(|look| &*look.target.topic) {
            Some(TopicRef::Name(name)) => (name.to_string(), Uuid::ZERO),
            Some(TopicRef::Id(id)) => (String::new(), *id),
            None => (String::new(), Uuid::ZERO),
        };
        FetchableTopicResponse { topic, topic_id, partitions: Vec::new() }
    }

    /// The look at partition `place`, its answer, and the end of what could be read.
    fn partition(&self, place: usize) -> (&Look, PartitionData, i64) {
        let (look, outcome) = self.read.look(place);
        let data = |fetched: &Fetched, token| {
            let length = self.lengths.get(token as usize).copied().unwrap_or(0);
            let records = Records::External { token, len: length };
            let data = partition_data(look, fetched, self.reader, records);
            (look, data, fetched.readable_end.0)
        };
        match outcome {
            Ok(number) => data(self.read.fetched(number), number),
            // No range has this number, so it is empty.
            Err(error) => data(&Fetched::refused(error), u32::MAX),
        }
    }
}

/// The answer for one partition.
pub(super) fn partition_data(
    look: &Look,
    fetched: &Fetched,
    reader: FetchReader,
    records: Records,
) -> PartitionData {
    PartitionData {
        partition_index: look.target.partition,
        error_code: fetched.error.code(),
        high_watermark: fetched.high_watermark.0,
        last_stable_offset: fetched.last_stable_offset.0,
        log_start_offset: fetched.log_start_offset.0,
        diverging_epoch: fetched.diverging.map_or_else(EpochEndOffset::default, |(epoch, end)| {
            EpochEndOffset { epoch: epoch.0, end_offset: end.0 }
        }),
        current_leader: fetched.leader.map_or_else(LeaderIdAndEpoch::default, |(id, epoch)| {
            LeaderIdAndEpoch { leader_id: id, leader_epoch: epoch.0 }
        }),
        aborted_transactions: aborted_transactions(fetched, reader),
        preferred_read_replica: fetched.nearby.unwrap_or(-1),
        records: Some(records),
        ..PartitionData::default()
    }
}

/// There are no aborted transactions, so this is an empty list or `None`, as in Kafka. Partitions
/// that do not exist get a list; those that could not be read get `None`.
fn aborted_transactions(fetched: &Fetched, reader: FetchReader) -> Option<Vec<AbortedTransaction>> {
    let is_listed = match fetched.error {
        ErrorCode::None if fetched.nearby.is_some() => false,
        ErrorCode::None => reader == FetchReader::ReadCommitted && fetched.diverging.is_none(),
        ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId => true,
        _ => false,
    };
    is_listed.then(Vec::new)
}
