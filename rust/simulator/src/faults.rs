//! Which faults a run has, and how often.
//!
//! Each seed draws its own mix (swarm testing). Some runs have only one kind of fault, and so reach
//! states that a mix of all kinds never reaches.
//! Source: Groce et al., "Swarm testing".

use crate::rng::Rng;
use crate::sweep::Named;

/// One kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A message is lost.
    Drop,
    /// A message arrives twice.
    Duplicate,
    /// A message is late by far more than others.
    Delay,
    /// A bit of a batch flips on its way.
    Corrupt,
    /// A link between two nodes is cut, in one direction or both, for a while.
    Cut,
    /// A broker's process is killed; what it wrote stays in the page cache.
    Kill,
    /// A broker loses power: what was not flushed is lost.
    PowerCut,
    /// A broker stands still for longer than its session, and goes on (SIGSTOP, SIGCONT).
    Pause,
    /// A broker's wall clock jumps.
    ClockJump,
    /// The clocks of brokers and controller are too fast or too slow.
    ClockDrift,
    /// The controller moves a leader.
    MoveLeader,
    /// An operator moves a partition to other brokers, changes that on the way, or cancels it.
    Reassign,
    /// The controller restarts from its log.
    ControllerRestart,
    /// A member of the group dies, stands still or leaves.
    Member,
    /// A proposal of metadata is rejected, lost, or of unknown outcome.
    Proposal,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::Drop,
        Self::Duplicate,
        Self::Delay,
        Self::Corrupt,
        Self::Cut,
        Self::Kill,
        Self::PowerCut,
        Self::Pause,
        Self::ClockJump,
        Self::ClockDrift,
        Self::MoveLeader,
        Self::Reassign,
        Self::ControllerRestart,
        Self::Member,
        Self::Proposal,
    ];
}

impl Named for Fault {
    const EACH: &'static [Self] = &Self::ALL;
}

/// The faults of one run.
#[derive(Clone, Debug)]
pub struct Faults {
    enabled: Vec<Fault>,
    /// Messages lost, of a thousand.
    pub drop: u64,
    /// Messages doubled, of a thousand.
    pub duplicate: u64,
    /// Messages late, of a thousand.
    pub delay: u64,
    /// Batches damaged, of a thousand.
    pub corrupt: u64,
    /// Proposals of metadata that fail in some way, of a thousand.
    pub proposals: u64,
    /// The mean time between two larger faults, ms.
    pub pause_ms: u64,
}

impl Faults {
    /// The mix of a seed, without the kinds in `without`.
    #[must_use]
    pub fn draw(rng: &mut Rng, without: &[Fault]) -> Self {
        let mut drawn: Vec<Fault> = Vec::new();
        for fault in Fault::ALL {
            // Drawn for every kind, so that leaving one out changes nothing about the others.
            if rng.chance(600) {
                drawn.push(fault);
            }
        }
        let rates =
            [rng.between(5, 60), rng.between(5, 60), rng.between(5, 40), rng.between(2, 20)];
        let pause_ms = rng.between(30, 250);
        let proposals = rng.between(10, 300);
        drawn.retain(|fault| !without.contains(fault));
        let rate = |fault: Fault, rate: u64| if drawn.contains(&fault) { rate } else { 0 };
        Self {
            drop: rate(Fault::Drop, rates[0]),
            duplicate: rate(Fault::Duplicate, rates[1]),
            delay: rate(Fault::Delay, rates[2]),
            corrupt: rate(Fault::Corrupt, rates[3]),
            proposals: rate(Fault::Proposal, proposals),
            pause_ms,
            enabled: drawn,
        }
    }

    /// Whether this run has faults of this kind.
    #[must_use]
    pub fn has(&self, fault: Fault) -> bool {
        self.enabled.contains(&fault)
    }

    /// The kinds that happen to the cluster now and then. Single messages, clocks and the
    /// operator have a time of their own.
    #[must_use]
    pub fn large(&self) -> Vec<Fault> {
        let others = [
            Fault::Drop,
            Fault::Duplicate,
            Fault::Delay,
            Fault::Corrupt,
            Fault::Proposal,
            Fault::ClockDrift,
            Fault::Reassign,
        ];
        self.enabled.iter().copied().filter(|fault| !others.contains(fault)).collect()
    }

    /// All kinds of this run.
    #[must_use]
    pub fn enabled(&self) -> &[Fault] {
        &self.enabled
    }

    /// No message and no proposal fails any more.
    pub fn heal(&mut self) {
        self.proposals = 0;
        (self.drop, self.duplicate, self.delay, self.corrupt) = (0, 0, 0, 0);
    }
}
