//! What a consumer asks brokers for its callers, as futures for the client's thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use kafkalite_protocol::ErrorCode;
use parking_lot::Mutex;

use super::Shared;
use crate::cluster::{TopicImage, Wanted};
use crate::commits::{self, Committed, Offsets};
use crate::config::IsolationLevel;
use crate::cursor::Position;
use crate::error::ClientError;
use crate::group_state::{GroupEvent, GroupMember, Membership};
use crate::offsets::{self, OffsetAnswer, Question};
use crate::topic_partition::TopicPartition;

/// Commits `offsets`.
///
/// # Errors
/// Without a group, when the member is not one any more, or as the coordinator refuses.
pub async fn commit(
    shared: Arc<Shared>,
    offsets: Offsets,
    deadline: Instant,
) -> Result<(), ClientError> {
    let Some(group) = &shared.config.group_id else {
        let why = "offsets are committed for a group: set group.id".to_owned();
        return Err(ClientError::IllegalState { why });
    };
    if offsets.is_empty() {
        return Ok(());
    }
    // Who we are now, not when it is our turn: a later generation may have given the partitions
    // to others, and must refuse what is older.
    let by_group = shared.subscription.lock().wish().is_by_group();
    let me = match &shared.member {
        Some(member) if by_group => member.lock().membership(),
        _ => None,
    };
    if by_group && me.is_none() {
        let about = format!("commit for group {group}: this consumer is no member of it now");
        return Err(ClientError::broker(ErrorCode::UnknownMemberId, about));
    }
    // A broker would answer as for one that comes yet, and be asked again until the deadline.
    let image = shared.cluster.image();
    let missing = |one: &&TopicPartition| image.lacks(one).is_some();
    let missing: Vec<_> = offsets.keys().filter(missing).cloned().collect();
    shared.cluster.check_partitions(&missing, deadline).await?;
    let _one_after_the_other = shared.commits.lock().await;
    let result = commits::commit(&shared.cluster, group, me.as_ref(), &offsets, deadline).await;
    match &result {
        Ok(()) => {
            let positions = offsets.iter().map(|(one, told)| (one.clone(), told.position));
            shared.subscription.lock().committed(&positions.collect());
        }
        Err(error) => {
            if let (Some(code), Some(me), Some(member)) = (error.code(), &me, &shared.member) {
                member.lock().commit_refused(code, me.generation, Instant::now());
                shared.group.notify_one();
            }
        }
    }
    result
}

/// All positions, as offsets to be committed: what was handed out until now.
pub fn handed_out(shared: &Shared) -> Offsets {
    without_metadata(shared.subscription.lock().positions())
}

fn without_metadata(positions: BTreeMap<TopicPartition, Position>) -> Offsets {
    let plain = |position| Committed { position, metadata: String::new() };
    positions.into_iter().map(|(partition, position)| (partition, plain(position))).collect()
}

/// Commits what earlier calls handed out.
///
/// # Errors
/// As [`commit`].
pub async fn commit_done(shared: Arc<Shared>, deadline: Instant) -> Result<(), ClientError> {
    let done = shared.subscription.lock().to_commit();
    commit(shared, without_metadata(done), deadline).await
}

/// Commits what is done of partitions that are about to be given up: of `only` these, or of all.
/// What a rebalance refuses is committed when it is over: until this member says otherwise nobody
/// else is given what it holds. It waits for that for half of the time at most, for there may be a
/// goodbye to say.
///
/// Java's consumer joins in calls of its user only and cannot wait: it goes without that commit.
///
/// # Errors
/// As [`commit`].
pub async fn commit_last(
    shared: Arc<Shared>,
    only: Option<Vec<TopicPartition>>,
    deadline: Instant,
) -> Result<(), ClientError> {
    let patience = deadline.saturating_duration_since(Instant::now()) / 2;
    let mut done = shared.subscription.lock().to_commit();
    if let Some(only) = only {
        done.retain(|partition, _| only.contains(partition));
    }
    loop {
        let sent_as = shared.member.as_ref().and_then(|member| member.lock().membership());
        let committed = commit(Arc::clone(&shared), without_metadata(done.clone()), deadline).await;
        let Err(error) = committed else { return Ok(()) };
        let is_taken_later = |(member, me): (&Mutex<GroupMember>, Membership)| {
            error.code().is_some_and(|code| member.lock().goes_on_from(me.generation, code))
        };
        let again = shared.retry_at();
        if !shared.member.as_ref().zip(sent_as).is_some_and(is_taken_later)
            || again + patience >= deadline
        {
            return Err(error);
        }
        tokio::time::sleep_until(again.into()).await;
        let subscription = shared.subscription.lock();
        if !done.keys().any(|partition| subscription.get(partition).is_some()) {
            // It was thrown out meanwhile: somebody else has them, and something was left to do.
            return Err(error);
        }
        let mut left = subscription.to_commit();
        left.retain(|partition, _| done.contains_key(partition));
        done = left;
    }
}

/// Waits until every commit that was begun has ended.
///
/// # Errors
/// None.
pub async fn all_commits_out(shared: Arc<Shared>) -> Result<(), ClientError> {
    drop(shared.commits.lock().await);
    Ok(())
}

/// What is due before `event` is told: the last commit of what goes, if commits are automatic.
///
/// # Errors
/// As [`commit`]; the event goes on all the same.
pub async fn before_event(
    shared: Arc<Shared>,
    event: GroupEvent,
    deadline: Instant,
) -> Result<(), ClientError> {
    match event {
        GroupEvent::Revoke(gone) if shared.config.auto_commit => {
            commit_last(shared, Some(gone), deadline).await
        }
        _ => Ok(()),
    }
}

