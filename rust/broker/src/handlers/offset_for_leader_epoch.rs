//! OffsetForLeaderEpoch: where a leader epoch ended.
//!
//! Clients compare it with what they read to find a log that was cut back behind them (KIP-320). An
//! epoch that is not in the log is answered by the largest one before it.
//! Source: Kafka's `ReplicaManager.lastOffsetForLeaderEpoch`.

use super::{Call, Rooms};
use kafkalite_protocol::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition, OffsetForLeaderTopicResult,
};
use kafkalite_protocol::{ErrorCode, LeaderEpoch};

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<OffsetForLeaderEpochRequest>) {
    let topics = call.request.topics.iter().map(|topic| OffsetForLeaderTopicResult {
        topic: topic.topic.clone(),
        partitions: (topic.partitions.iter())
            .map(|partition| end_of_epoch(rooms, &topic.topic, partition))
            .collect(),
    });
    let response = OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() };
    call.reply.send(&response);
}

fn end_of_epoch(rooms: &Rooms, topic: &str, asked: &OffsetForLeaderPartition) -> EpochEndOffset {
    let found = rooms.partitions.find_by_name(topic, asked.partition);
    let end = found.and_then(|partition| {
        partition.check_leader(LeaderEpoch(asked.current_leader_epoch))?;
        Ok(partition.end_of_epoch(LeaderEpoch(asked.leader_epoch)))
    });
    let (error, end) = match end {
        Ok(end) => (ErrorCode::None, end),
        Err(error) => (error, None),
    };
    EpochEndOffset {
        error_code: error.code(),
        partition: asked.partition,
        leader_epoch: end.map_or(-1, |(epoch, _)| epoch.0),
        end_offset: end.map_or(-1, |(_, offset)| offset.0),
    }
}
