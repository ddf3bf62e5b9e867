//! What is to be committed, and as whom: both are looked up at one moment.
//!
//! A commit waits for its turn and may be sent again. Meanwhile the group may give its partitions
//! to another member, whose own commits it would take back. So it names the generation it was made
//! in, for the coordinator to refuse what is older, and no partition that was given up before.
//! Source: Kafka's `ConsumerCoordinator`, which raises `CommitFailedException` for both.

use std::collections::BTreeMap;
use std::sync::Arc;

use kafkalite_protocol::ErrorCode;

use super::shared::Shared;
use crate::consumer::commits::{Committed, Offsets, TopicIds};
use crate::consumer::cursor::{NO_TENURE, Position};
use crate::consumer::group_state::{GroupMember, Membership};
use crate::consumer::subscription::{Made, Subscription};
use crate::error::ClientError;
use crate::topic_partition::TopicPartition;

/// Offsets to be committed.
#[derive(Debug)]
pub struct Due {
    pub(super) offsets: Offsets,
    /// The topics that the consumer read them of.
    pub(super) ids: TopicIds,
    /// Who the consumer was; `None` without a group that assigns.
    pub(super) me: Option<Membership>,
    made: BTreeMap<TopicPartition, Made>,
    how: How,
}

/// How it came about that offsets are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// A caller named them.
    Named,
    /// A caller commits what it has.
    HandedOut,
    /// No caller asked for it.
    ByItself,
}

/// An offset that a caller wants to have committed.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Of this partition.
    pub partition: TopicPartition,
    /// The offset, and what the caller says of it.
    pub committed: Committed,
    /// The tenure in which the records before it were handed out, see
    /// [`crate::consumer::cursor::Cursor::tenure`]; `NO_TENURE` if unknown.
    pub tenure: u64,
}

/// What a look at the subscription finds, and at the same moment at the membership.
struct Moment<'a> {
    subscription: &'a Subscription,
    member: Option<&'a GroupMember>,
    by_group: bool,
    me: Option<Membership>,
}

impl Due {
    /// What a caller names.
    ///
    /// # Errors
    /// Without a group, or when the consumer is no member of it now. For a partition that it has
    /// not held all the time since the records were handed out. For records of an earlier topic of
    /// the name.
    pub fn given(shared: &Shared, wanted: Vec<Claim>) -> Result<Self, ClientError> {
        let group = check_group(shared)?;
        look(shared, |moment| {
            let lost = |one: &&Claim| !moment.subscription.may_commit(&one.partition, one.tenure);
            if moment.by_group && !wanted.is_empty() {
                moment.check_member(group)?;
                if let Some(one) = wanted.iter().find(lost) {
                    return Err(moment.refusal(one, group));
                }
            }
            let of_former =
                |one: &&Claim| moment.subscription.is_of_former_topic(&one.partition, one.tenure);
            if let Some(Claim { partition, .. }) = wanted.iter().find(of_former) {
                let about = format!("commit of {partition}: an earlier topic of its name was read");
                return Err(ClientError::broker(ErrorCode::UnknownTopicId, about));
            }
            let offsets = wanted.into_iter().map(|one| (one.partition, one.committed));
            Ok(moment.due(offsets.collect(), How::Named))
        })
    }

    /// All that was handed out until now; not what a call has taken that is still under way.
    ///
    /// # Errors
    /// Without a group, or when the consumer is no member of it any more. Then the records of the
    /// last call cannot be committed.
    pub fn handed_out(shared: &Shared) -> Result<Self, ClientError> {
        let group = check_group(shared)?;
        look(shared, |moment| {
            let handed_out = moment.subscription.handed_out();
            if moment.by_group && shared.has_lost() {
                return Err(no_member(group));
            } else if moment.by_group && !handed_out.is_empty() {
                moment.check_member(group)?;
            }
            Ok(moment.due(without_metadata(handed_out), How::HandedOut))
        })
    }

    /// Records that earlier calls handed out and that are not committed: of `only` these
    /// partitions, or of all.
    ///
    /// # Errors
    /// As [`Due::handed_out`].
    pub fn done(shared: &Shared, only: Option<&[TopicPartition]>) -> Result<Self, ClientError> {
        let group = check_group(shared)?;
        look(shared, |moment| {
            let mut done = moment.subscription.to_commit();
            done.retain(|partition, _| only.is_none_or(|only| only.contains(partition)));
            if moment.by_group && !done.is_empty() {
                moment.check_member(group)?;
            }
            Ok(moment.due(without_metadata(done), How::ByItself))
        })
    }

