//! Finds out where to read: the task that gives each assigned partition a leader and a position.
//!
//! It follows the metadata, asks for committed offsets and resets, and has positions validated when
//! a leader changed (KIP-320). Whatever fails in a way that may pass is asked again after a wait.
//! Each question is a task of its own: a broker that is silent holds up its own partitions alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kafkalite_connection::{ClusterImage, NodeId, Wanted};
use tokio::task::JoinSet;

use crate::consumer::commits;
use crate::consumer::cursor::Position;
use crate::consumer::fetched::buffer::Content;
use crate::consumer::missing::lacks;
use crate::consumer::offsets::{self, Question};
use crate::consumer::shared::{Shared, see_image, sleep_until};
use crate::consumer::subscription::{EARLIEST, ResetWish, Status, Subscription, Truncation, Wish};
use crate::error::ClientError;
use crate::topic_partition::TopicPartition;

#[cfg(test)]
mod tests;

/// A topic that brokers do not know any more is looked for after this, if a pattern asks for it.
const BACK_SOON: Duration = Duration::from_millis(250);

/// Questions to brokers that are under way.
type Questions = JoinSet<()>;

/// Follows the subscription until it is dropped.
pub async fn run(shared: Arc<Shared>) {
    let mut images = shared.cluster.images();
    let (mut missing, mut questions) = (MissingTopics::default(), Questions::new());
    loop {
        images.borrow_and_update();
        let look_for_topics = follow_metadata(&shared, &mut missing);
        let wake = ask(&shared, &mut questions);
        shared.fetch.notify_one();
        shared.settled.send_modify(|count| *count += 1);
        if !shared.subscription.lock().without_position().is_empty() {
            shared.buffer.call_attention();
        }
        tokio::select! {
            () = shared.settle.notified() => {}
            _ = images.changed() => {}
            Some(_) = questions.join_next() => {}
            () = sleep_until(wake) => {}
            () = sleep_until(look_for_topics) => {}
        }
    }
}

/// Asks all questions that are due. A question is due again at the time that its answer gives.
/// Without an answer it is due after twice the time that an answer may take.
///
/// Returns when the next one is due, as of the same moment: one that comes due meanwhile counts.
fn ask(shared: &Arc<Shared>, questions: &mut Questions) -> Option<Instant> {
    let now = Instant::now();
    let again = now + 2 * shared.config.client.connection.request_timeout;
    let mut subscription = shared.subscription.lock();
    let committed: Vec<_> = match shared.config.group_id {
        Some(_) => {
            let due = subscription.committed_due(now).into_iter();
            due.map(|one| (subscription.life(&one), one)).collect()
        }
        None => Vec::new(),
    };
    let (resets, validations) = (subscription.resets_due(now), subscription.validations_due(now));
    let mut doubtful = subscription.old_leaders_due(now);
    doubtful.iter().for_each(|one| subscription.retry_later(one, shared.retry_at()));
    let age = shared.config.client.connection.metadata_max_age;
    if !age.is_zero() {
        doubtful.extend(subscription.quiet_due(now, age));
    }
    let asked = committed.iter().map(|(_, one)| one);
    let asked = asked.chain(resets.iter().map(|wish| &wish.partition));
    for one in asked.chain(validations.iter().map(|(one, _)| one)) {
        subscription.retry_later(one, again);
    }
    let wake = subscription.next_due(now);
    drop(subscription);
    if !doubtful.is_empty() {
        suspect_leaders(shared, &doubtful);
        shared.cluster.request_refresh();
    }
    if !committed.is_empty() {
        questions.spawn(find_committed(Arc::clone(shared), committed));
    }
    for due in by_leader(shared, resets, |wish| &wish.partition) {
        questions.spawn(find_resets(Arc::clone(shared), due));
    }
    for due in by_leader(shared, validations, |(one, _)| one) {
        questions.spawn(validate(Arc::clone(shared), due));
    }
    wake
}

/// The leaders of these partitions, as far as is known, may be cut off from their cluster.
pub fn suspect_leaders<'a>(
    shared: &Shared,
    partitions: impl IntoIterator<Item = &'a TopicPartition>,
) {
    let image = shared.cluster.image();
    for TopicPartition { topic, partition } in partitions {
        if let Some((node, _)) = image.leader(topic, *partition) {
            shared.cluster.suspect(node);
        }
    }
}

/// Topics that are asked for.
#[derive(Default)]
struct MissingTopics {
    asked: Option<tokio::task::JoinHandle<()>>,
    /// When all topics were asked for, for a pattern.
    all_asked: Option<Instant>,
    /// No broker answered the question.
    all_failed: Arc<AtomicBool>,
    /// The topics that the pattern stood for at the last look.
    matched: BTreeSet<Arc<str>>,
    /// When one of them was not there any more.
    gone_since: Option<Instant>,
}

