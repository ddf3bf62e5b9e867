//! Random histories of one partition: failed appends, late commits, truncations, failed loads,
//! restarts. Epochs end with and without a notice to the runtime.
//!
//! In every history each step is answered once, and acknowledged records stay in the log. Every
//! record is one more than the record before it of its key, so each decision saw all earlier ones.
//! Reads see what is committed, and never less than an earlier read.

use super::*;

const SEEDS: u64 = 2_000;
const STEPS: usize = 120;
const KEYS: u64 = 3;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

struct Model {
    random: Random,
    seed: u64,
    broker: Broker,
    topic: Arc<MemoryTopic>,
    /// Counts that were asked for, and their answers.
    asked: Vec<(u8, Got<Result<u64, ErrorCode>>)>,
    acknowledged: BTreeMap<u8, u64>,
    /// What happened to answers and reads, so that a model in which nothing does is noticed.
    tally: BTreeMap<&'static str, usize>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let topic = MemoryTopic::of(1);
        let broker = Broker::over(&topic);
        broker.follow();
        let (asked, acknowledged, tally) = <_>::default();
        Self { random: Random(seed), seed, broker, topic, asked, acknowledged, tally }
    }

    fn note(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..=7 => {
                let key = u8::try_from(self.random.below(KEYS)).unwrap();
                let got = self.broker.count(key);
                self.asked.push((key, got));
            }
            8 => {
                let holds = self.random.below(2) == 0;
                self.topic.inner.lock().holds = holds;
            }
            9 | 10 => {
                let part = self.random.below(3) as i64;
                self.topic
                    .change(0, |one| one.committed += (one.end() - one.committed) / (part + 1));
            }
            11 => {
                let refusals = [None, None, Some(ErrorCode::NotEnoughReplicas)];
                self.topic.inner.lock().fails = refusals[self.random.below(3) as usize];
            }
            12 => {
                let refusals = [None, None, Some(ErrorCode::KafkaStorageError)];
                self.topic.inner.lock().read_fails = refusals[self.random.below(3) as usize];
            }
            13 => self.change_leader(),
            14 | 15 => self.broker.follow(),
            16 | 17 => self.broker.load(),
            18 => self.broker.pass([1, 700, TIMEOUT_MS][self.random.below(3) as usize]),
            _ if self.random.below(6) == 0 => {
                self.broker.runtime.stop();
                self.topic.change(0, |one| one.epoch += 1);
                self.broker = Broker::over(&self.topic);
                self.broker.follow();
                self.note("restarts");
            }
            _ => {}
        }
    }

    /// Another broker leads, or this one does again. It may lose what was not committed.
    fn change_leader(&mut self) {
        let (truncates, moves_away) = (self.random.below(2) == 0, self.random.below(3) == 0);
        self.topic.change(0, |one| {
            one.epoch += 1;
            one.is_away = moves_away;
            if truncates {
                let committed = one.committed;
                one.batches.retain(|batch| batch.end <= committed);
            }
        });
        self.note(if truncates { "truncations" } else { "moves" });
    }

    fn check(&mut self) {
        let seed = self.seed;
        let (end, epoch) = {
            let inner = self.topic.inner.lock();
            (inner.partitions[0].committed, LeaderEpoch(inner.partitions[0].epoch))
        };
        let all = records(&self.topic, i64::MAX);
        let mut newest: BTreeMap<u8, u64> = BTreeMap::new();
        for record in &all {
            let before = newest.insert(record.key, record.value).unwrap_or(0);
            assert_eq!(record.value, before + 1, "seed {seed}: {all:?}");
        }
        let mut committed: BTreeMap<u8, u64> = BTreeMap::new();
        for record in records(&self.topic, end) {
            committed.insert(record.key, record.value);
        }
        for (key, got) in std::mem::take(&mut self.asked) {
            let answer = *got.lock();
            match answer {
                None => self.asked.push((key, got)),
                Some(Ok(value)) => {
                    let newest = self.acknowledged.entry(key).or_default();
                    *newest = value.max(*newest);
                    self.note("acknowledged");
                }
                Some(Err(error)) => self.note(error.name()),
            }
        }
        for (key, value) in &self.acknowledged {
            let kept = committed.get(key).copied().unwrap_or(0);
            assert!(
                kept >= *value,
                "seed {seed}: {value} of {key} was acknowledged, {kept} is left"
            );
        }
        for key in 0..KEYS as u8 {
            let is_told = self.broker.topic.facts().unwrap().partitions[0].is_some();
            if let Ok(value) = self.broker.read(key) {
                // A coordinator that was deposed and was not told reads what it remembers.
                let expected = committed.get(&key).copied().unwrap_or(0);
                assert!(value <= expected, "seed {seed}, {epoch:?}: read {value} of {expected}");
                if is_told && self.reads_now() {
                    assert_eq!(value, expected, "seed {seed}, {epoch:?}");
                    self.note("reads");
                }
            }
        }
    }

    /// Whether the context is that of the epoch of now.
    fn reads_now(&self) -> bool {
        let before = self.broker.loads.lock().len();
        self.broker.follow();
        // Otherwise it is loaded again.
        self.broker.loads.lock().len() == before && self.broker.read(0).is_ok()
    }

    /// Everything is well again: every step is answered, and one more is taken.
    fn close(&mut self) {
        {
            let mut inner = self.topic.inner.lock();
            (inner.holds, inner.fails, inner.read_fails) = (false, None, None);
        }
        self.topic.change(0, |one| one.is_away = false);
        self.broker.follow();
        self.topic.commit();
        for _ in 0..8 {
            self.broker.load();
            self.broker.pass(60_000);
        }
        assert!(self.broker.read(0).is_ok(), "seed {}: it is loaded", self.seed);
        let last = self.broker.count(0);
        assert!(last.lock().is_some_and(|answer| answer.is_ok()), "seed {}", self.seed);
        self.check();
        assert!(self.asked.is_empty(), "seed {}: a step is not answered", self.seed);
    }
}

#[test]
fn no_history_loses_an_acknowledged_write_or_answers_twice() {
    let mut tally: BTreeMap<&'static str, usize> = BTreeMap::new();
    for seed in 0..SEEDS {
        let mut model = Model::new(seed);
        for _ in 0..STEPS {
            model.step();
            model.check();
        }
        model.close();
        for (what, count) in model.tally {
            *tally.entry(what).or_default() += count;
        }
    }
    for what in ["acknowledged", "reads", "restarts", "truncations", "moves", "REQUEST_TIMED_OUT"] {
        assert!(tally.get(what).is_some_and(|count| *count > 100), "{what}: {tally:?}");
    }
}