    /// What is done of the partitions that `goes` names, of a consumer whose group assigns nothing.
    pub(super) fn taken_away(
        subscription: &Subscription,
        goes: impl Fn(&TopicPartition) -> bool,
    ) -> Self {
        let mut done = subscription.to_commit();
        done.retain(|partition, _| goes(partition));
        let moment = Moment { subscription, member: None, by_group: false, me: None };
        moment.due(without_metadata(done), How::ByItself)
    }

    /// Whether there is nothing to be committed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The offsets that are to be committed now that the commits before this one are noted. An
    /// automatic commit that waited must not take back what its caller committed meanwhile.
    pub(super) fn still_due(&self, subscription: &Subscription) -> Offsets {
        let mut due = self.offsets.clone();
        if self.how == How::ByItself {
            due.retain(|partition, told| {
                let made = self.made.get(partition);
                !made.is_some_and(|made| {
                    subscription.is_settled(partition, told.position.offset, made)
                })
            });
        }
        due
    }

    /// Each offset of a partition that was assigned, with where the consumer was in it.
    pub(super) fn of_assigned(
        &self,
    ) -> impl Iterator<Item = (&TopicPartition, (&Committed, &Made))> {
        let with = |(partition, told)| Some((partition, (told, self.made.get(partition)?)));
        self.offsets.iter().filter_map(with)
    }
}

impl Moment<'_> {
    fn check_member(&self, group: &str) -> Result<(), ClientError> {
        self.me.as_ref().map(drop).ok_or_else(|| no_member(group))
    }

    /// While the group rebalances the partition may come back in the same tenure, and the commit be
    /// good again.
    fn refusal(&self, claim: &Claim, group: &str) -> ClientError {
        let partition = &claim.partition;
        let tenure = self.member.map_or(NO_TENURE, |member| member.tenure(partition));
        let tenure = self.subscription.own_tenure(partition, tenure);
        let is_given_up = self.subscription.get(partition).is_none();
        let may_come_back = tenure != NO_TENURE && [NO_TENURE, tenure].contains(&claim.tenure);
        let (code, why) = if is_given_up && may_come_back {
            (ErrorCode::RebalanceInProgress, "may get the partition again when it is over: poll")
        } else {
            let why = "does not hold the partition any more, got it again since, or read the \
                       records of an earlier topic of its name";
            (ErrorCode::IllegalGeneration, why)
        };
        let about = format!("commit of {partition}: this consumer of group {group} {why}");
        ClientError::broker(code, about)
    }

    fn due(&self, offsets: Offsets, how: How) -> Due {
        let made = |(one, told): (&TopicPartition, &Committed)| {
            let offset = told.position.offset;
            let made = match how {
                How::Named => self.subscription.made_on_purpose(one, offset),
                How::HandedOut | How::ByItself => self.subscription.made(one, offset),
            };
            Some((one.clone(), made?))
        };
        let made = offsets.iter().filter_map(made).collect();
        let id = |one: &TopicPartition| {
            let id = self.subscription.get(one)?.topic_id();
            (!id.is_zero()).then(|| (Arc::clone(&one.topic), id))
        };
        let ids = offsets.keys().filter_map(id).collect();
        Due { offsets, ids, me: self.me.clone(), made, how }
    }
}

/// The member's lock is taken first, here and everywhere.
fn look<T>(shared: &Shared, look: impl FnOnce(&Moment<'_>) -> T) -> T {
    let member = shared.member.as_ref().map(|member| member.lock());
    let subscription = shared.subscription.lock();
    let by_group = subscription.wish().is_by_group();
    let me = member.as_ref().filter(|_| by_group).and_then(|member| member.membership());
    let member = member.as_deref();
    look(&Moment { subscription: &subscription, member, by_group, me })
}

fn check_group(shared: &Shared) -> Result<&str, ClientError> {
    let why = || "offsets are committed for a group: set group.id".to_owned();
    shared.config.group_id.as_deref().ok_or_else(|| ClientError::IllegalState { why: why() })
}

fn no_member(group: &str) -> ClientError {
    let about = format!(
        "commit for group {group}: this consumer is no member of it now, and what it read may be \
         another member's"
    );
    ClientError::broker(ErrorCode::UnknownMemberId, about)
}

fn without_metadata(positions: BTreeMap<TopicPartition, Position>) -> Offsets {
    let plain = |position| Committed { position, metadata: String::new() };
    positions.into_iter().map(|(partition, position)| (partition, plain(position))).collect()
}
