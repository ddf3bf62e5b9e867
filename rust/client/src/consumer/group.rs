//! Carries out what the member of a group wants: the task that talks to its coordinator.
//!
//! It runs on the client's own thread, so heartbeats go on whatever the program does meanwhile.
//! Joins and heartbeats have a connection of their own: a Join waits for the slowest member.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kafkalite_connection::{CoordinatorKind, Lane, NodeId, Wanted};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;
use kafkalite_protocol::messages::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
};
use kafkalite_protocol::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use kafkalite_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use parking_lot::Mutex;

use crate::consumer::coordinating::retry_or_fail;
use crate::consumer::group_state::{Action, GroupMember, Joined, JoinedMember, Membership};
use crate::consumer::shared::{Shared, sleep_until};
use crate::consumer::subscription::Wish;
use crate::error::ClientError;

#[cfg(test)]
mod tests;

/// What members of consumer groups call their protocol.
const PROTOCOL_TYPE: &str = "consumer";
/// The coordinator answers a Join when the rebalance is over, and a little later.
const JOIN_GRACE: Duration = Duration::from_secs(5);

/// Carries out what `member` wants, until it is dropped.
pub async fn run(shared: Arc<Shared>) {
    let Some(member) = &shared.member else { return };
    let group = Group { shared: &shared, member };
    let mut images = shared.cluster.images();
    loop {
        images.borrow_and_update();
        group.see_metadata();
        group.show_events();
        let action = {
            let mut member = member.lock();
            let now = Instant::now();
            if shared.was_called() {
                member.user_called(now);
            }
            member.next(now)
        };
        if let Action::Wait(until) = action {
            tokio::select! {
                () = shared.group.notified() => {}
                _ = images.changed() => {}
                () = sleep_until(until) => {}
            }
        } else {
            group.carry_out(action).await;
        }
    }
}

struct Group<'a> {
    shared: &'a Shared,
    member: &'a Mutex<GroupMember>,
}

