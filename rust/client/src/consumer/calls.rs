//! What a consumer asks brokers for its callers, as futures for the client's thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use kafkalite_connection::{TopicImage, Wanted};
use kafkalite_protocol::ErrorCode;
use parking_lot::Mutex;

use super::due::Due;
use super::shared::Shared;
use crate::config::IsolationLevel;
use crate::consumer::commits::{self, Committed, Offsets};
use crate::consumer::cursor::Position;
use crate::consumer::group_state::{GroupEvent, GroupMember, Membership};
use crate::consumer::missing::{check_partitions, lacks};
use crate::consumer::offsets::{self, OffsetAnswer, Question};
use crate::error::ClientError;
use crate::topic_partition::TopicPartition;

/// Commits what is due.
///
/// # Errors
/// The first partition's refusal; others may have been committed.
pub async fn commit(shared: Arc<Shared>, due: Due, deadline: Instant) -> Result<(), ClientError> {
    commit_each(&shared, &due, deadline).await.into_values().collect()
}

/// Commits what is due by itself: of a partition that is gone there is nothing to be kept.
///
/// # Errors
/// As [`commit`].
pub(super) async fn commit_by_itself(
    shared: &Shared,
    due: &Due,
    deadline: Instant,
) -> Result<(), ClientError> {
    let answers = commit_each(shared, due, deadline).await;
    for (partition, answer) in answers {
        match answer {
            Err(error) if is_gone(&error) => {
                tracing::debug!(%partition, %error, "nothing is committed for it");
            }
            answer => answer?,
        }
    }
    Ok(())
}

fn is_gone(error: &ClientError) -> bool {
    let unknown = [ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicId];
    matches!(error, ClientError::NoPartition { .. })
        || error.code().is_some_and(|code| unknown.contains(&code))
}

/// Ends a call at its deadline, though a broker that it waits for is silent.
async fn in_time<T>(
    what: &str,
    deadline: Instant,
    call: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let began = Instant::now();
    let late = |_| {
        let after_ms = began.elapsed().as_millis() as u64;
        Err(ClientError::Timeout { what: what.to_owned(), after_ms })
    };
    tokio::time::timeout_at(deadline.into(), call).await.unwrap_or_else(late)
}

async fn commit_each(shared: &Shared, due: &Due, deadline: Instant) -> commits::Answers {
    let answers = async { Ok(commit_one_after_the_other(shared, due, deadline).await) };
    in_time("a commit", deadline, answers).await.unwrap_or_else(|late| {
        due.offsets.keys().map(|partition| (partition.clone(), Err(late.clone()))).collect()
    })
}

async fn commit_one_after_the_other(
    shared: &Shared,
    due: &Due,
    deadline: Instant,
) -> commits::Answers {
    let Some(group) = shared.config.group_id.as_ref().filter(|_| !due.offsets.is_empty()) else {
        return commits::Answers::new();
    };
    // Before anything is asked: commits go out in the order in which they were made.
    let _one_after_the_other = shared.commits.lock().await;
    let due_now = due.still_due(&shared.subscription.lock());
    // A broker would answer for what the cluster lacks as for what comes yet, and be asked again
    // until the deadline.
    let image = shared.cluster.image();
    let there = due_now.iter().filter(|(one, _)| lacks(&image, one).is_none());
    let there: Offsets = there.map(|(one, told)| (one.clone(), told.clone())).collect();
    let me = due.me.as_ref();
    let mut answers =
        commits::commit(&shared.cluster, group, me, (&there, &due.ids), deadline).await;
    if there.len() < due_now.len() {
        let mut missing = due_now;
        missing.retain(|one, _| !there.contains_key(one));
        let lacking = lacking(shared, &missing, deadline).await;
        missing.retain(|one, _| !lacking.contains_key(one));
        answers.extend(lacking);
        let late = (&missing, &due.ids);
        answers.extend(commits::commit(&shared.cluster, group, me, late, deadline).await);
    }
    note(shared, due, &answers);
    answers
}

/// Those of `missing` that are not there after one more look.
async fn lacking(shared: &Shared, missing: &Offsets, deadline: Instant) -> commits::Answers {
    let partitions: Vec<_> = missing.keys().cloned().collect();
    let Err(error) = check_partitions(&shared.cluster, &partitions, deadline).await else {
        return commits::Answers::new();
    };
    let image = shared.cluster.image();
    let lacks = |one: TopicPartition| {
        let known = image.topic(&one.topic).is_some();
        let error = lacks(&image, &one).or_else(|| (!known).then(|| error.clone()))?;
        Some((one, Err(error)))
    };
    partitions.into_iter().filter_map(lacks).collect()
}

/// Takes note of what came of a commit.
fn note(shared: &Shared, due: &Due, answers: &commits::Answers) {
    let mut subscription = shared.subscription.lock();
    for (partition, (told, made)) in due.of_assigned() {
        if matches!(answers.get(partition), Some(Ok(()))) {
            subscription.committed(partition, told.position, made);
        }
    }
    drop(subscription);
    let (Some(me), Some(member)) = (&due.me, &shared.member) else { return };
    let refusals = answers.values().filter_map(|answer| answer.as_ref().err()?.code());
    for code in refusals {
        // After the first the member is of that generation no more.
        member.lock().commit_refused(code, me.generation, Instant::now());
        shared.group.notify_one();
    }
}

