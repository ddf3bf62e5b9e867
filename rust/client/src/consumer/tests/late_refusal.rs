//! The last commit of a member, refused for a rebalance that is over when the refusal comes.

use kafkalite_connection::testing::{Held, hold, release};
use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;
use kafkalite_protocol::messages::offset_commit::OffsetCommitRequest;

use super::commits::{coordinated, told};
use super::last_commit::{all_else, joined, member, synced};
use super::*;

/// Generation and topics of a commit.
type Commit = (i32, Vec<String>);

/// A coordinator that answers the second of `awaits` when a commit came. It refuses that commit
/// after a heartbeat of the member in the second generation. So that generation is complete for the
/// member first.
struct Late {
    awaits: ApiKey,
    /// What the member is assigned in the second generation.
    second: Vec<TopicPartition>,
    held: Held,
    refusal: Held,
    commits: Arc<Mutex<Vec<Commit>>>,
}

impl Late {
    fn answer(&self, asked: &Asked) -> Answer {
        if asked.is(ApiKey::OffsetCommit) {
            return self.commit(asked);
        } else if asked.is(ApiKey::Heartbeat) {
            let request: HeartbeatRequest = asked.read();
            if request.generation_id == 2 {
                release(&self.refusal);
            }
        }
        let first = [x()];
        let answer = if asked.is(ApiKey::JoinGroup) {
            joined(asked, ErrorCode::None)
        } else if asked.is(ApiKey::SyncGroup) {
            synced(asked, if asked.before == 0 { &first } else { &self.second })
        } else {
            return all_else(asked);
        };
        match asked.is(self.awaits) && asked.before == 1 {
            true => hold(&self.held, answer),
            false => answer,
        }
    }

    fn commit(&self, asked: &Asked) -> Answer {
        let request: OffsetCommitRequest = asked.read();
        let generation = request.generation_id_or_member_epoch;
        let topics = request.topics.into_iter().map(|topic| topic.name).collect();
        self.commits.lock().push((generation, topics));
        if asked.before > 0 {
            return told(asked, ErrorCode::None);
        }
        let code = match generation {
            1 => ErrorCode::IllegalGeneration,
            _ => ErrorCode::RebalanceInProgress,
        };
        let refusal = hold(&self.refusal, told(asked, code));
        release(&self.held);
        refusal
    }
}

/// The commits of a member that closes while the coordinator's second answer to `awaits` is out.
fn commits_at_the_end(awaits: ApiKey, second: Vec<TopicPartition>) -> Vec<Commit> {
    let commits = Arc::new(Mutex::new(Vec::new()));
    let (held, refusal) = (Held::default(), Held::default());
    let group = Late { awaits, second, held, refusal, commits: Arc::clone(&commits) };
    let broker = coordinated(move |asked| group.answer(asked));
    let consumer = member(&broker, &["x", "y"]);
    broker.wait_for(awaits, 2);
    assert_eq!(consumer.close(Duration::from_secs(10), false), Ok(()));
    let commits = commits.lock();
    commits.clone()
}

/// It gave up: its generation was the one that refused it.
#[test]
fn what_is_refused_between_join_and_sync_is_committed_after_sync() {
    let commits = commits_at_the_end(ApiKey::SyncGroup, vec![x()]);
    let x = vec!["x".to_owned()];
    assert_eq!(commits, [(2, x.clone()), (2, x)]);
}

/// It took that for the assignment of one that had been thrown out.
#[test]
fn what_a_member_gets_in_a_rebalance_does_not_end_its_last_commit() {
    let commits = commits_at_the_end(ApiKey::JoinGroup, vec![x(), TopicPartition::new("y", 0)]);
    let x = vec!["x".to_owned()];
    assert_eq!(commits, [(1, x.clone()), (2, x)]);
}