impl Group<'_> {
    /// Tells the member what its wishes mean now, and how many partitions there are.
    fn see_metadata(&self) {
        let image = self.shared.cluster.image();
        // Locked for both looks: a caller that unsubscribes between them leaves, and must not join
        // again.
        let mut member = self.member.lock();
        let wanted: Option<BTreeSet<Arc<str>>> = match self.shared.subscription.lock().wish() {
            Wish::Topics(topics) => Some(topics.clone()),
            // Before the first answer it is unknown what matches.
            Wish::Pattern(filter) if image.generation() > 0 => {
                Some(self.shared.matching(&image, &**filter).into_iter().collect())
            }
            _ => None,
        };
        if let Some(wanted) = wanted {
            member.want(wanted, Instant::now());
        }
        member.see_counts(|topic| match image.topic(topic) {
            Some(topic) => Some(topic.partitions.len() as i32),
            None => image.is_missing(topic).then_some(0),
        });
    }

    /// Without a listener, new partitions are taken at once, and lost ones are dropped. Partitions
    /// that are about to be given up wait for the user, who may be working on them.
    fn show_events(&self) {
        let mut member = self.member.lock();
        while !self.shared.is_listened_to() && !member.next_event_is_revoke() {
            let Some(event) = member.show_event() else { break };
            self.shared.apply(&event, &member);
            member.acknowledge();
        }
        if member.has_event() || member.failure().is_some() {
            drop(member);
            self.shared.buffer.call_attention();
        }
    }

    async fn carry_out(&self, action: Action) {
        match action {
            Action::FindCoordinator => self.find_coordinator().await,
            Action::Join { member_id, protocols, reason } => {
                let protocols = protocols.into_iter().map(|(name, metadata)| {
                    JoinGroupRequestProtocol { name: name.to_owned(), metadata }
                });
                self.join(member_id, protocols.collect(), reason).await;
            }
            Action::CountPartitions(topics) => self.count(topics).await,
            Action::Sync { protocol, assignments } => {
                let assignments = assignments.into_iter().map(|(member_id, assignment)| {
                    SyncGroupRequestAssignment { member_id, assignment }
                });
                self.sync(protocol, assignments.collect()).await;
            }
            Action::Heartbeat => self.heartbeat().await,
            Action::Leave { member_id, reason } => {
                let deadline =
                    Instant::now() + self.shared.config.client.connection.request_timeout;
                leave(self.shared, member_id, reason, deadline).await;
            }
            Action::Wait(_) => {}
        }
    }

    async fn find_coordinator(&self) {
        let group = self.member.lock().config().group_id.clone();
        // A caller that asks again has reason to doubt the known one.
        self.shared.cluster.forget_coordinator(CoordinatorKind::Group, &group);
        let found = self.shared.cluster.coordinator(CoordinatorKind::Group, &group).await;
        let now = Instant::now();
        match found {
            Ok(_) => self.member.lock().coordinator_found(now),
            Err(error) => {
                self.member.lock().coordinator_failed(error.code(), now);
                self.shared.report_unless_passing(error);
            }
        }
    }

    async fn coordinator(&self) -> Result<(NodeId, String), ClientError> {
        let group = self.member.lock().config().group_id.clone();
        let node = self.shared.cluster.coordinator(CoordinatorKind::Group, &group).await?;
        Ok((node, group))
    }

    async fn join(
        &self,
        member_id: String,
        protocols: Vec<JoinGroupRequestProtocol>,
        reason: String,
    ) {
        if matches!(self.shared.subscription.lock().wish(), Wish::Pattern(_)) {
            // A topic that came since must not make the round a wrong one.
            if let Err(error) = self.shared.cluster.refresh(Wanted::All).await {
                self.shared.report_unless_passing(error);
            }
        }
        let config = &self.shared.config;
        let (session, rebalance) = (config.session_timeout, config.max_poll_interval);
        let instance = config.group_instance_id.clone();
        let answer = async {
            let (node, group) = self.coordinator().await?;
            let timeout = rebalance.max(config.client.connection.request_timeout) + JOIN_GRACE;
            let build = |version| JoinGroupRequest {
                group_id: group,
                session_timeout_ms: ms(session),
                rebalance_timeout_ms: ms(rebalance),
                member_id,
                group_instance_id: instance,
                protocol_type: PROTOCOL_TYPE.to_owned(),
                protocols,
                reason: (version >= 8).then_some(reason),
            };
            Ok(self.shared.cluster.send_on(node, Lane::Group, timeout, build).await?)
        };
        let answer = answer.await;
        if let Action::CountPartitions(topics) = self.take_join(answer.map(|(_, told)| told)) {
            self.count(topics).await;
        }
    }

    fn take_join(&self, answer: Result<JoinGroupResponse, ClientError>) -> Action {
        let now = Instant::now();
        let mut member = self.member.lock();
        match answer {
            Ok(response) => match ErrorCode::from_code(response.error_code) {
                ErrorCode::None => return member.joined(joined(response), now),
                code => member.join_failed(code, &response.member_id, now),
            },
            Err(error) => self.failed(&mut member, error, now),
        }
        Action::Wait(None)
    }

    /// The leader needs to know how many partitions all the wanted topics have, as fresh as it
    /// gets where one is missing.
    async fn count(&self, topics: BTreeSet<Arc<str>>) {
        let names: Vec<&str> = topics.iter().map(|topic| &**topic).collect();
        let image = self.shared.cluster.look_up(&names).await.unwrap_or_else(|error| {
            self.shared.report_unless_passing(error);
            self.shared.cluster.image()
        });
        let count = |name| image.topic(name).map_or(0, |topic| topic.partitions.len() as i32);
        let counts = topics.iter().map(|name| (Arc::clone(name), count(name))).collect();
        self.member.lock().counted(counts);
        // From now on topics that are missing are asked for.
        self.shared.settle.notify_one();
    }

    async fn sync(&self, protocol: String, assignments: Vec<SyncGroupRequestAssignment>) {
        let Some(me) = self.member.lock().membership() else { return };
        let config = &self.shared.config;
        let answer = async {
            let (node, group) = self.coordinator().await?;
            let timeout =
                config.max_poll_interval.max(config.client.connection.request_timeout) + JOIN_GRACE;
            let build = |version| SyncGroupRequest {
                group_id: group,
                generation_id: me.generation,
                member_id: me.member_id,
                group_instance_id: me.instance_id,
                protocol_type: (version >= 5).then(|| PROTOCOL_TYPE.to_owned()),
                protocol_name: (version >= 5).then_some(protocol),
                assignments,
            };
            Ok(self.shared.cluster.send_on(node, Lane::Group, timeout, build).await?)
        };
        let answer = answer.await;
        let now = Instant::now();
        let mut member = self.member.lock();
        match answer {
            Ok((_, response)) => match ErrorCode::from_code(response.error_code) {
                ErrorCode::None => member.synced(response.assignment, now),
                code => member.sync_failed(code, now),
            },
            Err(error) => self.failed(&mut member, error, now),
        }
    }

    async fn heartbeat(&self) {
        let Some(Membership { generation, member_id, instance_id }) =
            self.member.lock().membership()
        else {
            return;
        };
        let config = &self.shared.config;
        let answer = async {
            let (node, group) = self.coordinator().await?;
            let timeout = config.client.connection.request_timeout.min(config.session_timeout);
            let build = |_| HeartbeatRequest {
                group_id: group,
                generation_id: generation,
                member_id,
                group_instance_id: instance_id,
            };
            Ok(self.shared.cluster.send_on(node, Lane::Group, timeout, build).await?)
        };
        let answer = answer.await;
        let now = Instant::now();
        let mut member = self.member.lock();
        match answer {
            Ok((_, response)) => {
                member.heartbeat_answered(ErrorCode::from_code(response.error_code), now);
            }
            Err(error) => self.failed(&mut member, error, now),
        }
    }

    fn failed(&self, member: &mut GroupMember, error: ClientError, now: Instant) {
        member.coordinator_lost(now);
        self.shared.report_unless_passing(error);
    }
}

