//! The role against a model of it, and with several threads.

use std::sync::atomic::AtomicI32;

use bytes::Bytes;
use proptest::prelude::*;

use super::roles::{joined, led};
use super::*;
use crate::awaited;

/// One step. Epochs are relative to that of the role, offsets to the log's end.
#[derive(Clone, Copy, Debug)]
enum Step {
    Lead { by: i32 },
    Follow { by: i32 },
    AppendAsLeader { by: i32, records: i32 },
    AppendAsFollower { by: i32, batches: i32, wrong: Wrong },
    Truncate { by: i32, back: i64 },
    Kill,
}

/// What is wrong with the last batch of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    Bit,
    Gap,
    Overlap,
    EpochAbove,
    EpochBelow,
}

fn step() -> impl Strategy<Value = Step> {
    // Mostly the epoch of the role, now and then one beside it.
    let by = prop_oneof![4 => Just(0), 1 => -1..2];
    let wrong = prop_oneof![
        4 => Just(Wrong::Nothing),
        1 => Just(Wrong::Bit),
        1 => Just(Wrong::Gap),
        1 => Just(Wrong::Overlap),
        1 => Just(Wrong::EpochAbove),
        1 => Just(Wrong::EpochBelow),
    ];
    prop_oneof![
        3 => (-1..3).prop_map(|by| Step::Lead { by }),
        3 => (-1..3).prop_map(|by| Step::Follow { by }),
        6 => (by.clone(), 1..4).prop_map(|(by, records)| Step::AppendAsLeader { by, records }),
        6 => (by.clone(), 1..5, wrong)
            .prop_map(|(by, batches, wrong)| Step::AppendAsFollower { by, batches, wrong }),
        3 => (by, 0_i64..8).prop_map(|(by, back)| Step::Truncate { by, back }),
        1 => Just(Step::Kill),
    ]
}

/// Base offset, end and epoch.
type Batch = (i64, i64, i32);

/// What the log should hold.
struct Model {
    role: Role,
    batches: Vec<Batch>,
    version: u64,
}

impl Model {
    fn end(&self) -> i64 {
        self.batches.last().map_or(0, |batch| batch.1)
    }

    fn latest(&self) -> i32 {
        self.batches.last().map_or(-1, |batch| batch.2)
    }

    /// Where each epoch starts; that of a leader also before its first record.
    fn epochs(&self) -> Vec<(i32, i64)> {
        let mut epochs: Vec<(i32, i64)> = Vec::new();
        for (base, _, epoch) in &self.batches {
            if epochs.last().is_none_or(|last| last.0 != *epoch) {
                epochs.push((*epoch, *base));
            }
        }
        if let Role::Leader(LeaderEpoch(epoch)) = self.role
            && epoch > self.latest()
        {
            epochs.push((epoch, self.end()));
        }
        epochs
    }

    fn lead(&mut self, epoch: i32) -> bool {
        let is_newer = match self.role {
            Role::Leader(current) => epoch >= current.0,
            Role::Follower(current) => epoch > current.0,
            Role::Gone => false,
        };
        let may = is_newer && epoch >= self.latest();
        if may {
            self.role = Role::Leader(LeaderEpoch(epoch));
        }
        may
    }

    fn follow(&mut self, epoch: i32) -> bool {
        let may = epoch >= self.role.epoch().0;
        if may {
            self.role = Role::Follower(LeaderEpoch(epoch));
        }
        may
    }

