//! Crashes, power cuts and disks that fail or are full, at every change of a file in a move.

use super::*;
use crate::faulty_storage::Tail;

/// What the next start finds: nothing is undone, all that may be undone, or some of it.
const NOTHING: u64 = 0;
const ALL: u64 = u64::MAX;
const SOME: [u64; 3] = [0x3c5a_96e1_0f87_d2b4, 0xc3a5_691e_f078_2d4b, 0x5555_5555_5555_5555];

/// How the process ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It is killed: the disks hold what was written.
    Kill,
    /// The power is cut. The bits say what is undone that was not synced.
    PowerCut(Tail, u64),
    /// It stops cleanly.
    Stop,
}

/// What strikes, and which disks; without these it strikes once, wherever the change is.
#[derive(Clone, Copy, Debug)]
struct Strike {
    fault: Fault,
    disks: Option<&'static [usize]>,
}

impl Strike {
    /// Strikes at the change `at` of a move to the second directory. Whether that change came.
    fn at(self, at: u64, moving: &mut Moving) -> bool {
        let storage = moving.house.storage.clone();
        let begun = storage.changes();
        match self.disks {
            None => storage.plan(begun + at, self.fault),
            Some(places) => {
                let paths = moving.paths();
                let below: Vec<&Path> = places.iter().map(|place| paths[*place]).collect();
                storage.plan_below(begun + at, self.fault, &below);
            }
        }
        let _refused_by_the_fault = moving.ask(1);
        for _ in 0..6 {
            moving.turn();
        }
        storage.changes() > begun + at
    }

    /// Whether the directory works that the replica is noted in.
    fn leaves_home(self, moving: &Moving) -> bool {
        let home = usize::from(moving.house.assignment() == Assignment::Directory(TWO));
        let dir = moving.house.replicas.dirs().iter().nth(home).unwrap();
        let is_full = self.fault == Fault::Full && self.disks.is_some_and(|it| it.contains(&home));
        !dir.log_dir().is_offline() && !is_full
    }
}

impl Moving {
    /// All that is due comes, as long as it may take.
    fn settle(&mut self) {
        for _ in 0..8 {
            let replicas = &self.house.replicas;
            replicas.retry_unopened();
            replicas.retry_assignments();
            replicas.remove_deleted();
            self.turn();
            self.house.clock.advance_ms(DELAY_MS);
        }
        self.house.replicas.remove_deleted();
    }

    fn end_life(&mut self, end: End) {
        let storage = self.house.storage.clone();
        match end {
            End::Kill => {}
            End::PowerCut(tail, mut bits) => {
                let undoes = || {
                    bits = bits.rotate_left(1);
                    bits & 1 == 1
                };
                storage.cut_power_leaving(tail, undoes).unwrap();
                self.acknowledged = self.durable;
                self.house.storage = FaultyStorage::default();
                return;
            }
            // A disk that failed does not let it be clean.
            End::Stop => drop(self.house.replicas.close(1)),
        }
        self.house.storage = storage.successor();
    }

    fn begin_life(&mut self, places: &[usize]) {
        self.start_with(places);
        for dir in self.house.replicas.dirs().iter() {
            dir.checkpoints().begin().unwrap();
        }
    }

    fn serves(&mut self, what: &str) {
        let before = self.acknowledged;
        self.append();
        assert!(self.acknowledged > before, "{what}: nothing is acknowledged");
        self.check(what);
    }

    /// The life after a fault. One of the disks is away at first, or none.
    fn survives(&mut self, end: End, away: usize, what: &str) {
        self.end_life(end);
        if away < 2 {
            self.begin_life(&[1 - away]);
            let what = format!("{what}, without {away}");
            if self.house.find().is_ok() {
                // What is served without it is all there is.
                self.check(&what);
                self.append();
            }
            self.end_life(End::Kill);
        }
        self.begin_life(&[0, 1]);
        let what = format!("{what}; it finds {:?}", self.names());
        self.check(&what);
        self.serves(&what);
        self.turn_to_end();
        self.settle();
        self.serves(&what);
        assert_eq!(self.names(), [(self.place(), "t-0".to_owned())], "{what}");
    }
}

/// Calls `strikes` with every change in a move, as long as it answers that the change came.
fn at_every_change(mut strikes: impl FnMut(u64) -> bool) {
    let changes = (0..).take_while(|at| strikes(*at)).count();
    assert!((60..1_000).contains(&changes), "a move of {changes} changes");
}

#[test]
fn no_crash_in_a_move_loses_an_acknowledged_record() {
    at_every_change(|at| {
        let mut moving = Moving::new();
        let came = Strike { fault: Fault::Crash, disks: None }.at(at, &mut moving);
        moving.survives(End::Kill, (at % 3) as usize, &format!("crash at {at}"));
        came
    });
}

/// A power cut at every change. The file system keeps none, all or some of what was not synced.
#[test]
fn no_power_cut_in_a_move_loses_an_acknowledged_record() {
    let cuts = [
        (Tail::Gone, ALL),
        (Tail::Gone, NOTHING),
        (Tail::Half, SOME[0]),
        (Tail::Zeroes, SOME[1]),
        (Tail::Zeroes, NOTHING),
        (Tail::Half, SOME[2]),
    ];
    for turn in [0, 3] {
        at_every_change(|at| {
            let (tail, bits) = cuts[((at + turn) % 6) as usize];
            let mut moving = Moving::new();
            let came = Strike { fault: Fault::Crash, disks: None }.at(at, &mut moving);
            let (end, away) = (End::PowerCut(tail, bits), ((at / 2) % 3) as usize);
            moving.survives(end, away, &format!("{end:x?} at {at}"));
            came
        });
    }
}

/// As a disk fails, is full, or both are: once, or from then on.
#[test]
fn no_failing_or_full_disk_in_a_move_loses_an_acknowledged_record() {
    let ends = [End::Kill, End::Stop, End::PowerCut(Tail::Half, SOME[0])];
    let all_disks = [None, Some(&[0][..]), Some(&[1][..]), Some(&[0, 1][..])];
    for fault in [Fault::Fail(EIO), Fault::Full] {
        for turn in [0, 2] {
            at_every_change(|at| {
                let disks = all_disks[((at + turn) % 4) as usize];
                let mut moving = Moving::new();
                let strike = Strike { fault, disks };
                let came = strike.at(at, &mut moving);
                let end = ends[((at + turn) % 3) as usize];
                let what = format!("{strike:?} at {at}, then {end:?}");
                moving.settle();
                if strike.leaves_home(&moving) {
                    moving.serves(&what);
                }
                let all_work = || {
                    let mut dirs = moving.house.replicas.dirs().iter();
                    disks.is_none() && dirs.all(|dir| !dir.log_dir().is_offline())
                };
                if all_work() {
                    assert_eq!(moving.names(), [(moving.place(), "t-0".to_owned())], "{what}");
                }
                moving.survives(end, ((at / 3) % 3) as usize, &what);
                came
            });
        }
    }
}
