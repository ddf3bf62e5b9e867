//! What an operator says of the voters of the controller quorum.
//!
//! What is said is a record of metadata, so every leader knows of it, also after a restart. The
//! leader makes it so in its next turns. The answer comes when it is so.

use super::{Cluster, Member};
use crate::metadata::controller::OnAnswer;
use crate::metadata::{ApiError, Voting};
use kafkalite_protocol::messages::Request;
use kafkalite_protocol::{ErrorCode, Uuid};
use kafkalite_quorum::VoterId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks at whether it is so.
const LOOK: Duration = Duration::from_millis(50);

/// A request about the vote of one broker.
pub struct VoterRequest {
    /// The cluster that is meant, if the client says so.
    pub cluster_id: Option<String>,
    /// The broker.
    pub broker_id: i32,
    /// The directory of its log.
    pub directory_id: Uuid,
    /// How long the client waits.
    pub timeout_ms: u64,
}

impl Cluster {
    /// Makes a broker a voter.
    pub fn add_voter(self: Arc<Self>, request: VoterRequest, done: OnAnswer<()>) {
        let voters = self.voters();
        let id = request.id();
        let refused = self.is_meant(&request).and_then(|()| {
            if voters.iter().any(|voter| voter.node_id == id.node_id) {
                let message = format!(
                    "The voter id for {id} is already part of the set of voters {}.",
                    listed(&voters)
                );
                return Err(ApiError::new(ErrorCode::DuplicateVoter, message));
            }
            Ok(())
        });
        match refused {
            Ok(()) => self.say(&request, Voting::Always, done),
            Err(error) => done.tell(Err(error)),
        }
    }

    /// Takes the vote of a broker away.
    pub fn remove_voter(self: Arc<Self>, request: VoterRequest, done: OnAnswer<()>) {
        let voters = self.voters();
        let id = request.id();
        let image = self.controller().image();
        let is_kept = |voter: &&VoterId| {
            let broker = image.brokers.get(&voter.node_id);
            **voter != id && broker.is_some_and(|broker| broker.voting != Voting::Never)
        };
        let refused = self.is_meant(&request).and_then(|()| {
            if !voters.contains(&id) {
                let message =
                    format!("Cannot remove voter {id} from the set of voters {}", listed(&voters));
                return Err(ApiError::new(ErrorCode::VoterNotFound, message));
            }
            if voters.iter().filter(is_kept).count() == 0 {
                let message = format!("{id} is the last voter: a quorum has one at least.");
                return Err(ApiError::new(ErrorCode::InvalidRequest, message));
            }
            Ok(())
        });
        match refused {
            Ok(()) => self.say(&request, Voting::Never, done),
            Err(error) => done.tell(Err(error)),
        }
    }

    fn is_meant(&self, request: &VoterRequest) -> Result<(), ApiError> {
        let own = &*self.identity.cluster_id;
        match request.cluster_id.as_deref().filter(|meant| *meant != own) {
            None => Ok(()),
            Some(other) => {
                let message = format!("This is cluster {own}, not {other}.");
                Err(ApiError::new(ErrorCode::InconsistentClusterId, message))
            }
        }
    }

    /// The voters, as far as this broker knows.
    fn voters(&self) -> Vec<VoterId> {
        match self.running() {
            Some(member) => member.raft.raft_status().voters.iter().map(|one| one.id).collect(),
            None => vec![self.identity.voter],
        }
    }

    fn say(self: Arc<Self>, request: &VoterRequest, voting: Voting, done: OnAnswer<()>) {
        let (id, timeout) = (request.id(), Duration::from_millis(request.timeout_ms));
        let this = Arc::clone(&self);
        let said = move |done: OnAnswer<()>, said| match (said, this.running()) {
            (Ok(()), Some(member)) => {
                let runtime = member.peers.runtime().clone();
                drop(runtime.spawn(async move {
                    done.tell(becomes(&member, id, voting == Voting::Always, timeout).await);
                }));
            }
            (said, _) => done.tell(said),
        };
        let said = done.through(said);
        self.controller.set_voting((id.node_id, id.directory_id), voting, said);
    }

    /// Asks the leader of the quorum in this broker's place. `None` if this broker leads, or knows
    /// of no leader, or gets no answer.
    pub fn ask_leader<R: Request + Send + 'static>(
        &self,
        request: R,
        done: impl FnOnce(Option<R::Response>) + Send + 'static,
    ) where
        R::Response: Send,
    {
        let Some(member) = self.running() else { return done(None) };
        let status = member.raft.raft_status();
        let Some((_, at)) = status.leader.filter(|(id, _)| *id != status.me) else {
            return done(None);
        };
        let (peers, runtime) = (Arc::clone(&member.peers), member.peers.runtime().clone());
        drop(runtime.spawn(async move { done(peers.ask(&at, request).await.ok()) }));
    }

    /// When a member of the quorum had every record, in ms since 1970; only the leader knows.
    pub fn caught_up_ms(&self, id: VoterId) -> Option<i64> {
        self.running()?.watch.lock().caught_up_ms(id)
    }
}

impl VoterRequest {
    const fn id(&self) -> VoterId {
        VoterId { node_id: self.broker_id, directory_id: self.directory_id }
    }
}

fn listed(voters: &[VoterId]) -> String {
    voters.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Waits until a broker is a voter, or is none.
async fn becomes(
    member: &Member,
    id: VoterId,
    votes: bool,
    timeout: Duration,
) -> Result<(), ApiError> {
    let begun = Instant::now();
    loop {
        let status = member.raft.raft_status();
        if status.voters.iter().any(|one| one.id == id) == votes {
            return Ok(());
        }
        if begun.elapsed() >= timeout {
            let message = "The leader has not changed the voters yet. It goes on trying.";
            return Err(ApiError::new(ErrorCode::RequestTimedOut, message));
        }
        tokio::time::sleep(LOOK).await;
    }
}