impl MissingTopics {
    /// Asks for all topics when that is due; when it is due next. The pattern stands for `matched`
    /// now. A topic that went may come back soon: from then on the wait doubles.
    fn ask_for_all(
        &mut self,
        shared: &Arc<Shared>,
        matched: BTreeSet<Arc<str>>,
    ) -> Option<Instant> {
        let age = shared.config.client.connection.metadata_max_age;
        let now = Instant::now();
        if !self.matched.is_subset(&matched) {
            self.gone_since = Some(now);
        }
        self.matched = matched;
        if self.all_failed.swap(false, Ordering::Relaxed) {
            self.all_asked = None;
        }
        let gone_since = self.gone_since;
        let wait = |asked: Instant| match gone_since {
            Some(since) => asked.saturating_duration_since(since).max(BACK_SOON).min(age),
            None => age,
        };
        let due = self.all_asked.and_then(|asked| asked.checked_add(wait(asked)));
        if self.all_asked.is_some() && due.is_none_or(|due| due > now) {
            return due;
        }
        self.all_asked = Some(now);
        self.spawn(shared, Wanted::All, Vec::new());
        now.checked_add(wait(now))
    }

    /// Asks for topics that the image lacks: `names` are ours, and `others` those of members whose
    /// leader this one is. One question at a time, and the cluster waits between two of the same.
    fn ask(&mut self, shared: &Arc<Shared>, names: Vec<String>, others: Vec<String>) {
        let busy = self.asked.as_ref().is_some_and(|asked| !asked.is_finished());
        if (names.is_empty() && others.is_empty()) || busy {
            return;
        }
        let wanted = names.iter().cloned().chain(others).collect();
        self.spawn(shared, Wanted::Topics(wanted), names);
    }

    /// Asks, and reports why those of `names` are not known that are not.
    fn spawn(&mut self, shared: &Arc<Shared>, wanted: Wanted, names: Vec<String>) {
        let shared = Arc::clone(shared);
        let all_failed = (wanted == Wanted::All).then(|| Arc::clone(&self.all_failed));
        self.asked = Some(tokio::spawn(async move {
            match shared.cluster.refresh(wanted).await {
                Ok(image) => {
                    shared.report_of_read(|subscription| {
                        let names = names.iter().filter(|name| subscription.reads(name));
                        let unknown = names.filter(|name| image.topic(name).is_none());
                        let errors = unknown.map(|name| ClientError::from(image.topic_error(name)));
                        let mut told: Vec<_> =
                            errors.filter(|error| shared.is_final(error)).collect();
                        told.extend(tell_missing(subscription, &image));
                        told
                    });
                }
                Err(error) => {
                    shared.report_unless_passing(error);
                    tokio::time::sleep(shared.config.client.connection.retry_backoff.after(2))
                        .await;
                    all_failed.inspect(|failed| failed.store(true, Ordering::Relaxed));
                }
            }
            shared.settle.notify_one();
        }));
    }
}

impl Drop for MissingTopics {
    fn drop(&mut self) {
        if let Some(asked) = &self.asked {
            asked.abort();
        }
    }
}

/// Takes over what is known and asks for what is not; when to look for new topics again.
fn follow_metadata(shared: &Arc<Shared>, missing: &mut MissingTopics) -> Option<Instant> {
    let image = shared.cluster.image();
    if shared.reads_alone() {
        assign_all(shared, &image);
    }
    let mut others = shared.member.as_ref().map_or_else(BTreeSet::new, |member| {
        // Its lock is never taken inside the subscription's.
        member.lock().missing_topics()
    });
    let mut subscription = shared.subscription.lock();
    see_image(&mut subscription, &image, shared.start());
    let mut names: BTreeSet<Arc<str>> =
        subscription.assigned().into_iter().map(|partition| partition.topic).collect();
    match subscription.wish() {
        Wish::Topics(topics) => names.extend(topics.iter().cloned()),
        // Who asks for a topic by name may make it: a pattern names none that is gone.
        Wish::Pattern(_) => names.retain(|name| image.is_refused(name)),
        Wish::Nothing | Wish::Assigned => {}
    }
    let by_hand = matches!(subscription.wish(), Wish::Assigned);
    let untold = subscription.iter().filter(|(_, state)| by_hand && !state.told_missing());
    let lacking: BTreeSet<_> = untold
        .filter(|(partition, _)| lacks(&image, partition).is_some())
        .map(|(partition, _)| Arc::clone(&partition.topic))
        .collect();
    let matched = match subscription.wish() {
        Wish::Pattern(filter) => Some(shared.matching(&image, &**filter).into_iter().collect()),
        _ => None,
    };
    drop(subscription);
    let is_unknown = |name: &&Arc<str>| image.topic(name).is_none() || lacking.contains(*name);
    let unknown = names.iter().filter(is_unknown);
    others.retain(|name| !names.contains(name) && image.topic(name).is_none());
    let others = others.iter().map(ToString::to_string).collect();
    missing.ask(shared, unknown.map(ToString::to_string).collect(), others);
    matched.and_then(|matched| missing.ask_for_all(shared, matched))
}