    /// A fetch in `epoch` and, if the log takes it, the batches in it.
    fn fetch(&self, epoch: i32, count: i32, wrong: Wrong) -> (Bytes, Option<Vec<Batch>>) {
        let (mut next, mut latest) = (self.end(), self.latest().max(0));
        let (mut bytes, mut batches) = (Vec::new(), Vec::new());
        for number in 0..count {
            let is_last = number + 1 == count;
            // The last ones are of the leader's own epoch, those before of older ones.
            latest = if is_last { latest.max(epoch) } else { latest };
            let (base, batch_epoch) = match wrong {
                Wrong::Gap if is_last => (next + 1, latest),
                Wrong::Overlap if is_last => (next - 1, latest),
                Wrong::EpochAbove if is_last => (next, epoch + 1),
                Wrong::EpochBelow if is_last => (next, self.latest() - 1),
                _ => (next, latest),
            };
            let mut batch = led(base, 2, batch_epoch).to_vec();
            if wrong == Wrong::Bit && is_last {
                batch[40] ^= 1;
            }
            bytes.push(batch.into());
            batches.push((base, base + 2, batch_epoch));
            next = base + 2;
        }
        let sound = matches!(wrong, Wrong::Nothing) && latest <= epoch;
        let may = sound && self.role == Role::Follower(LeaderEpoch(epoch));
        (joined(&bytes), may.then_some(batches))
    }
}

fn assert_is_as(model: &Model, log: &CommitLog, what: &str) {
    assert_eq!(log.role(), model.role, "{what}");
    assert_eq!(log.log_end_offset().0, model.end(), "{what}");
    let epochs: Vec<_> = log.epochs().iter().map(|e| (e.epoch.0, e.start_offset.0)).collect();
    assert_eq!(epochs, model.epochs(), "{what}");
    let bytes = all_bytes(log);
    let there: Vec<_> = Batches::new(&bytes)
        .map(|batch| *batch.unwrap().header())
        .map(|header| (header.base_offset.0, header.next_offset().0, header.leader_epoch.0))
        .collect();
    assert_eq!(there, model.batches, "{what}");
}

/// Takes the step with both; whether the log did what the model says.
fn take(step: Step, model: &mut Model, log: &CommitLog) {
    let role_epoch = model.role.epoch().0;
    let epoch = |by| LeaderEpoch(role_epoch + by);
    let mut told: Option<LogEnd> = None;
    let what = format!("{step:?} as {}", model.role);
    match step {
        Step::Lead { by } => {
            let taken = log.become_leader(epoch(by));
            assert_eq!(taken.is_ok(), model.lead(epoch(by).0), "{what}: {taken:?}");
            told = taken.ok();
        }
        Step::Follow { by } => {
            let taken = log.become_follower(epoch(by));
            assert_eq!(taken.is_ok(), model.follow(epoch(by).0), "{what}: {taken:?}");
            told = taken.ok();
        }
        Step::AppendAsLeader { by, records } => {
            let appended = log.append_as_leader(&batch_at(records, NOW_MS), epoch(by), NOW_MS);
            let may = model.role == Role::Leader(epoch(by));
            assert_eq!(appended.is_ok(), may, "{what}: {appended:?}");
            if may {
                let base = model.end();
                model.batches.push((base, base + i64::from(records), epoch(by).0));
                told = appended.unwrap().log_end;
            }
        }
        Step::AppendAsFollower { by, batches, wrong } => {
            let (fetched, taken) = model.fetch(epoch(by).0, batches, wrong);
            let appended = log.append_as_follower(&fetched, epoch(by), Offset(0), NOW_MS);
            assert_eq!(appended.is_ok(), taken.is_some(), "{what}: {appended:?}");
            model.batches.extend(taken.into_iter().flatten());
            told = appended.ok().map(|appended| appended.log_end);
        }
        Step::Truncate { by, back } => {
            let offset = (model.end() - back).max(0);
            let truncated = log.truncate_as_follower(Offset(offset), epoch(by), NOW_MS);
            let may = model.role == Role::Follower(epoch(by));
            assert_eq!(truncated.is_ok(), may, "{what}: {truncated:?}");
            if may {
                model.batches.retain(|batch| batch.1 <= offset);
            }
            told = truncated.ok();
        }
        Step::Kill => {}
    }
    if let Some(told) = told {
        assert_eq!((told.offset.0, told.epoch), (model.end(), model.role.epoch()), "{what}");
        assert!(told.version > model.version, "{what}");
        model.version = told.version;
    }
    assert_is_as(model, log, &what);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]
    #[test]
    fn the_log_does_what_its_role_allows_and_nothing_else(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let fixture = Fixture::new(small_segments());
        let mut log = fixture.fresh();
        let mut model = Model { role: log.role(), batches: Vec::new(), version: 0 };
        for step in steps {
            if matches!(step, Step::Kill) {
                drop(log);
                log = fixture.fresh();
                model = Model { role: log.role(), version: 0, ..model };
            }
            take(step, &mut model, &log);
        }
    }
}

