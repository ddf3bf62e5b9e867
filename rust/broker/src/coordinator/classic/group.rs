//! One group: the pure state, its offsets, and who waits for an answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::join_group::JoinGroupResponse;
use kafkalite_protocol::messages::sync_group::SyncGroupResponse;

use super::group_state::{Action, AppendId, GroupState};
use super::groups::Groups;
use super::member::Token;
use super::offsets::GroupOffsets;
use crate::coordinator::group_record::GroupRecord;
use crate::coordinator::runtime::{Answer, Effects, Now, Write};

/// One group.
pub struct Group {
    pub(super) state: GroupState,
    pub(super) offsets: GroupOffsets,
    joins: HashMap<Token, Answer<JoinGroupResponse>>,
    syncs: HashMap<Token, Answer<SyncGroupResponse>>,
    next_token: u64,
    charge: Charge,
}

/// What a group has on the account of all groups of the broker.
struct Charge {
    account: Arc<AtomicUsize>,
    bytes: usize,
}

impl Charge {
    fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes >= before {
            self.account.fetch_add(bytes - before, Ordering::Relaxed);
        } else {
            self.account.fetch_sub(before - bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Group {
    /// A group whose memory counts on `account`.
    pub(super) fn new(state: GroupState, offsets: GroupOffsets, account: Arc<AtomicUsize>) -> Self {
        Self {
            state,
            offsets,
            joins: HashMap::new(),
            syncs: HashMap::new(),
            next_token: 0,
            charge: Charge { account, bytes: 0 },
        }
    }

    /// Keeps an answer until the state machine gives it.
    pub(super) fn park_join(&mut self, answer: Answer<JoinGroupResponse>) -> Token {
        self.next_token += 1;
        self.joins.insert(Token(self.next_token), answer);
        Token(self.next_token)
    }

    /// Keeps an answer until the state machine gives it.
    pub(super) fn park_sync(&mut self, answer: Answer<SyncGroupResponse>) -> Token {
        self.next_token += 1;
        self.syncs.insert(Token(self.next_token), answer);
        Token(self.next_token)
    }

    /// Turns what the state machine decided into effects, and brings the account up to date.
    pub(super) fn collect(&mut self, effects: &mut Effects<Groups>) {
        for action in self.state.take_actions() {
            match action {
                Action::AnswerJoin { token, response } => {
                    if let Some(answer) = self.joins.remove(&token) {
                        effects.run(move || answer(response));
                    }
                }
                Action::AnswerSync { token, response } => {
                    if let Some(answer) = self.syncs.remove(&token) {
                        effects.run(move || answer(response));
                    }
                }
                Action::Append { id, value } => {
                    let group_id = Arc::clone(self.state.group_id());
                    let record = GroupRecord::Group(group_id.to_string(), Some(value));
                    effects.write(own_record(group_id, id, record));
                }
                Action::WakeAt(at_ms) => {
                    effects.wake_at(at_ms, Arc::clone(self.state.group_id()));
                }
            }
        }
        self.charge.set(self.state.held_bytes());
    }
}

/// Stores the record of a group, and tells the group.
fn own_record(group_id: Arc<str>, id: AppendId, record: GroupRecord) -> Write<Groups> {
    let told = Arc::clone(&group_id);
    let tell = move |groups: &mut Groups, now: Now, effects: &mut Effects<Groups>, error| {
        groups.on_group(&told, effects, |group, _| group.state.append_result(now, id, error));
    };
    let late = tell.clone();
    Write {
        records: vec![record],
        may_split: false,
        stored: Box::new(move |groups, now, effects, stored| {
            tell(groups, now, effects, stored.err());
        }),
        // A late outcome counts as lost: the group starts again, and its next record replaces this
        // one.
        late: Box::new(move |groups, now, effects| {
            late(groups, now, effects, Some(ErrorCode::RequestTimedOut));
        }),
    }
}