/// Commits every `auto.commit.interval.ms`, until it is dropped.
pub async fn commit_from_time_to_time(shared: Arc<Shared>) {
    let interval = shared.config.auto_commit_interval.max(std::time::Duration::from_millis(1));
    loop {
        tokio::time::sleep(interval).await;
        let deadline = Instant::now() + shared.config.client.request_timeout;
        if let Err(error) = commit_done(Arc::clone(&shared), deadline).await {
            // A rebalance is under way, or the coordinator moves: the next one carries it too.
            if error.retriable() || error.code() == Some(ErrorCode::UnknownMemberId) {
                tracing::debug!(%error, "automatic commit");
            } else {
                tracing::warn!(%error, "automatic commit");
            }
        }
    }
}

/// What the group committed for `partitions`.
///
/// # Errors
/// Without a group, or as the coordinator refuses.
pub async fn committed(
    shared: Arc<Shared>,
    partitions: Vec<TopicPartition>,
    deadline: Instant,
) -> Result<BTreeMap<TopicPartition, Option<Committed>>, ClientError> {
    let Some(group) = &shared.config.group_id else {
        let why = "offsets are committed for a group: set group.id".to_owned();
        return Err(ClientError::IllegalState { why });
    };
    commits::fetch_committed(&shared.cluster, group, &partitions, deadline).await
}

/// The offsets of timestamps, or of ends, as ListOffsets spells them; `None` where no record is as
/// new.
///
/// # Errors
/// What the last try said at `deadline`, or at once what waiting does not mend.
pub async fn offsets(
    shared: Arc<Shared>,
    wanted: BTreeMap<TopicPartition, i64>,
    deadline: Instant,
) -> Result<BTreeMap<TopicPartition, Option<OffsetAnswer>>, ClientError> {
    let isolation = shared.config.isolation_level;
    offsets_as_seen(shared, wanted, isolation, deadline).await
}

/// The same as readers of `isolation` see them: the end of a log is that of its stable part, or
/// that of all its records.
///
/// # Errors
/// As [`offsets`].
pub async fn offsets_as_seen(
    shared: Arc<Shared>,
    wanted: BTreeMap<TopicPartition, i64>,
    isolation: IsolationLevel,
    deadline: Instant,
) -> Result<BTreeMap<TopicPartition, Option<OffsetAnswer>>, ClientError> {
    let mut left: Vec<_> =
        wanted.into_iter().map(|(partition, about)| Question { partition, about }).collect();
    let mut found = BTreeMap::new();
    let mut failures = 0;
    loop {
        let partitions: Vec<_> = left.iter().map(|question| question.partition.clone()).collect();
        shared.cluster.check_partitions(&partitions, deadline).await?;
        let answers = offsets::list_offsets(&shared.cluster, isolation, left).await;
        left = Vec::new();
        let mut last = None;
        for (question, answer) in answers {
            match answer {
                Ok(answer) => {
                    let answer = Some(answer).filter(|answer| answer.offset >= 0);
                    found.insert(question.partition, answer);
                }
                Err(error) if error.retriable() || error.is_transport() => {
                    last = Some(error);
                    left.push(question);
                }
                Err(error) => return Err(error),
            }
        }
        let Some(error) = last else { return Ok(found) };
        failures += 1;
        let wait = shared.config.client.retry_backoff.after(failures);
        if Instant::now() + wait >= deadline {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
    }
}

/// A topic's partitions and who leads them.
///
/// # Errors
/// As [`crate::Cluster::topic`].
pub async fn topic(
    shared: Arc<Shared>,
    name: String,
    deadline: Instant,
) -> Result<Arc<TopicImage>, ClientError> {
    shared.cluster.topic(&name, deadline).await
}

/// All topics there are.
///
/// # Errors
/// If no broker answers.
pub async fn topics(shared: Arc<Shared>) -> Result<Vec<Arc<TopicImage>>, ClientError> {
    let image = shared.cluster.refresh(Wanted::All).await?;
    Ok(image.topics().cloned().collect())
}

/// The next offset that is handed out, waiting until that is known.
///
/// # Errors
/// If the partition is not assigned, has no offset to begin at, or at `deadline`.
pub async fn position(
    shared: Arc<Shared>,
    partition: TopicPartition,
    deadline: Instant,
) -> Result<Position, ClientError> {
    let began = Instant::now();
    if shared.subscription.lock().get(&partition).is_some() {
        shared.cluster.check_partitions(std::slice::from_ref(&partition), deadline).await?;
    }
    let mut settled = shared.settled.subscribe();
    loop {
        settled.borrow_and_update();
        {
            let subscription = shared.subscription.lock();
            let Some(state) = subscription.get(&partition) else {
                let why = format!("not assigned to this consumer: {partition}");
                return Err(ClientError::IllegalState { why });
            };
            if let Some(position) = state.position() {
                return Ok(position);
            }
            if matches!(state.status(), crate::subscription::Status::NoPosition) {
                return Err(ClientError::NoOffset { partitions: vec![partition.to_string()] });
            }
        }
        let late = tokio::time::timeout_at(deadline.into(), settled.changed()).await.is_err();
        if late {
            let after_ms = began.elapsed().as_millis() as u64;
            return Err(ClientError::Timeout {
                what: format!("the position in {partition}"),
                after_ms,
            });
        }
    }
}