/// Results of appends as leader: epoch, base offset and the log's end.
type Told = Vec<(LeaderEpoch, Offset, LogEnd)>;

/// One leader epoch of many: where it began and ended, and where its successor cut the log.
struct LeaderTerm {
    epoch: LeaderEpoch,
    began: u64,
    ended: u64,
    cut: LogEnd,
}

/// Leads in every even epoch until a thread appended, and follows in every odd one.
fn change_roles(log: &CommitLog, current: &AtomicI32) -> Vec<LeaderTerm> {
    let reign = |number: i32| {
        let (epoch, next) = (LeaderEpoch(2 * number), LeaderEpoch(2 * number + 1));
        let began = log.become_leader(epoch).unwrap();
        current.store(epoch.0, Ordering::Release);
        let goal = began.offset.0 + 1 + i64::from(number % 5);
        awaited::until("the threads append", || log.log_end_offset().0 >= goal);
        let ended = log.become_follower(next).unwrap();
        let at = Offset(ended.offset.0 - i64::from(number % 3));
        let cut = log.truncate_as_follower(at, next, NOW_MS).unwrap();
        let fetched = joined(&[led(cut.offset.0, 2, next.0), led(cut.offset.0 + 2, 1, next.0)]);
        log.append_as_follower(&fetched, next, Offset(0), NOW_MS).unwrap();
        LeaderTerm { epoch, began: began.version, ended: ended.version, cut }
    };
    (0..60).map(reign).collect()
}

#[test]
fn threads_that_append_beside_changes_of_role_do_so_in_the_epoch_of_the_role() {
    let fixture = Fixture::new(small_segments());
    let log = fixture.fresh();
    let (current, _ends) = (AtomicI32::new(-1), awaited::within("the roles change"));
    let append_until_the_end = || {
        let mut told = Told::new();
        loop {
            let epoch = LeaderEpoch(current.load(Ordering::Acquire));
            if epoch.0 == i32::MAX {
                return told;
            }
            match log.append_as_leader(&batch_at(1, NOW_MS), epoch, NOW_MS) {
                Ok(appended) => {
                    told.push((epoch, appended.base_offset, appended.log_end.unwrap()));
                }
                Err(LogError::WrongRole { .. }) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    };
    let (reigns, told): (Vec<LeaderTerm>, Vec<Told>) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(append_until_the_end)).collect();
        let reigns = change_roles(&log, &current);
        current.store(i32::MAX, Ordering::Release);
        (reigns, threads.into_iter().map(|thread| thread.join().unwrap()).collect())
    });
    let told: Told = told.into_iter().flatten().collect();
    for (epoch, _, end) in &told {
        let reign = reigns.iter().find(|reign| reign.epoch == *epoch).unwrap();
        assert!((reign.began..reign.ended).contains(&end.version), "epoch {}", epoch.0);
    }
    let bytes = all_bytes(&log);
    let headers: Vec<_> = Batches::new(&bytes).map(|batch| *batch.unwrap().header()).collect();
    assert_eq!(headers[0].base_offset, Offset(0));
    for pair in headers.windows(2) {
        assert_eq!(pair[1].base_offset, pair[0].next_offset(), "no hole");
        assert!(pair[1].leader_epoch >= pair[0].leader_epoch);
    }
    // Each acknowledged batch is there, unless a follower cut it away.
    for (epoch, base, _) in told {
        let reign = reigns.iter().find(|reign| reign.epoch == epoch).unwrap();
        let there = headers.iter().any(|h| (h.base_offset, h.leader_epoch) == (base, epoch));
        assert_eq!(there, base < reign.cut.offset, "epoch {} offset {}", epoch.0, base.0);
    }
}