/// Commits what earlier calls handed out.
///
/// # Errors
/// When the consumer is no member of its group now, or as [`commit`].
pub async fn commit_done(shared: Arc<Shared>, deadline: Instant) -> Result<(), ClientError> {
    let due = Due::done(&shared, None)?;
    commit_by_itself(&shared, &due, deadline).await
}

/// Commits the processed records of partitions that are about to be given up: of `only` these, or
/// of all. A commit that a rebalance refuses is repeated after the rebalance: until this member
/// answers, no other member gets its partitions. The wait takes half of the time at most, because
/// the member may still have to leave the group.
///
/// Java's consumer joins in calls of its user only and cannot wait: it goes without that commit.
///
/// # Errors
/// As [`commit_done`].
pub async fn commit_last(
    shared: Arc<Shared>,
    only: Option<Vec<TopicPartition>>,
    deadline: Instant,
) -> Result<(), ClientError> {
    let patience = deadline.saturating_duration_since(Instant::now()) / 2;
    let mut due = Due::done(&shared, only.as_deref())?;
    loop {
        let Err(error) = commit_by_itself(&shared, &due, deadline).await else { return Ok(()) };
        let is_taken_later = |(member, me): (&Mutex<GroupMember>, &Membership)| {
            error.code().is_some_and(|code| member.lock().goes_on_from(me.generation, code))
        };
        let again = shared.retry_at();
        if !shared.member.as_ref().zip(due.me.as_ref()).is_some_and(is_taken_later)
            || again + patience >= deadline
        {
            return Err(error);
        }
        tokio::time::sleep_until(again.into()).await;
        let left: Vec<_> = due.offsets.keys().cloned().collect();
        {
            let subscription = shared.subscription.lock();
            if !left.iter().any(|partition| subscription.get(partition).is_some()) {
                // The member was removed meanwhile: another member has the partitions, and some
                // commits are lost.
                return Err(error);
            }
        }
        due = Due::done(&shared, Some(&left)).map_err(|_| error)?;
    }
}

/// Commits what is done of partitions that are taken away by hand. It counts as under way from now
/// on, until the future is done or dropped.
pub(super) fn commit_taken_away(
    shared: &Arc<Shared>,
    due: Due,
) -> impl Future<Output = ()> + Send + use<> {
    let under_way = UnderWay::of(shared);
    async move {
        let shared = &under_way.0;
        let deadline = Instant::now() + shared.config.client.connection.request_timeout;
        if let Err(error) = commit_by_itself(shared, &due, deadline).await {
            tracing::warn!(%error, "the last commit of partitions that were taken away");
        }
    }
}

/// A commit that is under way until this is dropped.
struct UnderWay(Arc<Shared>);

impl UnderWay {
    fn of(shared: &Arc<Shared>) -> Self {
        shared.last_commits.send_modify(|count| *count += 1);
        Self(Arc::clone(shared))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.last_commits.send_modify(|count| *count -= 1);
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

/// The work before `event` is shown: the last commit of partitions that go, if commits are
/// automatic.
///
/// # Errors
/// As [`commit`]; the event is shown anyway.
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
        let deadline = Instant::now() + shared.config.client.connection.request_timeout;
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
    let asked = commits::fetch_committed(&shared.cluster, group, &partitions, deadline);
    in_time("committed offsets", deadline, asked).await
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
    in_time("offsets", deadline, ask_for_offsets(shared, wanted, isolation, deadline)).await
}

async fn ask_for_offsets(
    shared: Arc<Shared>,
    wanted: BTreeMap<TopicPartition, i64>,
    isolation: IsolationLevel,
    deadline: Instant,
) -> Result<BTreeMap<TopicPartition, Option<OffsetAnswer>>, ClientError> {
    shared.cluster.named(wanted.keys().map(|partition| &*partition.topic));
    let mut left: Vec<_> =
        wanted.into_iter().map(|(partition, about)| Question { partition, about }).collect();
    let mut found = BTreeMap::new();
    let mut failures = 0;
    loop {
        let partitions: Vec<_> = left.iter().map(|question| question.partition.clone()).collect();
        check_partitions(&shared.cluster, &partitions, deadline).await?;
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
        let wait = shared.config.client.connection.retry_backoff.after(failures);
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
    shared.cluster.named([name.as_str()]);
    Ok(shared.cluster.topic(&name, deadline).await?)
}

/// All topics there are.
///
/// # Errors
/// If no broker answers.
pub async fn topics(shared: Arc<Shared>) -> Result<Vec<Arc<TopicImage>>, ClientError> {
    let image = shared.cluster.refresh(Wanted::All).await?;
    Ok(image.topics().cloned().collect())
}

/// The next offset that is handed out, waiting until that is known. It is before what a call has
/// taken that is still under way: callers commit it.
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
        check_partitions(&shared.cluster, std::slice::from_ref(&partition), deadline).await?;
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
            if let Some(position) = state.handed_out() {
                return Ok(position);
            }
            if matches!(state.status(), crate::consumer::subscription::Status::NoPosition) {
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