/// Tells once of each partition that was assigned by hand and does not exist, as the brokers said
/// just now. It is read anyway if it comes.
fn tell_missing(subscription: &mut Subscription, image: &ClusterImage) -> Vec<ClientError> {
    if !matches!(subscription.wish(), Wish::Assigned) {
        return Vec::new();
    }
    let assigned = subscription.assigned();
    let tell = |partition: &TopicPartition| {
        let error = lacks(image, partition)?;
        subscription.get_mut(partition)?.tell_missing().then_some(error)
    };
    assigned.iter().filter_map(tell).collect()
}

/// Without a group all partitions of the wanted topics are ours. Those that a topic grows later are
/// read from their beginning: nothing in them is older than our wish. A topic whose metadata
/// brokers refuse keeps its partitions; one that they do not know is set aside.
fn assign_all(shared: &Shared, image: &ClusterImage) {
    let mut subscription = shared.subscription.lock();
    let names: Vec<Arc<str>> = match subscription.wish() {
        Wish::Topics(topics) => topics.iter().cloned().collect(),
        Wish::Pattern(filter) => shared.matching(image, &**filter),
        Wish::Nothing | Wish::Assigned => return,
    };
    for topic in names.iter().filter_map(|name| image.topic(name)) {
        subscription.take_back(&topic.name, topic.id);
    }
    let by_name = matches!(subscription.wish(), Wish::Topics(_));
    let mut wanted: BTreeSet<_> = subscription.assigned().into_iter().collect();
    let before: BTreeSet<Arc<str>> = wanted.iter().map(|one| Arc::clone(&one.topic)).collect();
    wanted.retain(|TopicPartition { topic, .. }| {
        let may_be_there = image.is_refused(topic) || (by_name && !image.is_missing(topic));
        may_be_there && image.topic(topic).is_none() && subscription.wish().may_be(topic)
    });
    for name in names {
        let Some(topic) = image.topic(&name) else { continue };
        let start = if before.contains(&name) {
            Status::Reset { timestamp: EARLIEST }
        } else {
            shared.start()
        };
        let numbers = 0..topic.partitions.len() as i32;
        let partitions: Vec<_> =
            numbers.map(|number| TopicPartition::new(Arc::clone(&name), number)).collect();
        subscription.add(partitions.iter().cloned(), start);
        wanted.extend(partitions);
    }
    subscription.set_aside(&wanted, Instant::now());
}

/// Asks for what the group committed for partitions, each with its life.
async fn find_committed(shared: Arc<Shared>, due: Vec<(u64, TopicPartition)>) {
    let Some(group) = &shared.config.group_id else { return };
    let deadline = Instant::now() + shared.config.client.connection.request_timeout;
    // What was taken away a moment ago may be assigned again: its last commit comes first.
    let mut last_commits = shared.last_commits.subscribe();
    let all_out = last_commits.wait_for(|under_way| *under_way == 0);
    let _ = tokio::time::timeout_at(deadline.into(), all_out).await;
    let partitions: Vec<_> = due.iter().map(|(_, partition)| partition.clone()).collect();
    let found = commits::fetch_committed(&shared.cluster, group, &partitions, deadline).await;
    let (policy, retry_at) = (shared.reset_timestamp(), shared.retry_at());
    let mut subscription = shared.subscription.lock();
    for (life, partition) in &due {
        // It may have been given up, and assigned again after others had committed.
        if subscription.life(partition) != *life {
            continue;
        }
        match &found {
            Ok(found) => {
                let committed = found.get(partition).cloned().flatten();
                let position = committed.map(|committed| committed.position);
                subscription.start_at_committed(partition, position, policy);
            }
            Err(_) => subscription.retry_later(partition, retry_at),
        }
    }
    // A position that was found may be of an older epoch than its leader.
    see_image(&mut subscription, &shared.cluster.image(), shared.start());
    drop(subscription);
    if let Err(error) = found {
        shared.report_unless_passing(error);
    }
}

