//! Which faults a run of level 2 has.

use crate::rng::Rng;
use crate::sweep::Named;

/// One kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A request or an answer is lost.
    Drop,
    /// A request or an answer is late by far more than others.
    Delay,
    /// A broker's process is killed; what it wrote stays in the page cache.
    Kill,
    /// A broker dies in the middle of a change of its disk: half of a write is written.
    TornWrite,
    /// A broker loses power: what was not synced is lost, and unsynced cuts and renames may be.
    PowerCut,
    /// A change of a disk fails (EIO).
    DiskError,
    /// A change of a disk finds it full.
    DiskFull,
    /// A broker stands still for longer than its session (SIGSTOP, SIGCONT).
    Pause,
    /// A broker stops as it is asked to, and starts again.
    Restart,
    /// The controller moves a leader.
    MoveLeader,
    /// An operator moves a partition to other brokers, alters that, or cancels it.
    Reassign,
    /// The clocks of the brokers are too fast or too slow, and tell another time of the day.
    ClockDrift,
    /// A proposal of metadata is rejected, lost, or of unknown outcome.
    Proposal,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::Drop,
        Self::Delay,
        Self::Kill,
        Self::TornWrite,
        Self::PowerCut,
        Self::DiskError,
        Self::DiskFull,
        Self::Pause,
        Self::Restart,
        Self::MoveLeader,
        Self::Reassign,
        Self::ClockDrift,
        Self::Proposal,
    ];

    /// The kinds that happen at a moment, to one broker.
    pub(super) const EVENTS: [Self; 8] = [
        Self::Kill,
        Self::TornWrite,
        Self::PowerCut,
        Self::DiskError,
        Self::DiskFull,
        Self::Pause,
        Self::Restart,
        Self::MoveLeader,
    ];
}

impl Named for Fault {
    const EACH: &'static [Self] = &Self::ALL;
}

/// The mix of one run (swarm testing).
#[derive(Clone, Debug)]
pub struct Faults {
    /// The kinds that happen.
    pub enabled: Vec<Fault>,
    /// How many messages of a thousand are lost.
    pub drop: u64,
    /// How many of a thousand are late.
    pub delay: u64,
    /// How many proposals of a thousand do not go as they should.
    pub proposals: u64,
    /// Between two events, on average, ms.
    pub pause_ms: u64,
}

impl Faults {
    /// Draws a mix, and leaves kinds out.
    #[must_use]
    pub fn draw(rng: &mut Rng, without: &[Fault]) -> Self {
        // Drawn for every kind, so that leaving one out changes nothing about the others.
        let mut enabled: Vec<Fault> = Fault::ALL.into_iter().filter(|_| rng.chance(600)).collect();
        let rates = [rng.between(5, 50), rng.between(5, 40), rng.between(10, 200)];
        let pause_ms = rng.between(80, 400);
        enabled.retain(|fault| !without.contains(fault));
        let rate = |fault, rate| if enabled.contains(&fault) { rate } else { 0 };
        let (drop, delay) = (rate(Fault::Drop, rates[0]), rate(Fault::Delay, rates[1]));
        let proposals = rate(Fault::Proposal, rates[2]);
        Self { enabled, drop, delay, proposals, pause_ms }
    }
}