fn joined(response: JoinGroupResponse) -> Joined {
    let member =
        |one: kafkalite_protocol::messages::join_group::JoinGroupResponseMember| JoinedMember {
            member_id: one.member_id,
            instance_id: one.group_instance_id,
            metadata: one.metadata,
        };
    Joined {
        generation: response.generation_id,
        member_id: response.member_id,
        protocol: response.protocol_name.unwrap_or_default(),
        leader: response.leader,
        skip_assignment: response.skip_assignment,
        members: response.members.into_iter().map(member).collect(),
    }
}

fn ms(duration: Duration) -> i32 {
    duration.as_millis().min(i32::MAX as u128) as i32
}

/// Says goodbye: a member that stays holds up the others until its session ends. Where the known
/// coordinator is gone, the next one hears it. It ends by `deadline`, or where no broker is there.
/// On the data lane: a Join that waits on the group's own must not hold it up.
pub async fn leave(shared: &Shared, member_id: String, reason: String, deadline: Instant) {
    let Some(group) = &shared.config.group_id else { return };
    let mut failures = 0;
    while let Err(error) = leave_once(shared, group, &member_id, &reason).await {
        let again = match error {
            ClientError::NoBrokerReachable { .. } => Err(error),
            _ => retry_or_fail(&shared.cluster, group, error, &mut failures, deadline).await,
        };
        if let Err(error) = again {
            tracing::debug!(%error, "the goodbye did not arrive: the session's end will do");
            return;
        }
    }
}

async fn leave_once(
    shared: &Shared,
    group: &str,
    member_id: &str,
    reason: &str,
) -> Result<(), ClientError> {
    let node = shared.cluster.coordinator(CoordinatorKind::Group, group).await?;
    let build = |version: i16| {
        let is_alone = version < 3;
        let member = MemberIdentity {
            member_id: member_id.to_owned(),
            group_instance_id: None,
            reason: (version >= 5).then(|| reason.to_owned()),
        };
        LeaveGroupRequest {
            group_id: group.to_owned(),
            member_id: if is_alone { member_id.to_owned() } else { String::new() },
            members: if is_alone { Vec::new() } else { vec![member] },
        }
    };
    let (_, response) = shared.cluster.send(node, build).await?;
    ClientError::check(response.error_code, None, || format!("leaving group {group}"))
}