/// What is due, by the leader of its partition: what one answers is taken while another is silent.
fn by_leader<T>(
    shared: &Shared,
    due: Vec<T>,
    partition: impl Fn(&T) -> &TopicPartition,
) -> impl Iterator<Item = Vec<T>> {
    let image = shared.cluster.image();
    let mut by_leader: BTreeMap<Option<NodeId>, Vec<T>> = BTreeMap::new();
    for one in due {
        let TopicPartition { topic, partition } = partition(&one);
        let leader = image.leader(topic, *partition).map(|(node, _)| node);
        by_leader.entry(leader).or_default().push(one);
    }
    by_leader.into_values()
}

/// Asks one leader for the offsets of timestamps or of ends.
async fn find_resets(shared: Arc<Shared>, due: Vec<ResetWish>) {
    let question =
        |wish: &ResetWish| Question { partition: wish.partition.clone(), about: wish.timestamp };
    let questions = due.iter().map(question).collect();
    let isolation = shared.config.isolation_level;
    let mut found = offsets::list_offsets(&shared.cluster, isolation, questions).await;
    // No record is as new as the timestamp: the end it is.
    let ends: Vec<Question> = found
        .iter()
        .filter(|(_, answer)| answer.as_ref().is_ok_and(|answer| answer.offset < 0))
        .map(|(question, _)| Question {
            about: crate::consumer::subscription::LATEST,
            ..question.clone()
        })
        .collect();
    if !ends.is_empty() {
        let told = offsets::list_offsets(&shared.cluster, isolation, ends).await;
        for (end, answer) in told {
            let same = found.iter_mut().find(|(question, _)| question.partition == end.partition);
            if let Some((_, first)) = same {
                *first = answer;
            }
        }
    }
    for (question, answer) in found {
        let Some(wish) = due.iter().find(|wish| wish.partition == question.partition) else {
            continue;
        };
        match answer {
            Ok(answer) => {
                let mut subscription = shared.subscription.lock();
                subscription.reset_done(wish, answer.offset, answer.leader_epoch);
            }
            Err(error) => try_again(&shared, &wish.partition, error),
        }
    }
}

/// Asks one leader whether its log was cut before the positions. What is dropped for an answer is
/// due again, from where it stands then.
async fn validate(shared: Arc<Shared>, due: Vec<(TopicPartition, Position)>) {
    let question = |(partition, position): &(TopicPartition, Position)| Question {
        partition: partition.clone(),
        about: position.leader_epoch.into(),
    };
    let questions = due.iter().map(question).collect();
    for (question, answer) in offsets::ends_of_epochs(&shared.cluster, questions).await {
        let partition = question.partition;
        let Some((_, position)) = due.iter().find(|(one, _)| *one == partition) else { continue };
        match answer {
            Ok(end) => {
                let end = Position { offset: end.offset, leader_epoch: end.leader_epoch };
                let lost = shared.subscription.lock().validation_done(&partition, *position, end);
                if let Some(truncation) = lost {
                    truncated(&shared, &truncation);
                }
            }
            // Brokers before Kafka 2.3 cannot tell: the position is taken as it is.
            Err(ClientError::UnsupportedVersion { .. }) => {
                let mut subscription = shared.subscription.lock();
                subscription.validation_skipped(&partition, *position);
            }
            Err(error) => try_again(&shared, &partition, error),
        }
    }
}

/// Records that were read are no longer in the log. Reading goes on where the logs part, or at the
/// place of the policy if the leader does not know it. Without a policy the user gets an error and
/// decides.
fn truncated(shared: &Shared, truncation: &Truncation) {
    let Truncation { cursor, position, parted } = truncation;
    let (partition, at) = (cursor.partition(), parted.map(|parted| parted.offset));
    let mut subscription = shared.subscription.lock();
    // The user may have gone elsewhere just now.
    if !subscription.get(partition).is_some_and(|state| state.is_at(cursor)) {
        return;
    }
    tracing::warn!(%partition, offset = position.offset, ?at, "records that were read are lost");
    match (shared.reset_timestamp(), parted) {
        (Some(_), Some(parted)) => subscription.go_back_to(partition, *parted),
        (Some(timestamp), None) => {
            subscription.seek_to(partition, timestamp);
            shared.settle.notify_one();
        }
        (None, _) => {
            if let Some(state) = subscription.get_mut(partition) {
                state.stall(cursor);
            }
            drop(subscription);
            let told = Content::Truncated(at);
            shared.buffer.push_all(vec![(Arc::clone(cursor), *position, told)]);
        }
    }
}

fn try_again(shared: &Shared, partition: &TopicPartition, error: ClientError) {
    let at = shared.retry_at();
    shared.report_of_read(|subscription| {
        subscription.retry_later(partition, at);
        if error.is_transport() {
            tracing::debug!(%partition, %error, "its leader is asked again");
            return Vec::new();
        }
        let is_told = subscription.get(partition).is_some() && shared.is_final(&error);
        if is_told { vec![error] } else { Vec::new() }
    });
}
